"""Gradient and parameter norms against float64, and what counts as a parameter."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from surefoot.errors import UsageError
from surefoot.signals import Meter, parameters
from surefoot.signals.parameters import plain_name


def _meter(model: nn.Module) -> Meter:
    return Meter(model, torch.optim.SGD(model.parameters(), lr=0.0))


def _record(meter, step=1):
    meter.after_update(step)
    meter.record(step, 0, {})
    return meter.flush()


def _exact(tensors):
    return np.array([float(t.detach().double().norm()) for t in tensors])


def test_norms_of_gradients_and_parameters_match_float64(toy, backward):
    backward(toy)
    meter = _meter(toy)
    norms = meter.norms(1)
    record = _record(meter)

    gradients, weights = _exact(p.grad for p in toy.parameters()), _exact(toy.parameters())
    np.testing.assert_allclose(record.places["grad_norm"], gradients, rtol=3e-7)
    np.testing.assert_allclose(record.places["param_norm"], weights, rtol=3e-7)
    assert record.values["grad_norm"] == float(norms.total)
    assert record.values["grad_norm"] == pytest.approx(np.linalg.norm(gradients), rel=3e-7)
    assert record.values["param_norm"] == pytest.approx(np.linalg.norm(weights), rel=3e-7)
    assert meter.places["grad_norm"] == ("0.weight", "1.weight", "1.bias", "3.weight", "3.bias")
    assert float(norms.found_inf) == 0


@pytest.mark.parametrize(("dtype", "rel"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-5)])
def test_norms_of_a_large_tensor_are_exact_to_float32(dtype, rel):
    """Adding 3 million squares in float32 one after the other would be 5e-5 off."""
    model = nn.Linear(1500, 2000, bias=False).to(dtype)
    model.weight.grad = torch.randn(2000, 1500).to(dtype)
    meter = _meter(model)
    meter.norms(1)
    record = _record(meter)
    for name, tensor in (("grad_norm", model.weight.grad), ("param_norm", model.weight)):
        assert record.places[name].dtype == np.float32
        assert record.places[name][0] == pytest.approx(
            float(tensor.detach().double().norm()), rel=rel
        )


def test_a_gradient_left_as_zeros_or_none_counts_zero(toy, backward):
    backward(toy)
    toy[1].weight.grad = None
    toy[1].bias.grad.zero_()
    meter = _meter(toy)
    total = float(meter.norms(1).total)
    norms = _record(meter).places["grad_norm"]
    assert norms[1] == norms[2] == 0
    assert norms[0] > 0
    assert norms[3] == pytest.approx(float(toy[3].weight.grad.norm()))
    assert total == pytest.approx(math.sqrt(float(np.square(norms).sum())), rel=1e-6)


def test_a_missing_gradient_of_many_chunks_does_not_shift_the_others(toy, backward, monkeypatch):
    monkeypatch.setattr(parameters, "CHUNK_ON_CPU", 7)
    backward(toy)
    toy[1].weight.grad = None
    meter = _meter(toy)
    meter.norms(1)
    found = _record(meter).places
    gradients = [torch.zeros(()) if p.grad is None else p.grad for p in toy.parameters()]
    np.testing.assert_allclose(found["grad_norm"], _exact(gradients), rtol=3e-7)
    np.testing.assert_allclose(found["param_norm"], _exact(toy.parameters()), rtol=3e-7)


def test_frozen_parameters_have_no_place_and_tied_ones_one():
    model = nn.Sequential(nn.Embedding(12, 6), nn.Linear(6, 12), nn.Linear(12, 6))
    model[1].weight = model[0].weight
    model[2].requires_grad_(False)
    model[1](model[0](torch.arange(5))).square().sum().backward()
    meter = _meter(model)
    total = float(meter.norms(1).total)
    record = _record(meter)
    assert meter.places["grad_norm"] == ("0.weight", "1.bias")
    counted = [model[0].weight, model[1].bias]
    assert total == pytest.approx(np.linalg.norm(_exact(p.grad for p in counted)), rel=1e-6)
    assert record.values["param_norm"] == pytest.approx(np.linalg.norm(_exact(counted)), rel=1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 3e38])
def test_found_inf_is_set_by_one_bad_number_and_by_overflow_of_the_norm(toy, backward, bad):
    backward(toy)
    toy[3].weight.grad[2, 4] = bad
    assert float(_meter(toy).norms(1).found_inf) == 1


def test_unscaling_divides_the_norms_and_leaves_the_gradients(toy, backward):
    backward(toy)
    before = [p.grad.clone() for p in toy.parameters()]
    plain = _meter(toy).norms(1)
    for p in toy.parameters():
        p.grad.mul_(1024)
    meter = _meter(toy)
    scaled = meter.norms(1, unscale=torch.tensor(1024.0))
    assert torch.equal(scaled.total, plain.total)
    for p, gradient in zip(toy.parameters(), before, strict=True):
        assert torch.equal(p.grad, gradient * 1024)
    np.testing.assert_allclose(_record(meter).places["grad_norm"], _exact(before), rtol=3e-7)


def test_measuring_a_step_again_starts_it_over(toy, backward):
    backward(toy)
    meter = _meter(toy)
    meter.norms(1)
    toy[0].weight.grad.zero_()
    meter.norms(1)
    assert _record(meter).places["grad_norm"][0] == 0


def test_norms_do_not_enter_the_autograd_graph(toy, backward):
    loss = toy(torch.arange(4)).sum()
    loss.backward()
    meter = _meter(toy)
    assert not meter.norms(1).total.requires_grad
    assert not any(part.requires_grad for _, part in meter._parts)
    meter.after_update(1)
    assert not any(part.requires_grad for _, part in meter._parts)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("module.layers.0.attention.wo.weight", "layers.0.attention.wo.weight"),
        ("_orig_mod.head.weight", "head.weight"),
        ("module._orig_mod.head.weight", "head.weight"),
        ("layers.0._orig_mod.module.weight", "layers.0.module.weight"),
    ],
)
def test_names_are_those_of_the_bare_model(name, plain):
    assert plain_name(name) == plain


def test_no_gradient_at_all_is_a_usage_error(toy):
    with pytest.raises(UsageError, match=r"no parameter has a gradient at step 3.*zero_grad"):
        _meter(toy).norms(3)


def test_a_sparse_gradient_is_a_usage_error():
    model = nn.Embedding(8, 2, sparse=True)
    model(torch.arange(3)).sum().backward()
    with pytest.raises(UsageError, match="got a sparse one"):
        _meter(model).norms(1)


def test_a_model_without_trainable_parameters_is_a_usage_error(toy):
    optimizer = torch.optim.SGD(toy.parameters(), lr=0.0)
    with pytest.raises(UsageError, match="Sequential has no trainable parameter"):
        Meter(toy.requires_grad_(False), optimizer)


def test_parameters_on_two_devices_are_a_usage_error():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta"))
    with pytest.raises(UsageError, match="got parameters on cpu, meta"):
        _meter(model)


def test_sharded_parameters_are_a_usage_error(tmp_path):
    import torch.distributed as dist

    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import distribute_tensor

        model = nn.Linear(2, 2)
        mesh = init_device_mesh("cpu", (1,))
        model.weight = nn.Parameter(distribute_tensor(model.weight.detach(), mesh))
        with pytest.raises(UsageError, match=r"got sharded ones \(DTensor\)"):
            _meter(model)
    finally:
        dist.destroy_process_group()


def test_a_sampling_period_below_one_is_a_usage_error(toy):
    optimizer = torch.optim.SGD(toy.parameters(), lr=0.0)
    with pytest.raises(UsageError, match="sample_every counts steps from 1, got 0"):
        Meter(toy, optimizer, sample_every=0)
