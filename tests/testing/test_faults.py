"""Each fault does what it says to exactly what it says, and undoes itself where it should."""

import math
import subprocess
import sys

import pytest
import torch
from torch import nn

from surefoot import testing
from surefoot.errors import UsageError
from surefoot.testing import (
    corrupt_batch,
    drop_gradients,
    fake_fp8,
    feed_inputs,
    flip_bit,
    flip_gradient_bit,
    forget_moments,
    fp8_linears,
    put_weights_back,
    replace_gradients,
    reset_step_counter,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_flip_bit_of_every_float_format():
    x = torch.tensor([1.0, 0.75, -3.0])
    assert flip_bit(x, 1, 31) == (0.75, -0.75)
    assert flip_bit(x, 1, 31) == (-0.75, 0.75)  # twice is not at all
    assert flip_bit(x, 1, 23) == (0.75, 1.5)  # lowest exponent bit
    assert flip_bit(x, 0, 30) == (1.0, math.inf)
    assert x.tolist() == [math.inf, 1.5, -3.0]
    b = torch.tensor([1.0], dtype=torch.bfloat16)
    assert flip_bit(b, 0, 15) == (1.0, -1.0)
    assert flip_bit(b, 0, 7) == (-1.0, -0.5)
    assert flip_bit(torch.tensor([1.0], dtype=torch.float64), 0, 63)[1] == -1.0
    assert flip_bit(torch.tensor([1.0], dtype=torch.float16), 0, 10)[1] == 0.5


def test_flip_bit_reaches_a_parameter_and_only_one_element():
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    flip_bit(layer.weight, 4, 30)
    assert (layer.weight.flatten() != before.flatten()).tolist() == [False] * 4 + [True, False]


@pytest.mark.parametrize(
    ("tensor", "index", "bit", "said"),
    [
        (torch.zeros(2), 2, 0, "index=2: the tensor has elements 0 to 1"),
        (torch.zeros(2), 0, 32, "bit=32: torch.float32 has bits 0 to 31"),
        (torch.zeros(2, dtype=torch.int32), 0, 0, "bits of floats, got torch.int32"),
        (torch.zeros(3, 2).T, 0, 0, "pass tensor.contiguous()"),
    ],
)
def test_flip_bit_says_what_it_needs(tensor, index, bit, said):
    with pytest.raises(UsageError) as caught:
        flip_bit(tensor, index, bit)
    assert said in str(caught.value)


def test_corrupt_batch():
    batch = torch.arange(40).reshape(4, 10)
    bad = corrupt_batch(batch, "one-token", vocab_size=7, generator=generator(), share=0.5)
    assert len(set(bad[:2].flatten().tolist())) == 1
    assert bad[:2].max() < 7
    assert torch.equal(bad[2:], batch[2:])
    shuffled = corrupt_batch(batch, "shuffled", vocab_size=40, generator=generator())
    assert torch.equal(shuffled.sort(dim=1).values, batch)  # the same tokens in each sequence
    assert not torch.equal(shuffled, batch)
    random = corrupt_batch(batch, "random", vocab_size=5, generator=generator())
    assert set(random.flatten().tolist()) == set(range(5))
    again = corrupt_batch(batch, "random", vocab_size=5, generator=generator())
    assert torch.equal(random, again)
    assert batch[0, 0] == 0  # a copy
    assert batch[3, 9] == 39


def test_corrupt_batch_says_what_it_needs():
    batch = torch.zeros(2, 2, dtype=torch.int64)
    with pytest.raises(UsageError, match="unknown damage 'noise': expected random, one-token"):
        corrupt_batch(batch, "noise", vocab_size=3, generator=generator())
    with pytest.raises(UsageError, match="share=0"):
        corrupt_batch(batch, "random", vocab_size=3, generator=generator(), share=0)


def test_feed_inputs_replaces_what_the_model_sees_and_only_inside():
    model = nn.Embedding(5, 2)
    zeros, ones = torch.zeros(3, dtype=torch.int64), torch.ones(3, dtype=torch.int64)
    with feed_inputs(model, ones):
        assert torch.equal(model(zeros), model.weight[ones])
    assert torch.equal(model(zeros), model.weight[zeros])


def two_layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 1, bias=False))


def gradients(model, x):
    model.zero_grad()
    model(x).sum().backward()
    return [p.grad.clone() for p in model.parameters()]


def test_drop_gradients_takes_the_given_share_of_the_given_ones():
    model, x = two_layers(), torch.ones(2, 3)
    first, second = gradients(model, x)
    with drop_gradients([model[0].weight], keep=0.25):
        lost, kept = gradients(model, x)
    assert torch.equal(lost, 0.25 * first)
    assert torch.equal(kept, second)
    with drop_gradients([model[1].weight]):
        kept, lost = gradients(model, x)
    assert torch.equal(kept, first)  # what flows through the layer is not lost
    assert not lost.any()
    assert torch.equal(gradients(model, x)[0], first)


def test_flip_gradient_bit_changes_one_element_of_one_gradient():
    model, x = two_layers(), torch.ones(2, 3)
    clean = gradients(model, x)
    with flip_gradient_bit(model[0].weight, 5, 31):
        changed = gradients(model, x)
    assert (changed[0] != clean[0]).flatten().nonzero().tolist() == [[5]]
    assert changed[0].flatten()[5] == -clean[0].flatten()[5]
    assert torch.equal(changed[1], clean[1])


def test_replace_gradients_mixes_by_weight():
    model, x = two_layers(), torch.ones(2, 3)
    clean = gradients(model, x)[1]
    with replace_gradients({model[1].weight: torch.full((1, 3), 8.0)}, weight=0.25):
        mixed = gradients(model, x)[1]
    torch.testing.assert_close(mixed, 0.75 * clean + 2.0)


def test_stale_rank_takes_its_gradient_at_its_own_weights_and_keeps_its_distance():
    model, x = two_layers(), torch.ones(2, 3)
    stale = {name: p.detach() + 1.0 for name, p in model.named_parameters()}
    rank = testing.StaleRank(model, stale)

    def expected():
        other = two_layers()
        with torch.no_grad():
            for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
                mine.copy_(theirs + 1.0)
        return gradients(other, x)

    for _ in range(2):
        found = rank.gradients(lambda module: module(x).sum().backward())
        for parameter, right in zip(model.parameters(), expected(), strict=True):
            torch.testing.assert_close(found[parameter], right)
        with torch.no_grad():  # an update that every rank takes
            model[0].weight.mul_(0.5)


def test_fake_fp8_rounds_saturates_and_flushes():
    x = torch.tensor([1.0625, 17.0, 19.0, 1e9, 2.0**-10, 1.5 * 2.0**-10])
    assert fake_fp8(x).tolist() == [1.0, 16.0, 20.0, 448.0, 0.0, 2.0**-9]
    assert fake_fp8(torch.tensor([1e9]), format="e5m2").tolist() == [57344.0]
    assert fake_fp8(x, scale=2.0**-9)[3] == 448.0 * 2**9
    assert fake_fp8(torch.ones(1, dtype=torch.bfloat16)).dtype == torch.bfloat16
    with pytest.raises(UsageError, match="unknown format 'e3m4'"):
        fake_fp8(x, format="e3m4")


def test_fp8_linears_quantise_forward_and_backward_and_only_inside():
    torch.manual_seed(1)
    layer, x = nn.Linear(4, 2, bias=False), torch.randn(3, 4)
    exact = layer(x)
    with fp8_linears([layer], input_scale=8.0, weight_scale=64.0, grad_scale=2.0):
        y = layer(x)
        y.backward(torch.full_like(y, 0.3))
    torch.testing.assert_close(y, fake_fp8(x, 8.0) @ fake_fp8(layer.weight, 64.0).T)
    quantised = fake_fp8(torch.full((3, 2), 0.3), 2.0, "e5m2")
    torch.testing.assert_close(layer.weight.grad, quantised.T @ fake_fp8(x, 8.0))
    assert not torch.equal(y, exact)
    assert torch.equal(layer(x), exact)
    with pytest.raises(UsageError, match="without bias"), fp8_linears([nn.Linear(2, 2)]):
        pass


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_fp8_linears_work_under_autocast(dtype):
    torch.manual_seed(1)
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 2, bias=False)
    x = torch.randn(3, 4, requires_grad=True)
    with fp8_linears([first, second]), torch.autocast("cpu", dtype=dtype):
        y = second(first(x))
    y.float().sum().backward()
    assert y.dtype == dtype
    assert first.weight.grad.dtype == x.grad.dtype == torch.float32
    exact = second.weight.sum(0, keepdim=True).T @ x.sum(0, keepdim=True)
    torch.testing.assert_close(first.weight.grad, exact, rtol=0.15, atol=0.15)


def trained(fused=True):
    model = two_layers()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused)
    for _ in range(4):
        gradients(model, torch.ones(2, 3))
        optimizer.step()
    return model, optimizer


def test_states_that_a_resume_loses():
    model, optimizer = trained()
    reset_step_counter(optimizer)
    moments = [s["exp_avg"].clone() for s in optimizer.state.values()]
    assert all(s["step"] == 0 for s in optimizer.state.values())
    assert all(bool(m.any()) for m in moments)
    forget_moments(optimizer)
    assert not optimizer.state
    gradients(model, torch.ones(2, 3))
    optimizer.step()
    assert all(s["step"] == 1 for s in optimizer.state.values())


def test_put_weights_back_leaves_the_optimizer_alone():
    model, optimizer = trained()
    old = {name: p.detach() - 1 for name, p in model.named_parameters() if name == "0.weight"}
    kept = model[1].weight.detach().clone()
    steps = [float(s["step"]) for s in optimizer.state.values()]
    put_weights_back(model, old)
    assert torch.equal(model[0].weight, old["0.weight"])
    assert torch.equal(model[1].weight, kept)
    assert [float(s["step"]) for s in optimizer.state.values()] == steps


def test_truths_are_read_without_torch():
    code = "import sys, surefoot.testing as t; t.Truth; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'flip_bits'"):
        _ = testing.flip_bits
