"""Early warning: once a trouble, before the loss, and silent where a run explains itself."""

import itertools
import math

import numpy as np
import pytest

from surefoot.detect.bank import SignalBank
from surefoot.detect.early import EarlyWarning
from surefoot.detect.scores import Scores
from surefoot.records import StepRecord

# BLOOM-176B, 2022-04-12 (bigscience tr11 chronicles): iteration, loss, gradient norm.
BLOOM = (
    (31214, 2.1988, 0.242),
    (31215, 2.2204, 0.947),
    (31216, 2.5952, 2.390),
    (31217, 2.2416, 15.886),
    (31218, 2.3453, 145.119),
    (31219, 5.0981, 960.351),
)


def logits(steps, rng, start=400, doubling=40):
    course = 5 * 2 ** (np.maximum(np.arange(steps) - start, 0) / doubling)
    return course * np.exp(0.1 * rng.standard_normal(steps))


def feed(columns, *, early=None, bank=None, first=1, incident=lambda step: False, **constant):
    """Warnings on records of these columns."""
    bank, early, told = bank or SignalBank(), early or EarlyWarning(), []
    for row in range(len(next(iter(columns.values())))):
        values = {name: float(column[row]) for name, column in columns.items()} | constant
        record = StepRecord(step=first + row, values=values)
        scores = bank.update(record)
        told += early.update(record, scores, incident=incident(record.step))
    return told


def test_bloom_is_warned_of_before_the_peak(rng):
    steps = 1000
    before = {
        "loss": 2.2 + 0.02 * rng.standard_normal(steps),
        "grad_norm": 0.22 * np.exp(0.12 * rng.standard_normal(steps)),
    }
    bank, early = SignalBank(), EarlyWarning()
    assert feed(before, bank=bank, early=early, first=30214) == []
    told = feed(
        {"loss": [loss for _, loss, _ in BLOOM], "grad_norm": [norm for *_, norm in BLOOM]},
        bank=bank, early=early, first=31214,
    )  # fmt: skip
    assert told[0].step in (31215, 31216, 31217)
    assert told[0].since == 31215
    assert told[0].signal == "grad_norm"


def test_one_warning_a_trouble_until_it_is_twice_as_bad(rng):
    told = feed({"attention_logit_max": logits(700, rng)})
    assert told[0].precursor == "attention-growth"
    assert 400 < told[0].step < 500
    assert 400 <= told[0].since <= 440
    assert len(told) <= 3
    for first, second in itertools.pairwise(told):
        assert second.score >= 2 * first.score


def test_the_same_symptom_after_a_long_silence_is_told_again(rng):
    grads = 0.3 * np.exp(0.1 * rng.standard_normal(1500))
    grads[400:403] *= 9
    grads[500:503] *= 9
    grads[1200:1203] *= 9
    assert [sign.step for sign in feed({"grad_norm": grads})] == [402, 1202]


def test_no_warning_while_an_incident_is_open_nor_of_its_tail(rng):
    told = feed({"attention_logit_max": logits(520, rng)}, incident=lambda step: step >= 390)
    assert told == []


def test_nothing_in_the_first_100_records_unless_absurd(rng):
    grads = 0.3 * np.exp(0.1 * rng.standard_normal(100))
    grads[60:63] *= 6
    assert feed({"grad_norm": grads}) == []
    grads[60:63] *= 1e5
    assert feed({"grad_norm": grads})[0].step == 61


def test_nothing_while_the_rate_warms_up(rng):
    rates = 1e-3 * np.minimum(1, np.arange(1, 601) / 500)
    columns = {"attention_logit_max": logits(480, rng, start=300), "learning_rate": rates[:480]}
    assert feed(columns) == []
    constant = {**columns, "learning_rate": np.full(480, 1e-3)}
    assert feed(constant)


def test_nothing_just_after_a_change_that_is_announced(rng):
    early = EarlyWarning(("sudden",))
    for step in range(1, 300):
        record = StepRecord(step=step, values={"loss": 2.0})
        changes = ("batch",) if step == 250 else ()
        opened = ("grad_norm",) if step == 280 else ()
        told = early.update(record, Scores(changes=changes, opened=opened))
        assert told == ()


def test_others_that_warn_at_the_same_record_are_named(rng):
    steps = np.arange(600)
    away = np.maximum(steps - 400, 0)
    early = EarlyWarning(("log-z-drift", "gradient-growth"))
    told = feed(
        {
            "log_z": 7 * np.exp(0.01 * away) + 0.02 * rng.standard_normal(600),
            "grad_norm": 0.3 * np.exp(0.01 * away + 0.05 * rng.standard_normal(600)),
        },
        early=early,
    )
    names = {name for sign in told for name in (sign.precursor, *sign.others)}
    assert names <= {"log-z-drift", "gradient-growth"}
    assert told[0].precursor == "log-z-drift"
    assert early.score > 0.7


def test_healthy_runs_are_silent(rng):
    steps = np.arange(3000)
    rates = 1e-3 * np.minimum(1, (steps + 1) / 200) * (0.1 + 0.9 * np.exp(-steps / 1500))
    told = feed(
        {
            "loss": 3 + 4 * np.exp(-steps / 100) + 0.02 * rng.standard_normal(3000),
            "learning_rate": rates,
            "grad_norm": (0.3 + 5 * np.exp(-steps / 100)) * np.exp(0.1 * rng.standard_t(4, 3000)),
            "attention_logit_max": (2 + 5 * (1 - np.exp(-steps / 300)))
            * np.exp(0.15 * rng.standard_normal(3000)),
            "log_z": 6.3 + 1.2 * (1 - np.exp(-steps / 400)) + 0.05 * rng.standard_normal(3000),
            "update_rms": 0.3 * rates * np.exp(0.05 * rng.standard_normal(3000)),
            "adam_rms": np.exp(0.05 * rng.standard_normal(3000)),
        }
    )
    assert told == []


def test_an_unknown_precursor_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"expected a precursor of attention-growth, .*'entropy'"):
        EarlyWarning(("entropy",))


@pytest.mark.parametrize("found", [None, 0, "1"])
def test_a_state_of_another_format_is_refused(found):
    state = EarlyWarning().state_dict() | {"format": found}
    with pytest.raises(ValueError, match="expected early-warning state of format 1"):
        EarlyWarning().load_state_dict(state)


def test_a_rate_of_nothing_is_no_warm_up():
    early = EarlyWarning()
    for step, rate in enumerate([0.0, math.nan, None, "x", -1.0, math.inf] * 40, start=1):
        record = StepRecord(step=step, values={"learning_rate": rate})
        assert early.update(record, Scores()) == ()
    assert math.isfinite(early.state_dict()["warming"])
