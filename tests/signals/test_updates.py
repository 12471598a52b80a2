"""Update sizes against the difference of the weights, RMS_t and eps_share against definitions."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim import SGD, Adam, AdamW, NAdam, RAdam, RMSprop

from surefoot.optim import guarded_step
from surefoot.signals import Meter, parameters

SAMPLED = (
    "adam_rms", "eps_share", "second_moment_lag", "update_rms", "update_ratio", "adam_update_rms",
    "update_bimodality", "update_large_share",
)  # fmt: skip


def _weights(model):
    return [p.detach().double().clone() for p in model.parameters()]


def _step(model, optimizer, meter, step, backward, before_step=lambda: None):
    """One step; the record, and the true change of each parameter."""
    backward(model)
    meter.norms(step)
    before_step()
    old = _weights(model)
    optimizer.step()
    meter.after_update(step)
    meter.record(step, 0, {})
    new = _weights(model)
    gradients = [p.grad for p in model.parameters()]
    optimizer.zero_grad()
    change = [float((n - o).norm()) for n, o in zip(new, old, strict=True)]
    return meter.flush(), np.array(change), new, gradients


def _check_update(record, change, new, rtol=2e-5):
    sizes = np.array([w.numel() for w in new])
    norms = np.array([float(w.norm()) for w in new])
    places, values = record.places, record.values
    np.testing.assert_allclose(places["update_rms"], change / np.sqrt(sizes), rtol=rtol)
    np.testing.assert_allclose(places["update_ratio"], change / norms, rtol=rtol)
    total = np.linalg.norm(change)
    assert values["update_rms"] == pytest.approx(total / math.sqrt(sizes.sum()), rel=rtol)
    assert values["update_ratio"] == pytest.approx(total / np.linalg.norm(norms), rel=rtol)


OPTIMIZERS = {
    "adamw fused": lambda g: AdamW(g, lr=1e-2, fused=True),
    "adamw foreach": lambda g: AdamW(g, lr=1e-2, foreach=True),
    "adamw single": lambda g: AdamW(g, lr=1e-2, foreach=False),
    "adamw amsgrad": lambda g: AdamW(g, lr=1e-2, amsgrad=True, fused=True),
    "adamw maximize": lambda g: AdamW(g, lr=1e-2, maximize=True),
    "adamw no first moment": lambda g: AdamW(g, lr=1e-2, betas=(0.0, 0.9)),
    "adam": lambda g: Adam(g, lr=1e-2, betas=(0.8, 0.95), fused=True),
    "adam, lr a tensor": lambda g: Adam(
        [{**x, "lr": torch.tensor(5e-3)} for x in g], lr=torch.tensor(5e-3)
    ),
}


@pytest.mark.parametrize("build", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_update_is_the_difference_of_the_weights(toy, backward, groups, build):
    optimizer = build(groups(toy))
    meter = Meter(toy, optimizer, sample_every=1)
    for step in range(1, 6):
        record, change, new, _ = _step(toy, optimizer, meter, step, backward)
        assert (change > 0).all()
        _check_update(record, change, new)


@settings(deadline=None, max_examples=25)
@given(
    lr=st.floats(1e-3, 0.5),
    beta1=st.floats(0.0, 0.99),
    beta2=st.floats(0.5, 0.9999),
    eps=st.sampled_from([1e-15, 1e-8, 1e-3, 0.1]),
    decay=st.floats(0.0, 1.0),
    steps=st.integers(1, 12),
    chunk=st.sampled_from([5, 64, 10**6]),
)
def test_update_is_the_difference_for_any_setting(lr, beta1, beta2, eps, decay, steps, chunk):
    torch.manual_seed(1)
    model = nn.Linear(7, 5)
    optimizer = AdamW(
        model.parameters(), lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=decay, fused=True
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parameters, "CHUNK_ON_CPU", chunk)
        meter = Meter(model, optimizer, sample_every=1)

    def backward(model):
        model(torch.randn(4, 7)).square().sum().backward()

    for step in range(1, steps + 1):
        record, change, new, _ = _step(model, optimizer, meter, step, backward)
    # Weights of size w are known to 6e-8 w, so a change c of one is known to 6e-8 w / c.
    rounding = 4e-7 * max(float(w.norm()) for w in new) / change.min()
    _check_update(record, change, new, rtol=2e-5 + rounding)


def test_adam_rms_and_eps_share_follow_their_definitions(toy, backward, groups):
    optimizer = AdamW(groups(toy), lr=1e-2, betas=(0.9, 0.95), fused=True)
    optimizer.param_groups[0]["eps"] = 1e-2  # near sqrt(v) of the matrices
    meter = Meter(toy, optimizer, sample_every=1)
    group_of = {p: g for g in optimizer.param_groups for p in g["params"]}
    for step in range(1, 5):
        record, _, _, gradients = _step(toy, optimizer, meter, step, backward)
        squares, shares, sizes = [], [], []
        for p, gradient in zip(toy.parameters(), gradients, strict=True):
            v = optimizer.state[p]["exp_avg_sq"].double() / (1 - 0.95**step)
            eps = group_of[p]["eps"]
            ratio = gradient.double() ** 2 / v.clamp(min=eps**2)
            squares.append(float(ratio.mean()))
            shares.append(float((v.sqrt() < eps).double().mean()))
            sizes.append(p.numel())
        np.testing.assert_allclose(record.places["adam_rms"], np.sqrt(squares), rtol=1e-5)
        np.testing.assert_allclose(record.places["eps_share"], shares, rtol=1e-6)
        assert 0 < record.places["eps_share"][1] < 1
        assert record.places["eps_share"][0] > 0  # rows of tokens that never occurred
        mean = np.average(squares, weights=sizes)
        assert record.values["adam_rms"] == pytest.approx(math.sqrt(mean), rel=1e-5)
        share = np.average(shares, weights=sizes)
        assert record.values["eps_share"] == pytest.approx(share, rel=1e-6)


def test_adam_rms_is_one_at_the_first_step_and_large_after_a_jump(toy, backward):
    optimizer = AdamW(toy.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-12, fused=True)
    meter = Meter(toy, optimizer, sample_every=1)
    record, *_ = _step(toy, optimizer, meter, 1, backward)
    np.testing.assert_allclose(record.places["adam_rms"][1:], 1, rtol=1e-5)
    for step in range(2, 30):
        record, *_ = _step(toy, optimizer, meter, step, backward)
    assert record.values["adam_rms"] < 2

    def jump():
        for p in toy.parameters():
            p.grad.mul_(100)

    record, *_ = _step(toy, optimizer, meter, 30, backward, before_step=jump)
    assert record.values["adam_rms"] > 4


def test_the_gradient_of_adam_rms_is_the_clipped_one_that_v_has_seen(toy, backward):
    optimizer = AdamW(toy.parameters(), lr=1e-3, eps=1e-12, fused=True)
    meter = Meter(toy, optimizer, sample_every=1)
    backward(toy)
    norms = meter.norms(1)
    guarded_step(optimizer, found_inf=norms.found_inf, grad_divisor=torch.tensor(50.0))
    meter.after_update(1)
    meter.record(1, 0, {})
    np.testing.assert_allclose(meter.flush().places["adam_rms"][1:], 1, rtol=1e-5)


@pytest.mark.parametrize("fused", [True, False])
def test_a_skipped_step_has_update_zero(toy, backward, fused):
    optimizer = AdamW(toy.parameters(), lr=1e-2, fused=fused)
    meter = Meter(toy, optimizer, sample_every=1)
    _step(toy, optimizer, meter, 1, backward)
    backward(toy)
    toy[1].bias.grad[0] = math.nan
    before = _weights(toy)
    guarded_step(optimizer, found_inf=meter.norms(2).found_inf)
    meter.after_update(2)
    meter.record(2, 0, {})
    record = meter.flush()
    assert all(torch.equal(a, b) for a, b in zip(before, _weights(toy), strict=True))
    assert (record.places["update_rms"] == 0).all()
    assert (record.places["update_ratio"] == 0).all()
    assert record.values["update_rms"] == record.values["update_ratio"] == 0
    assert math.isnan(record.values["grad_norm"])
    assert np.isnan(record.places["adam_rms"]).all()
    assert "adam_rms" not in record.values


def test_a_skipped_first_step_has_no_state_to_measure(toy, backward):
    """As with fp16 and a first loss scale that is too large: moments of zeros, counter 0."""
    optimizer = AdamW(toy.parameters(), lr=1e-2, fused=True)
    meter = Meter(toy, optimizer, sample_every=2)
    for step in (1, 2, 4):
        optimizer.zero_grad()
        backward(toy)
        if step < 4:
            toy[1].bias.grad[0] = math.inf
        old = _weights(toy)
        guarded_step(optimizer, found_inf=meter.norms(step).found_inf)
        meter.after_update(step)
        meter.record(step, 0, {})
        record = meter.flush()
        if step < 4:
            assert record.values.keys() == {"grad_norm", "param_norm"}
    change = np.array([float((n - o).norm()) for n, o in zip(_weights(toy), old, strict=True)])
    _check_update(record, change, _weights(toy))
    np.testing.assert_allclose(record.places["adam_rms"][1:], 1, rtol=1e-3)


def test_a_parameter_without_gradient_did_not_change(toy, backward):
    optimizer = AdamW(toy.parameters(), lr=1e-2)
    meter = Meter(toy, optimizer, sample_every=1)
    _step(toy, optimizer, meter, 1, backward)

    backward(toy)
    toy[1].weight.grad = None
    old = _weights(toy)
    meter.norms(2)
    optimizer.step()
    meter.after_update(2)
    meter.record(2, 0, {})
    record = meter.flush()
    change = np.array([float((n - o).norm()) for n, o in zip(_weights(toy), old, strict=True)])
    assert change[1] == 0
    _check_update(record, change, _weights(toy))
    assert record.places["adam_rms"][1] == 0
    assert record.places["eps_share"][1] == 0


def test_a_parameter_that_never_had_a_gradient_has_no_state_and_no_change(toy, backward):
    toy.extra = nn.Linear(3, 3)
    toy.forward = lambda tokens: toy[3](toy[2](toy[1](toy[0](tokens))))
    optimizer = AdamW(toy.parameters(), lr=1e-2)
    meter = Meter(toy, optimizer, sample_every=1)
    record, change, new, _ = _step(toy, optimizer, meter, 1, backward)
    assert change[5] == change[6] == 0
    _check_update(record, change, new)
    assert np.isnan(record.places["adam_rms"][5:]).all()
    assert np.isnan(record.places["eps_share"][5:]).all()
    assert math.isfinite(record.values["adam_rms"])


def test_a_zero_parameter_that_did_not_change_has_ratio_zero():
    model = nn.Linear(4, 2)
    model.bias.data.zero_()
    optimizer = AdamW(model.parameters(), lr=1e-2)
    meter = Meter(model, optimizer, sample_every=1)

    def backward(model):
        model(torch.randn(3, 4)).square().sum().backward()
        model.bias.grad = None

    record, *_ = _step(model, optimizer, meter, 1, backward)
    assert record.places["update_ratio"][1] == 0
    assert record.places["update_ratio"][0] > 0


def test_the_learning_rate_is_the_one_the_update_used(toy, backward):
    for rate in (1e-2, torch.tensor(1e-2)):
        optimizer = AdamW(toy.parameters(), lr=rate)
        meter = Meter(toy, optimizer, sample_every=1)
        backward(toy)
        meter.norms(1)
        old = _weights(toy)
        optimizer.step()
        for group in optimizer.param_groups:  # what a scheduler does
            if isinstance(rate, torch.Tensor):
                group["lr"].fill_(5.0)
            else:
                group["lr"] = 5.0
        meter.after_update(1)
        meter.record(1, 0, {})
        new = _weights(toy)
        change = np.array([float((n - o).norm()) for n, o in zip(new, old, strict=True)])
        _check_update(meter.flush(), change, new)


def test_a_new_meter_on_a_resumed_optimizer_says_the_same(toy, backward):
    optimizer = AdamW(toy.parameters(), lr=1e-2, fused=True)
    meter = Meter(toy, optimizer, sample_every=2)
    for step in range(1, 4):
        _step(toy, optimizer, meter, step, backward)
    twin = copy.deepcopy(toy)
    resumed = AdamW(twin.parameters(), lr=1e-2, fused=True)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    state = torch.get_rng_state()
    first, *_ = _step(toy, optimizer, meter, 4, backward)
    torch.set_rng_state(state)
    second, *_ = _step(twin, resumed, Meter(twin, resumed, sample_every=2), 4, backward)
    assert first.values == second.values
    for name, place in first.places.items():
        np.testing.assert_array_equal(place, second.places[name])


def test_sampled_signals_come_at_the_first_step_and_at_multiples(toy, backward):
    optimizer = AdamW(toy.parameters(), lr=1e-2)
    meter = Meter(toy, optimizer, sample_every=3)
    for step in range(1, 8):
        record, change, new, _ = _step(toy, optimizer, meter, step, backward)
        sampled = step in (1, 3, 6)
        assert meter.is_sampled(step) == sampled
        assert {"grad_norm", "param_norm"} <= record.places.keys()
        for name in SAMPLED:
            assert (name in record.places) == (name in record.values) == sampled
        if sampled:
            _check_update(record, change, new)


@pytest.mark.parametrize("kind", [SGD, RMSprop])
def test_optimizers_without_adams_moments_lack_the_sampled_signals(toy, backward, kind):
    optimizer = kind(toy.parameters(), lr=1e-2)
    record, *_ = _step(toy, optimizer, Meter(toy, optimizer, sample_every=1), 1, backward)
    assert record.values.keys() == record.places.keys() == {"grad_norm", "param_norm"}


@pytest.mark.parametrize("kind", [NAdam, RAdam])
def test_other_rules_with_adams_moments_lack_the_update(toy, backward, kind):
    optimizer = kind(toy.parameters(), lr=1e-2)
    record, *_ = _step(toy, optimizer, Meter(toy, optimizer, sample_every=1), 1, backward)
    assert record.values.keys() == {
        "grad_norm", "param_norm", "adam_rms", "eps_share", "second_moment_lag",
    }  # fmt: skip
    np.testing.assert_allclose(record.places["adam_rms"][1:], 1, rtol=1e-4)


def test_bf16_parameters_and_moments(backward, toy):
    toy.to(torch.bfloat16)
    optimizer = AdamW(toy.parameters(), lr=0.3, weight_decay=0.1)
    meter = Meter(toy, optimizer, sample_every=1)
    for step in range(1, 4):
        record, change, new, gradients = _step(toy, optimizer, meter, step, backward)
    # The weights themselves are rounded to 8 bits: the change is known no better.
    sizes = np.array([w.numel() for w in new])
    np.testing.assert_allclose(record.places["update_rms"], change / np.sqrt(sizes), rtol=0.03)
    for index, (p, gradient) in enumerate(zip(toy.parameters(), gradients, strict=True)):
        v = optimizer.state[p]["exp_avg_sq"].double() / (1 - 0.999**3)
        rms = (gradient.double() ** 2 / v.clamp(min=1e-16)).mean().sqrt()
        assert record.places["adam_rms"][index] == pytest.approx(float(rms), rel=1e-5)


def test_a_parameter_whose_elements_do_not_lie_in_order(monkeypatch):
    monkeypatch.setattr(parameters, "CHUNK_ON_CPU", 7)
    model = nn.Linear(6, 5, bias=False)
    model.weight = nn.Parameter(torch.randn(6, 5).t())
    optimizer = AdamW(model.parameters(), lr=1e-2)
    meter = Meter(model, optimizer, sample_every=1)

    def backward(model):
        model(torch.randn(3, 6)).square().sum().backward()
        model.weight.grad = model.weight.grad.contiguous()

    for step in (1, 2):
        record, change, new, gradients = _step(model, optimizer, meter, step, backward)
        _check_update(record, change, new)
    v = optimizer.state[model.weight]["exp_avg_sq"].double() / (1 - 0.999**2)
    rms = (gradients[0].double() ** 2 / v).mean().sqrt()
    assert record.places["adam_rms"][0] == pytest.approx(float(rms), rel=1e-5)


def test_reading_the_state_adds_nothing_to_it(toy, backward):
    optimizer = AdamW(toy.parameters(), lr=1e-2)
    backward(toy)
    Meter(toy, optimizer, sample_every=1).norms(1)
    assert len(optimizer.state) == 0
