"""The loss sums against a plain version in float64, value and gradient."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.model import loss as module
from surefoot.model import loss_sums

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}


def reference(logits, targets, ignore_index=-100):
    """(cross_entropy, tokens, log_z, log_z_squared, log_z_abs_max), float64, plain operations."""
    x = logits.double().flatten(0, -2)
    t = targets.flatten()
    x, t = x[t != ignore_index], t[t != ignore_index]
    peak = x.detach().amax(-1, keepdim=True)
    log_z = (peak + (x - peak).exp().sum(-1, keepdim=True).log()).squeeze(1)
    ce = (log_z - x[torch.arange(len(t)), t]).sum()
    largest = max((abs(z) for z in log_z.tolist()), default=0.0)
    return (
        ce,
        torch.tensor(len(t)),
        log_z.sum(),
        (log_z**2).sum(),
        torch.tensor(largest, dtype=torch.float64),
    )


def both(logits, targets, a, b, ignore_index=-100):
    """Sums and gradient of a·cross_entropy + b·log_z², ours and the reference's."""
    ours = logits.detach().clone().requires_grad_()
    sums = loss_sums(ours, targets, ignore_index)
    (a * sums.cross_entropy + b * sums.log_z_squared).backward()
    exact = logits.detach().double().requires_grad_()
    expected = reference(exact, targets, ignore_index)
    (a * expected[0] + b * expected[3]).backward()
    return sums, ours.grad, expected, exact.grad


@settings(deadline=None, max_examples=60)
@given(
    shape=st.sampled_from([(1,), (7,), (3, 5), (2, 2, 3)]),
    vocab=st.integers(1, 40),
    spread=st.sampled_from([0.1, 1.0, 30.0]),
    shift=st.sampled_from([0.0, -50.0, 200.0]),
    dtype=st.sampled_from(list(TOLERANCE)),
    ignored=st.sampled_from([0.0, 0.5, 1.0]),
    block=st.sampled_from([1, 64, 2**18]),
    seed=st.integers(0, 10**6),
)
def test_against_reference(shape, vocab, spread, shift, dtype, ignored, block, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = (shift + spread * torch.randn(*shape, vocab, generator=generator)).to(dtype)
    targets = torch.randint(vocab, shape, generator=generator)
    targets[torch.rand(shape, generator=generator) < ignored] = -100
    before, module._BLOCK["cpu"] = module._BLOCK["cpu"], block
    try:
        sums, grad, expected, exact = both(logits, targets, 0.7, 1e-2)
    finally:
        module._BLOCK["cpu"] = before
    kept = torch.promote_types(dtype, torch.float32)
    assert {s.dtype for s in sums} == {kept}
    assert all(s.ndim == 0 for s in sums)
    # Sums are exact up to the format they are made in, whatever that of the logits.
    for got, want in zip(sums, expected, strict=True):
        scale = 1 + abs(shift) + 5 * spread
        error = TOLERANCE[kept] * scale**2 * targets.numel()
        assert got.item() == pytest.approx(want.item(), rel=TOLERANCE[kept], abs=error)
    assert grad.dtype == dtype
    size = 1 + 2e-2 * (abs(shift) + 5 * spread)
    assert (grad.double() - exact).abs().max() <= 4 * TOLERANCE[dtype] * size
    assert not grad[targets == -100].any()


def test_equals_cross_entropy_of_torch():
    logits = torch.randn(64, 300, generator=torch.Generator().manual_seed(1), requires_grad=True)
    targets = torch.arange(64)
    targets[::5] = 7
    sums = loss_sums(logits, targets, ignore_index=7)
    expected = F.cross_entropy(logits, targets, ignore_index=7, reduction="sum")
    torch.testing.assert_close(sums.cross_entropy, expected)
    assert sums.tokens == (targets != 7).sum()
    ours = torch.autograd.grad(sums.cross_entropy, logits)[0]
    torch.testing.assert_close(ours, torch.autograd.grad(expected, logits)[0])


def test_gradcheck():
    generator = torch.Generator().manual_seed(2)
    logits = 3 * torch.randn(5, 6, dtype=torch.float64, generator=generator)
    targets = torch.tensor([0, 5, -100, 2, 2])

    def differentiable(x):
        sums = loss_sums(x, targets)
        return sums.cross_entropy, sums.log_z_squared

    assert torch.autograd.gradcheck(differentiable, (logits.requires_grad_(),))


def test_second_derivatives():
    logits = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([1, -100, 3])

    def differentiable(x):
        sums = loss_sums(x, targets)
        return sums.cross_entropy, sums.log_z_squared

    assert torch.autograd.gradgradcheck(differentiable, (logits,))


def test_backward_twice_on_one_graph():
    logits = torch.randn(4, 5, requires_grad=True)
    loss = loss_sums(logits, torch.arange(4)).cross_entropy
    first = torch.autograd.grad(loss, logits, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(loss, logits)[0])


def test_gradient_of_a_sure_prediction_is_not_rounded_away():
    # 1 - p = 2.5e-4: in bf16 p is 1, and p - 1 would be 0.
    logits = torch.tensor([[8.25, 0.0]], dtype=torch.bfloat16, requires_grad=True)
    loss_sums(logits, torch.tensor([0])).cross_entropy.backward()
    rest = 1 / (1 + math.exp(8.25))
    assert logits.grad[0].tolist() == pytest.approx([-rest, rest], rel=1e-2)


def test_nothing_counted():
    logits = torch.randn(3, 5, requires_grad=True)
    sums = loss_sums(logits, torch.full((3,), -100))
    assert [s.item() for s in sums] == [0, 0, 0, 0, 0]
    (sums.cross_entropy + sums.log_z_squared).backward()
    assert not logits.grad.any()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_shows(bad):
    logits = torch.zeros(4, 5, requires_grad=True)
    with torch.no_grad():
        logits[1, 2] = bad
    sums = loss_sums(logits, torch.tensor([0, 2, 1, 3]))
    assert sums.cross_entropy.isnan()
    for value in (sums.log_z, sums.log_z_squared, sums.log_z_abs_max):
        assert not value.isfinite()
    sums.cross_entropy.backward()
    assert not logits.grad[1].isfinite().all()
    assert logits.grad[0].isfinite().all()


def test_masked_vocabulary_is_no_trouble():
    logits = torch.tensor([[0.0, -math.inf, 1.0]], requires_grad=True)
    sums = loss_sums(logits, torch.tensor([2]))
    sums.cross_entropy.backward()
    assert sums.cross_entropy.item() == pytest.approx(math.log(1 + math.exp(-1)))
    assert logits.grad[0, 1] == 0
    assert logits.grad.isfinite().all()


def test_log_z_keeps_its_sign_and_largest_its_size():
    logits = torch.tensor([[-9.0], [4.0], [1.0]])
    sums = loss_sums(logits, torch.zeros(3, dtype=torch.int64))
    assert (sums.log_z, sums.log_z_squared, sums.log_z_abs_max) == (-4, 81 + 16 + 1, 9)


def test_target_out_of_range():
    with pytest.raises((IndexError, RuntimeError)):
        loss_sums(torch.zeros(2, 3), torch.tensor([0, 3]))


def test_large_sums_stay_exact():
    # 2^16 tokens of loss ln 2 each: adding them one by one in fp32 would drift.
    sums = loss_sums(torch.zeros(2**16, 2), torch.zeros(2**16, dtype=torch.int64))
    assert sums.cross_entropy.item() == pytest.approx(2**16 * math.log(2), rel=1e-6)
    assert sums.tokens == 2**16


def test_temporary_memory_is_one_gradient():
    """Counted, not timed: beside the gradient nothing is allocated but a block at a time."""
    logits = torch.randn(2000, 1000).requires_grad_()
    targets = torch.zeros(2000, dtype=torch.int64)
    with torch.profiler.profile(profile_memory=True) as profile:
        loss_sums(logits, targets).cross_entropy.backward()
    usage = [event.self_cpu_memory_usage for event in profile.events()]
    assert [size for size in usage if size > 1.5 * 4 * module._BLOCK["cpu"]] == [logits.nbytes]
