"""Optimizers that are not torch's: what they say of their rule is what is measured of them."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import AdamW

from surefoot.errors import UsageError
from surefoot.signals import Meter
from surefoot.signals.adam_rule import WORDS, rule_of

OF_MOMENT = {"grad_cosine"}
OF_DIRECTION = {"adam_update_rms", "update_bimodality", "update_large_share"}
OF_SIZE = {"update_rms", "update_ratio"}
ALWAYS = {"adam_rms", "eps_share", "second_moment_lag", "grad_norm", "param_norm"}


class Plain(torch.optim.Optimizer):
    """AdamW in a few lines, with a factor of its own on each update; moments may be reset."""

    def __init__(self, params, factor=1.0):
        settings = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
        super().__init__(params, settings)
        self.factor = factor

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    self.reset(p)
                m, v = state["exp_avg"], state["exp_avg_sq"]
                state["step"] += 1
                t = float(state["step"])
                m.lerp_(p.grad, 1 - beta1)
                v.lerp_(p.grad.square(), 1 - beta2)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                u = m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + group["eps"])
                p.sub_(group["lr"] * self.factor * u)

    def reset(self, p):
        self.state[p] |= {
            "step": torch.zeros(()),
            "exp_avg": torch.zeros_like(p),
            "exp_avg_sq": torch.zeros_like(p),
        }


def _steps(model, optimizer, backward, steps, reset_after=None):
    torch.manual_seed(7)
    meter, records = Meter(model, optimizer, sample_every=1), []
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        backward(model)
        meter.norms(step)
        if step == reset_after:
            for p in model.parameters():
                optimizer.reset(p)
        optimizer.step()
        meter.after_update(step)
        meter.record(step, 0, {})
        records.append(meter.flush())
    return records


@pytest.mark.parametrize(
    ("words", "measured"),
    [
        (None, set()),
        ((), set()),
        (("first-moment",), OF_MOMENT),
        (("direction",), OF_DIRECTION),
        (("first-moment", "direction"), OF_MOMENT | OF_DIRECTION),
        (("size",), set()),  # of what, if not of the direction
        (WORDS, OF_MOMENT | OF_DIRECTION | OF_SIZE),
    ],
)
def test_what_the_words_give(toy, backward, words, measured):
    optimizer = Plain(toy.parameters())
    if words is not None:
        optimizer.adam_rule = words
    record = _steps(toy, optimizer, backward, 3)[-1]
    assert record.values.keys() == record.places.keys() == ALWAYS | measured


def test_an_optimizer_with_adams_rule_is_measured_as_torchs(toy, backward):
    start = [p.detach().clone() for p in toy.parameters()]
    torchs = AdamW(toy.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
    expected = _steps(toy, torchs, backward, 4)
    with torch.no_grad():
        for p, old in zip(toy.parameters(), start, strict=True):
            p.copy_(old)
    ours = Plain(toy.parameters())
    ours.adam_rule = WORDS
    for found, other in zip(_steps(toy, ours, backward, 4), expected, strict=True):
        assert found.values.keys() == other.values.keys()
        for name, place in found.places.items():
            np.testing.assert_allclose(place, other.places[name], rtol=1e-4, atol=1e-6)


def test_a_factor_of_its_own_leaves_the_distribution(toy, backward):
    optimizer = Plain(toy.parameters(), factor=0.0)
    optimizer.adam_rule = ("direction",)
    values = _steps(toy, optimizer, backward, 1)[-1].values
    assert values["update_large_share"] > 0.5


def test_moments_that_begin_anew_have_an_update_and_no_cosine(toy, backward):
    optimizer = Plain(toy.parameters())
    optimizer.adam_rule = WORDS
    records = _steps(toy, optimizer, backward, 4, reset_after=3)
    assert "grad_cosine" in records[1].values
    assert "grad_cosine" not in records[2].values
    assert "grad_cosine" in records[3].values
    assert records[2].values["update_rms"] > 0
    np.testing.assert_allclose(records[2].places["second_moment_lag"], 1, rtol=1e-5)
    np.testing.assert_allclose(records[2].places["adam_update_rms"][1:], 1, rtol=1e-3)


def test_a_word_that_is_not_known(toy):
    optimizer = Plain(toy.parameters())
    optimizer.adam_rule = ("direktion",)
    told = r"Plain.adam_rule: expected words of first-moment, direction, size, got 'direktion'"
    with pytest.raises(UsageError, match=told + r".*did you mean 'direction'"):
        Meter(toy, optimizer)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (torch.optim.Adam, WORDS),
        (torch.optim.AdamW, WORDS),
        (torch.optim.NAdam, WORDS[:1]),
        (torch.optim.RAdam, WORDS[:1]),
        (torch.optim.SGD, ()),
    ],
)
def test_torchs_optimizers(kind, words):
    rule = rule_of(kind(nn.Linear(2, 2).parameters(), lr=1e-3))
    given = [name in words for name in WORDS]
    assert [rule.moment, rule.direction, rule.size] == given


def test_parameters_that_have_no_moments_are_left_out(toy, backward):
    """As matrices under Muon: the others are measured."""
    optimizer = Plain(toy.parameters())
    optimizer.adam_rule = ("first-moment", "direction")
    _steps(toy, optimizer, backward, 2)
    weight = toy[1].weight
    optimizer.step = lambda: None
    optimizer.state[weight] = {"momentum_buffer": torch.zeros_like(weight)}
    meter = Meter(toy, optimizer, sample_every=1)
    meter.norms(1)
    for state in optimizer.state.values():
        if "step" in state:
            state["step"] += 1
    meter.after_update(1)
    meter.record(1, 0, {})
    record = meter.flush()
    for name in (*OF_DIRECTION, "adam_rms", "second_moment_lag"):
        assert np.isnan(record.places[name]).tolist() == [False, True, False, False, False]
        assert math.isfinite(record.values[name])
