"""Spread of Adam's update and the lag of v, against plain float64 over all weights."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim import SGD, Adam, AdamW, NAdam, RAdam

from surefoot.optim import guarded_step
from surefoot.signals import Meter, parameters
from surefoot.signals.distribution import Moments

NAMES = ("adam_update_rms", "update_bimodality", "update_large_share")


def sarle(u):
    """(skewness^2 + 1) / kurtosis, of the numbers as they are."""
    d = u - u.mean()
    variance = (d**2).mean()
    if not variance > 0:
        return 0.0
    skewness = (d**3).mean() / variance**1.5
    return float((skewness**2 + 1) / ((d**4).mean() / variance**2))


def _updates(model, optimizer):
    """m / (sqrt(v) + eps), bias-corrected, of each parameter."""
    found = []
    for group in optimizer.param_groups:
        beta1, beta2 = group["betas"]
        for p in group["params"]:
            state = optimizer.state[p]
            t = int(state["step"])
            v = state.get("max_exp_avg_sq", state["exp_avg_sq"]).double() / (1 - beta2**t)
            m = state["exp_avg"].double() / (1 - beta1**t)
            found.append((p, (m / (v.sqrt() + group["eps"])).flatten().numpy(), v))
    order = {p: number for number, p in enumerate(model.parameters())}
    found.sort(key=lambda item: order[item[0]])
    return [u for _, u, _ in found], [v for _, _, v in found]


def _reference(updates, gradients, seconds):
    """Signals of each parameter, and over all."""
    sets = [*updates, np.concatenate(updates)]
    lag = [(float(g.double().square().sum()), float(v.sum())) for g, v in zip(
        gradients, seconds, strict=True)]  # fmt: skip
    lag.append(tuple(np.sum(lag, axis=0)))
    return {
        "adam_update_rms": [math.sqrt((u**2).mean()) for u in sets],
        "update_bimodality": [sarle(u) for u in sets],
        "update_large_share": [(np.abs(u) > 0.8).mean() for u in sets],
        "second_moment_lag": [math.sqrt(g / v) if g else 0.0 for g, v in lag],
    }


def _step(model, optimizer, meter, step, backward, poison=None):
    optimizer.zero_grad()
    backward(model)
    if poison is not None:
        poison(model)
    norms = meter.norms(step)
    guarded_step(optimizer, found_inf=norms.found_inf)
    meter.after_update(step)
    meter.record(step, 0, {})
    return meter.flush()


def _check(record, model, optimizer, rtol=1e-4):
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    updates, seconds = _updates(model, optimizer)
    for name, expected in _reference(updates, gradients, seconds).items():
        atol = 1e-6 if name != "update_large_share" else 1e-9
        np.testing.assert_allclose(
            record.places[name], expected[:-1], rtol=rtol, atol=atol, err_msg=name
        )
        assert record.values[name] == pytest.approx(expected[-1], rel=rtol, abs=1e-7), name


BUILD = {
    "adamw fused": lambda g: AdamW(g, lr=1e-2, fused=True),
    "adamw single, beta2 0.95": lambda g: AdamW(g, lr=1e-2, betas=(0.9, 0.95), foreach=False),
    "adamw amsgrad": lambda g: AdamW(g, lr=1e-2, betas=(0.9, 0.8), amsgrad=True),
    "adamw maximize": lambda g: AdamW(g, lr=1e-2, maximize=True),
    "adamw no first moment": lambda g: AdamW(g, lr=1e-2, betas=(0.0, 0.9)),
    "adam, decay coupled": lambda g: Adam(g, lr=1e-2, betas=(0.8, 0.95), fused=True),
}


@pytest.mark.parametrize("chunk", [5, 2**16])
@pytest.mark.parametrize("build", BUILD.values(), ids=BUILD.keys())
def test_against_float64(toy, backward, groups, build, chunk, monkeypatch):
    monkeypatch.setattr(parameters, "CHUNK_ON_CPU", chunk)
    optimizer = build(groups(toy))
    meter = Meter(toy, optimizer, sample_every=1)
    for step in range(1, 7):
        record = _step(toy, optimizer, meter, step, backward)
        # At the first step u is +-1 but for eps: what is left of a spread is rounding.
        if step > 1:
            _check(record, toy, optimizer)
    assert 0 < record.values["update_large_share"] < 1
    assert 0 < record.values["update_bimodality"] < 1


@settings(deadline=None, max_examples=25)
@given(
    beta1=st.floats(0.0, 0.99),
    beta2=st.floats(0.5, 0.9999),
    eps=st.sampled_from([1e-15, 1e-8, 1e-3, 0.1]),
    steps=st.integers(2, 12),
    chunk=st.sampled_from([5, 64, 10**6]),
)
def test_any_setting_and_chunk(beta1, beta2, eps, steps, chunk):
    torch.manual_seed(1)
    model = nn.Linear(7, 5)
    optimizer = AdamW(model.parameters(), lr=1e-2, betas=(beta1, beta2), eps=eps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parameters, "CHUNK_ON_CPU", chunk)
        meter = Meter(model, optimizer, sample_every=1)

    def backward(model):
        model(torch.randn(4, 7)).square().sum().backward()

    for step in range(1, steps + 1):
        record = _step(model, optimizer, meter, step, backward)
    updates, _ = _updates(model, optimizer)
    if all(u.std() > 1e-3 * np.abs(u).max() for u in updates):  # else float32 has no more of it
        _check(record, model, optimizer, rtol=1e-3)


def _set_state(model, optimizer, m, v, gradient=1.0):
    """An update's state, put there by hand: beta 0 makes m and v what the gradient is."""
    for p in model.parameters():
        p.grad = torch.full_like(p, gradient)
    optimizer.step = lambda: None
    for p in model.parameters():
        optimizer.state[p] = {
            "step": torch.tensor(1e6),
            "exp_avg": m.reshape(p.shape).clone(),
            "exp_avg_sq": v.reshape(p.shape).clone(),
        }


def _record_of(m, v, eps=1e-8, gradient=1.0, dtype=torch.float32):
    """What is measured of one parameter with these moments."""
    model = nn.Linear(m.numel(), 1, bias=False).to(dtype)
    optimizer = AdamW(model.parameters(), lr=1e-3, eps=eps)
    meter = Meter(model, optimizer, sample_every=1)
    _set_state(model, optimizer, m.to(dtype), v.to(dtype), gradient)
    meter.norms(1)
    for state in optimizer.state.values():
        state["step"] += 1  # as if the state were that after an update
    meter.after_update(1)
    meter.record(1, 0, {})
    return meter.flush().values


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (lambda n: torch.randn(n), 1 / 3),
        (lambda n: torch.rand(n) * 2 - 1, 5 / 9),
        (lambda n: torch.randn(n).sign(), 1.0),
        (lambda n: (torch.rand(n) < 0.1).float(), 1.0),  # two points, unequal: skewed
        (lambda n: 1 + 0.01 * torch.randn(n), 1 / 3),  # a bell far from 0
        (lambda n: 1 + 1e-4 * torch.randn(n).sign(), 1.0),
        (lambda n: 1e-8 * torch.randn(n), 1 / 3),
        (lambda n: 1e6 * torch.randn(n), 1 / 3),
    ],
)
def test_bimodality_of_known_distributions(numbers, expected, monkeypatch):
    """Chunks far from 0 are the test of taking moments about a mean of their own."""
    monkeypatch.setattr(parameters, "CHUNK_ON_CPU", 10_000)
    u = numbers(105_000)
    values = _record_of(u, torch.ones_like(u))
    assert values["update_bimodality"] == pytest.approx(expected, abs=0.01)
    rms = float(u.double().square().mean().sqrt())
    assert values["adam_update_rms"] == pytest.approx(rms, rel=1e-5)
    assert values["update_large_share"] == pytest.approx(float((u.abs() > 0.8).double().mean()))


def test_chunks_that_differ_in_mean_are_two_points_together(monkeypatch):
    monkeypatch.setattr(parameters, "CHUNK_ON_CPU", 500)
    u = torch.cat([torch.ones(1000), -torch.ones(1000)]) + 0.01 * torch.randn(2000)
    assert _record_of(u, torch.ones(2000))["update_bimodality"] > 0.99


@pytest.mark.parametrize("value", [0.0, 1.0, -0.37, 1e-25])
def test_an_update_that_is_the_same_everywhere_has_no_two_sides(value):
    u = torch.full((70_000,), value)
    values = _record_of(u, torch.ones_like(u))
    assert values["update_bimodality"] == 0
    assert values["adam_update_rms"] == pytest.approx(abs(value), rel=1e-5, abs=1e-19)
    assert values["update_large_share"] == (abs(value) > 0.8)


def test_the_first_update_is_two_points(toy, backward):
    optimizer = AdamW(toy.parameters(), lr=1e-2, eps=1e-12)
    record = _step(toy, optimizer, Meter(toy, optimizer, sample_every=1), 1, backward)
    np.testing.assert_allclose(record.places["adam_update_rms"][1:], 1, rtol=1e-5)
    np.testing.assert_allclose(record.places["update_bimodality"][1:], 1, rtol=1e-4)
    np.testing.assert_allclose(record.places["second_moment_lag"], 1, rtol=1e-5)
    assert (record.places["update_large_share"][1:] == 1).all()
    # Rows of tokens that did not occur stand at 0.
    assert record.places["update_large_share"][0] < 1


def test_nan_is_told_where_it_is_and_in_the_whole(toy, backward):
    optimizer = AdamW(toy.parameters(), lr=1e-2)
    meter = Meter(toy, optimizer, sample_every=1)
    _step(toy, optimizer, meter, 1, backward)
    _step(toy, optimizer, meter, 2, backward)
    optimizer.state[toy[1].bias]["exp_avg"][3] = math.nan
    record = _step(toy, optimizer, meter, 3, backward)
    for name in NAMES:
        assert np.isnan(record.places[name]).tolist() == [False, False, True, False, False]
        assert math.isnan(record.values[name])
    assert math.isfinite(record.values["second_moment_lag"])


def test_a_skipped_update_leaves_the_distribution_of_the_moments(toy, backward):
    optimizer = AdamW(toy.parameters(), lr=1e-2, fused=True)
    meter = Meter(toy, optimizer, sample_every=1)
    for step in (1, 2, 3):
        last = _step(toy, optimizer, meter, step, backward)

    def poison(model):
        model[1].bias.grad[0] = math.nan

    record = _step(toy, optimizer, meter, 4, backward, poison=poison)
    for name in NAMES:
        assert record.values[name] == last.values[name]
        np.testing.assert_array_equal(record.places[name], last.places[name])
    # What was left out is not in v, and may still hold a loss scale: nothing is compared.
    for name in ("second_moment_lag", "adam_rms"):
        assert name not in record.values
        assert np.isnan(record.places[name]).all()


def test_no_gradient_no_state_and_nothing_at_all(toy, backward):
    toy.extra = nn.Linear(3, 3)
    toy.none = nn.Parameter(torch.empty(0, 4))
    toy.forward = lambda tokens: toy[3](toy[2](toy[1](toy[0](tokens))))
    optimizer = AdamW(toy.parameters(), lr=1e-2)
    meter = Meter(toy, optimizer, sample_every=1)

    def empty(model):
        model.none.grad = torch.empty(0, 4)

    def without(model):
        model[1].weight.grad = None
        empty(model)

    for step in (1, 2, 3):
        record = _step(toy, optimizer, meter, step, backward, without if step == 3 else empty)
    names = [name for name, _ in toy.named_parameters()]
    at = names.index("none")
    for name in (*NAMES, "second_moment_lag"):
        assert math.isfinite(record.values[name])
        missing = np.isnan(record.places[name])
        assert missing[[names.index("extra.weight"), names.index("extra.bias")]].all()
        if name in NAMES:
            assert missing[at] or record.places[name][at] == 0
    assert record.places["second_moment_lag"][names.index("1.weight")] == 0
    assert record.places["adam_update_rms"][names.index("1.weight")] > 0


def test_bf16_is_measured_in_float32(toy, backward):
    toy.to(torch.bfloat16)
    optimizer = AdamW(toy.parameters(), lr=1e-2)
    meter = Meter(toy, optimizer, sample_every=1)
    for step in range(1, 5):
        record = _step(toy, optimizer, meter, step, backward)
    _check(record, toy, optimizer, rtol=1e-4)


@pytest.mark.parametrize("kind", [NAdam, RAdam])
def test_other_rules_have_the_lag_alone(toy, backward, kind):
    optimizer = kind(toy.parameters(), lr=1e-2)
    meter = Meter(toy, optimizer, sample_every=1)
    _step(toy, optimizer, meter, 1, backward)
    record = _step(toy, optimizer, meter, 2, backward)
    assert not {*NAMES} & {*record.values, *record.places}
    for number, p in enumerate(toy.parameters()):
        v = optimizer.state[p]["exp_avg_sq"].double() / (1 - 0.999**2)
        lag = float(p.grad.double().norm() / v.sum().sqrt())
        assert record.places["second_moment_lag"][number] == pytest.approx(lag, rel=1e-5)


def test_without_moments_there_is_nothing(toy, backward):
    optimizer = SGD(toy.parameters(), lr=1e-2, momentum=0.9)
    record = _step(toy, optimizer, Meter(toy, optimizer, sample_every=1), 1, backward)
    assert not {*NAMES, "second_moment_lag"} & {*record.values, *record.places}


# ------------------------------------------------------------------------------------- extremes


def test_eps_above_everything_makes_a_small_update_and_no_lag():
    u = torch.randn(1000) * 1e-3
    values = _record_of(u, torch.full((1000,), 1e-6), eps=1e3, gradient=1e-3)
    assert values["adam_update_rms"] == pytest.approx(float(u.norm()) / 1000**0.5 / 1e3, rel=1e-4)
    assert values["second_moment_lag"] == pytest.approx(1, rel=1e-5)


def test_gradients_of_nothing_and_a_second_moment_that_underflowed():
    zero = torch.zeros(1000)
    values = _record_of(zero, zero, gradient=0.0)
    assert [values[name] for name in (*NAMES, "second_moment_lag")] == [0, 0, 0, 0]
    # 1e-20 squared is no float32: v stays 0 although there are gradients.
    values = _record_of(torch.full((1000,), 1e-20), zero, gradient=1e-20)
    assert values["second_moment_lag"] == math.inf
    assert values["adam_update_rms"] == pytest.approx(1e-12, rel=1e-4)
    values = _record_of(torch.full((1000,), 1e-30), zero, gradient=1e-30)
    assert values["adam_update_rms"] < 1e-19


def test_updates_whose_fourth_power_is_no_float32_have_no_shape():
    values = _record_of(torch.randn(1000) * 1e-12, torch.ones(1000))
    assert values["adam_update_rms"] == pytest.approx(1e-12, rel=0.1)
    assert values["update_bimodality"] == 0


def test_updates_beyond_the_fourth_root_of_float32_have_a_size_but_no_shape():
    values = _record_of(torch.randn(1000) * 1e12, torch.ones(1000))
    assert values["adam_update_rms"] == pytest.approx(1e12, rel=0.1)
    assert math.isnan(values["update_bimodality"])
    assert values["update_large_share"] == 1


def test_half_precision_moments(recwarn):
    u = torch.randn(1000)
    values = _record_of(u, torch.ones(1000), dtype=torch.float16)
    assert values["adam_update_rms"] == pytest.approx(float(u.norm()) / 1000**0.5, rel=1e-3)
    assert values["update_bimodality"] == pytest.approx(sarle(u.double().numpy()), rel=1e-2)
    assert not recwarn.list


@settings(deadline=None, max_examples=50)
@given(
    data=st.lists(
        st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=8), min_size=1, max_size=6
    ),
    factor=st.floats(0.1, 10),
)
def test_pooling_is_as_taking_all_numbers_at_once(data, factor):
    def of(numbers):
        x = np.array(numbers)
        d = x - x.mean()
        return len(x), x.mean(), (d**2).sum(), (d**3).sum(), (d**4).sum()

    columns = (np.array(c, dtype=np.float64) for c in zip(*(of(x) for x in data), strict=True))
    keys = ("count", "mean", "second", "third", "fourth")
    pooled = Moments(**dict(zip(keys, columns, strict=True))).pooled(np.array([0]))
    expected = of([factor * x for part in data for x in part])
    for key, number in zip(keys, expected, strict=True):
        scaled = getattr(pooled.scaled(np.array([factor])), key)
        assert scaled[0] == pytest.approx(number, rel=1e-9, abs=1e-7), key
