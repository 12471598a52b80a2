"""grad_cosine against float64: cosine of the gradient that Adam saw with the moment of before."""

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
from surefoot.signals.cosine import cosines


def _moments(model, optimizer):
    found = []
    for p in model.parameters():
        moment = optimizer.state.get(p, {}).get("exp_avg", torch.zeros_like(p))
        found.append(moment.double().clone())
    return found


def _step(model, optimizer, meter, step, backward, divisor=None, poison=None):
    """One step; the record, and by float64 the sums of g m_old, g^2 and m_old^2 by parameter."""
    optimizer.zero_grad()
    backward(model)
    if poison is not None:
        poison(model)
    old = _moments(model, optimizer)
    norms = meter.norms(step)
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    # What the moment is made of: where the optimizer maximizes, of the negative gradient.
    sign = -1 if optimizer.param_groups[0]["maximize"] else 1
    gradients = [sign * g.double() for g in gradients]
    guarded_step(optimizer, found_inf=norms.found_inf, grad_divisor=divisor)
    meter.after_update(step)
    meter.record(step, 0, {})
    sums = [
        (float((g * m).sum()), float(g.square().sum()), float(m.square().sum()))
        for g, m in zip(gradients, old, strict=True)
    ]
    return meter.flush(), np.array(sums)


def _cosine(sums):
    dot, g, m = np.moveaxis(sums, -1, 0)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(dot / np.sqrt(g * m))


BUILD = {
    "adamw fused": lambda p: AdamW(p, lr=1e-2, fused=True),
    "adamw foreach": lambda p: AdamW(p, lr=1e-2, foreach=True),
    "adamw single": lambda p: AdamW(p, lr=1e-2, foreach=False),
    "adamw amsgrad": lambda p: AdamW(p, lr=1e-2, amsgrad=True),
    "adamw maximize": lambda p: AdamW(p, lr=1e-2, maximize=True, fused=True),
    "adam without decay": lambda p: Adam(p, lr=1e-2),
    "nadam": lambda p: NAdam(p, lr=1e-2),
    "radam": lambda p: RAdam(p, lr=1e-2),
}


@pytest.mark.parametrize("build", BUILD.values(), ids=BUILD.keys())
def test_cosine_against_float64(toy, backward, build):
    optimizer = build(list(toy.parameters()))
    meter = Meter(toy, optimizer, sample_every=1)
    record, _ = _step(toy, optimizer, meter, 1, backward)
    # There is no moment before the first update.
    assert "grad_cosine" not in record.values
    assert "grad_cosine" not in record.places
    for step in range(2, 6):
        # Clipping and loss scales leave the angle as it is.
        divisor = torch.tensor(3.0) if step % 2 else None
        record, sums = _step(toy, optimizer, meter, step, backward, divisor)
        np.testing.assert_allclose(record.places["grad_cosine"], _cosine(sums), atol=3e-5)
        assert record.values["grad_cosine"] == pytest.approx(_cosine(sums.sum(0)), abs=3e-5)
        assert (np.abs(record.places["grad_cosine"]) > 0.01).sum() >= 3


@pytest.mark.parametrize("jump", [1e2, 1e4])
def test_it_is_right_at_a_spike_where_the_moment_is_almost_all_new_gradient(toy, backward, jump):
    """From dot products with the new moment the old one would be rounding noise here."""
    optimizer = AdamW(toy.parameters(), lr=1e-3, fused=True)
    meter = Meter(toy, optimizer, sample_every=1)
    for step in range(1, 6):
        _step(toy, optimizer, meter, step, backward)

    def spike(model):
        for p in model.parameters():
            p.grad.mul_(-jump)

    record, sums = _step(toy, optimizer, meter, 6, backward, poison=spike)
    np.testing.assert_allclose(record.places["grad_cosine"], _cosine(sums), atol=2e-8 * jump + 1e-5)


@settings(deadline=None, max_examples=20)
@given(
    beta1=st.floats(0.01, 0.99),
    steps=st.integers(2, 8),
    chunk=st.sampled_from([5, 64, 10**6]),
    repeat=st.booleans(),
)
def test_any_setting_and_chunk(beta1, steps, chunk, repeat):
    torch.manual_seed(1)
    model = nn.Linear(7, 5)
    optimizer = AdamW(model.parameters(), lr=1e-3, betas=(beta1, 0.99), fused=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parameters, "CHUNK_ON_CPU", chunk)
        meter = Meter(model, optimizer, sample_every=1)
    inputs = torch.randn(4, 7)

    def backward(model):
        model(inputs if repeat else torch.randn(4, 7)).square().sum().backward()

    for step in range(1, steps + 1):
        record, sums = _step(model, optimizer, meter, step, backward)
    np.testing.assert_allclose(record.places["grad_cosine"], _cosine(sums), atol=1e-4)
    if repeat:  # the same batch again and again: gradients agree
        assert record.values["grad_cosine"] > 0.95


def test_a_skipped_update_has_the_cosine_with_the_moment_that_stayed(toy, backward):
    optimizer = AdamW(toy.parameters(), lr=1e-2, fused=True)
    meter = Meter(toy, optimizer, sample_every=1)
    for step in (1, 2, 3):
        _step(toy, optimizer, meter, step, backward)

    def poison(model):
        model[1].bias.grad[0] = math.nan

    record, sums = _step(toy, optimizer, meter, 4, backward, poison=poison)
    places = record.places["grad_cosine"]
    assert math.isnan(places[2])
    sound = [0, 1, 3, 4]
    np.testing.assert_allclose(places[sound], _cosine(sums)[sound], atol=3e-5)


def test_no_gradient_and_no_state(toy, backward):
    toy.extra = nn.Linear(3, 3)
    toy.forward = lambda tokens: toy[3](toy[2](toy[1](toy[0](tokens))))
    optimizer = AdamW(toy.parameters(), lr=1e-2)
    meter = Meter(toy, optimizer, sample_every=1)

    def poison(model):
        model[1].weight.grad = None

    for step in (1, 2, 3):
        record, sums = _step(
            toy, optimizer, meter, step, backward, poison=poison if step == 3 else None
        )
    places = record.places["grad_cosine"]
    assert places[1] == 0
    assert np.isnan(places[5:]).all()
    np.testing.assert_allclose(places[:5], _cosine(sums)[:5], atol=3e-5)
    assert math.isfinite(record.values["grad_cosine"])


@pytest.mark.parametrize(
    "build",
    [
        lambda p: Adam(p, lr=1e-2, weight_decay=0.1),  # the moments hold the decay too
        lambda p: AdamW(p, lr=1e-2, betas=(0.0, 0.9)),  # the moment is the gradient itself
        lambda p: SGD(p, lr=1e-2, momentum=0.9),
    ],
    ids=["coupled decay", "no first moment", "sgd"],
)
def test_where_the_moment_before_cannot_be_known_there_is_none(toy, backward, build):
    optimizer = build(list(toy.parameters()))
    meter = Meter(toy, optimizer, sample_every=1)
    for step in (1, 2, 3):
        record, _ = _step(toy, optimizer, meter, step, backward)
    assert "grad_cosine" not in {*record.values, *record.places}
    assert "grad_norm" in record.values


def test_bf16_is_measured_in_float32(toy, backward):
    toy.to(torch.bfloat16)
    optimizer = AdamW(toy.parameters(), lr=1e-2)
    meter = Meter(toy, optimizer, sample_every=1)
    for step in (1, 2, 3):
        record, sums = _step(toy, optimizer, meter, step, backward)
    # The moments themselves are rounded to 8 bits.
    np.testing.assert_allclose(record.places["grad_cosine"], _cosine(sums), atol=0.02)


def test_moments_that_are_not_plain_tensors_are_left_alone(toy, backward):
    """As optimizers that factor the second moment, or keep it in 8 bits."""
    optimizer = AdamW(toy.parameters(), lr=1e-2)
    meter = Meter(toy, optimizer, sample_every=1)
    _step(toy, optimizer, meter, 1, backward)
    optimizer.step = lambda: None
    weight = toy[1].weight
    optimizer.state[weight]["exp_avg_sq"] = torch.ones(weight.shape[0])
    optimizer.state[toy[1].bias]["exp_avg_sq"] = torch.ones(10, dtype=torch.uint8)
    backward(toy)
    meter.norms(2)
    optimizer.step()
    meter.after_update(2)
    meter.record(2, 0, {})
    assert np.isnan(meter.flush().places["adam_rms"][[1, 2]]).all()


def test_cosines_of_zero_and_of_rounding():
    dot, m, g = np.array([0.0, 1.0 + 1e-9, -4.0]), np.array([0.0, 1.0, 4.0]), np.array([1.0, 1, 4])
    assert cosines(dot, m, g).tolist() == [0.0, 1.0, -1.0]


def test_light_measures_the_global_gradient_norm_and_nothing_else(toy, backward):
    optimizer = AdamW(toy.parameters(), lr=1e-2)
    meter = Meter(toy, optimizer, sample_every=1, light=True)
    assert meter.places == {}
    backward(toy)
    expected = float(nn.utils.get_total_norm([p.grad for p in toy.parameters()]))
    assert not meter.is_sampled(1)
    meter.norms(1)
    optimizer.step()
    meter.after_update(1)
    meter.record(1, 0, {})
    record = meter.flush()
    assert record.values == {"grad_norm": pytest.approx(expected, rel=1e-6)}
    assert record.places == {}


def test_a_record_that_has_arrived_is_taken_without_waiting(toy):
    meter = Meter(toy, AdamW(toy.parameters()))
    assert meter.arrived() is None
    meter.record(1, 0, {"loss": torch.tensor(2.0)})
    assert meter.arrived().values["loss"] == 2.0  # on a CPU at once
    assert meter.flush() is None

    class Slow:
        def __init__(self) -> None:
            self.done = False

        def query(self) -> bool:
            return self.done

        def synchronize(self) -> None:
            self.done = True

    meter.record(2, 0, {"loss": torch.tensor(3.0)})
    meter._mailbox._copied = Slow()
    assert meter.arrived() is None
    assert meter.flush().values["loss"] == 3.0
