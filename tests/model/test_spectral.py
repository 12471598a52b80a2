"""sigmaReparam against a full decomposition, through training, saving and the meta device."""

import copy
import math

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parametrize

from surefoot.errors import UsageError
from surefoot.model import Decoder, SigmaReparam, keep_spectral_norms, sigma_reparametrise
from surefoot.model.spectral import leading_vectors


def linear(rows=6, columns=9, *, seed=1, dtype=torch.float64):
    layer = nn.Linear(columns, rows, bias=False, dtype=dtype)
    with torch.no_grad():
        layer.weight.normal_(generator=torch.Generator().manual_seed(seed))
    sigma_reparametrise(layer)
    return layer


def inside(layer):
    chain = layer.parametrizations.weight
    return chain.original, chain[0]


def largest(matrix):
    return torch.linalg.svdvals(matrix.detach().double())[0].item()


@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (1, 7), (7, 1), (40, 40)], ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_weight_has_the_spectral_norm_gamma(shape, training):
    layer = linear(*shape).train(training)
    original, step = inside(layer)
    assert largest(layer.weight) == pytest.approx(1, rel=1e-6)
    with torch.no_grad():
        step.gamma.fill_(3.5)
    torch.testing.assert_close(
        layer.weight, 3.5 * original / largest(original), rtol=1e-6, atol=0
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(400, 400), (100, 300), (3, 5)], ids=str)
def test_leading_vectors(shape):
    # A Gaussian matrix has its largest singular values close together, the slow case.
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    u, v = leading_vectors(matrix)
    assert u.norm().item() == pytest.approx(1)
    assert v.norm().item() == pytest.approx(1)
    assert (u @ matrix @ v).item() == pytest.approx(largest(matrix), rel=1e-3)
    again = leading_vectors(matrix)
    assert torch.equal(u, again[0])
    assert torch.equal(v, again[1])


def test_one_power_iteration_in_training_and_none_in_evaluation():
    layer = linear()
    original, step = inside(layer)
    _ = layer.weight
    with torch.no_grad():  # far from where the vectors point
        original.normal_(generator=torch.Generator().manual_seed(9))
    u, v = step.u.clone(), step.v.clone()
    layer.eval()
    for _ in range(2):
        expected = original / (u @ original @ v)
        torch.testing.assert_close(layer.weight, expected, rtol=1e-12, atol=0)
        assert torch.equal(step.u, u)
    layer.train()
    for _ in range(3):
        u = original @ v / (original @ v).norm()
        v = original.T @ u / (original.T @ u).norm()
        torch.testing.assert_close(
            layer.weight, original / (u @ original @ v), rtol=1e-12, atol=0
        )  # fmt: skip
        torch.testing.assert_close(step.u, u.detach(), rtol=1e-12, atol=0)
        torch.testing.assert_close(step.v, v.detach(), rtol=1e-12, atol=0)
        u, v = u.detach(), v.detach()


def test_gradient_takes_the_vectors_as_constants():
    layer = linear()
    original, step = inside(layer)
    _ = layer.weight
    up = torch.randn(6, 9, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    (layer.weight * up).sum().backward()
    u, v = step.u, step.v
    sigma = u @ original @ v
    expected = (up - (up * original).sum() / sigma * torch.outer(u, v)) / sigma
    torch.testing.assert_close(original.grad, expected, rtol=1e-10, atol=1e-12)
    assert step.gamma.grad.item() == pytest.approx(((up * original).sum() / sigma).item())


def test_several_passes_before_one_backward_pass():
    layer = linear().train()
    first = layer.weight.square().sum()
    second = layer.weight.sum()
    third = layer.eval().weight.sum()
    _ = layer.train().weight
    (first + second + third).backward()  # raises if a pass changed what another saved
    assert inside(layer)[0].grad.any()


def test_vectors_follow_a_matrix_that_is_trained():
    layer = linear(24, 24, dtype=torch.float32).train()
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-3)
    target = torch.randn(24, 24, generator=torch.Generator().manual_seed(3))
    for _ in range(200):
        optimizer.zero_grad()
        (layer.weight - target).square().mean().backward()
        optimizer.step()
    original, step = inside(layer)
    assert (step.u @ original @ step.v).item() == pytest.approx(largest(original), rel=0.02)
    assert largest(layer.weight) == pytest.approx(abs(step.gamma.item()), rel=0.02)


@pytest.mark.parametrize("wanted", [torch.bfloat16, torch.float32])
def test_sigma_is_fp32_whatever_the_weights_are(wanted):
    layer = linear(32, 32, dtype=wanted)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        weight = layer.weight
    assert weight.dtype == wanted
    expected = inside(layer)[0].double() / largest(inside(layer)[0])
    tolerance = {torch.bfloat16: 2e-2, torch.float32: 1e-5}[wanted]
    torch.testing.assert_close(weight.double(), expected, rtol=tolerance, atol=0)


def test_a_matrix_of_zeros_is_refused():
    layer = linear()
    with torch.no_grad():
        inside(layer)[0].zero_()
    with pytest.raises(UsageError, match=r"shape \(6, 9\) is 0 .* needs an initialisation"):
        _ = layer.weight
    with pytest.raises(UsageError, match="is 0 and has no direction"):
        keep_spectral_norms(layer)


def test_nan_stays_visible():
    layer = linear()
    _ = layer.weight
    with torch.no_grad():
        inside(layer)[0][0, 0] = math.nan
    assert layer.weight.isnan().any()


def test_new_values_after_the_first_use():
    layer = linear().eval()
    original, step = inside(layer)
    _ = layer.weight
    with torch.no_grad():
        original.normal_(generator=torch.Generator().manual_seed(9))
    assert largest(layer.weight) > 1.1
    with torch.no_grad():
        step.gamma.fill_(3.0)
    step.reset_parameters()
    assert largest(layer.weight) == pytest.approx(1, rel=1e-6)


def test_keep_spectral_norms():
    layer = linear()
    original, step = inside(layer)
    keep_spectral_norms(nn.Sequential(layer, nn.Linear(2, 2)))
    assert step.gamma.item() == pytest.approx(largest(original), rel=1e-6)
    torch.testing.assert_close(layer.weight, original, rtol=1e-6, atol=0)


def test_every_matrix_of_the_blocks_and_no_other(make_model):
    model = make_model(sigma_reparam=True, experts=2)
    found = {name for name, m in model.named_modules() if parametrize.is_parametrized(m)}
    linears = {name for name, m in model.layers.named_modules() if isinstance(m, nn.Linear)}
    assert found == {f"layers.{name}" for name in linears}
    assert len(found) == 2 * (4 + 1 + 2 * 3)


def run(model, tokens, steps=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        model(tokens).square().mean().backward()
        optimizer.step()


def test_saved_loaded_and_copied_it_goes_on_bit_by_bit(make_model, tokens):
    model = make_model(sigma_reparam=True)
    run(model, tokens)
    state = {name: t.clone() for name, t in model.state_dict().items()}
    copied = copy.deepcopy(model)
    with torch.device("meta"):
        loaded = Decoder(model.architecture)
    loaded.to_empty(device="cpu")
    loaded.load_state_dict(state)
    run(model, tokens)
    for other in (copied, loaded):
        run(other, tokens)
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, other.state_dict()[name]), name


@pytest.mark.parametrize("left", [0.0, math.nan, 7.0])
def test_what_was_in_memory_is_not_taken_for_vectors(left, make_model, tokens):
    model = make_model(sigma_reparam=True).eval()
    with torch.no_grad():
        expected = model(tokens)
        other = make_model(sigma_reparam=True).eval()
        for module in other.modules():
            if isinstance(module, SigmaReparam):
                module.u.fill_(left)
                module.v.fill_(left)
        assert torch.equal(other(tokens), expected)


def test_a_state_from_before_the_first_use(make_model, tokens):
    fresh = make_model(sigma_reparam=True).state_dict()
    assert not fresh["layers.0.attention.wq.parametrizations.weight.0.u"].any()
    model = make_model(sigma_reparam=True, seed=1).eval()
    other = make_model(sigma_reparam=True).eval()
    with torch.no_grad():
        model(tokens)
        model.load_state_dict(fresh)
        assert torch.equal(model(tokens), other(tokens))


def test_evaluation_changes_nothing_that_is_saved(make_model, tokens):
    model = make_model(sigma_reparam=True)
    run(model, tokens, steps=1)
    before = {name: t.clone() for name, t in model.state_dict().items()}
    with torch.no_grad():
        model.eval()(tokens)
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())


def test_data_parallel(make_model, tokens, tmp_path):
    model, plain = make_model(sigma_reparam=True), make_model(sigma_reparam=True)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        wrapped = DistributedDataParallel(model)
        loss = wrapped(tokens[:1]).square().mean()
        loss = loss + wrapped(tokens[1:]).square().mean()  # accumulated
        loss.backward()
    finally:
        dist.destroy_process_group()
    (plain(tokens[:1]).square().mean() + plain(tokens[1:]).square().mean()).backward()
    for (name, a), b in zip(model.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-7, msg=name)
