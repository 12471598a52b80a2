"""The bank online and offline: state through JSON at any split, time and memory flat."""

import json
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.detect.bank import SignalBank
from surefoot.detect.early import EarlyWarning
from surefoot.detect.precursors import ALL
from surefoot.records import StepRecord

PLACES = {"grad_norm": ("embedding", "head"), "adam_rms": ("embedding", "head")}


def eventful(steps: int = 700) -> list[StepRecord]:
    """Spikes, shifts, NaN, gaps, sampled and late signals, announced changes, a rewind."""
    rng = np.random.default_rng(3)
    grads = 0.3 * np.exp(0.1 * rng.standard_normal((steps, 3)))
    grads[150:153] *= 9
    grads[300:, 1] *= 12
    grads[220, 2] = 0.0
    logits = 4 * np.exp(0.01 * np.maximum(np.arange(steps) - 350, 0)) * grads[:, 0] ** 0.1
    scale = np.where(np.arange(steps) > 500, 4.0, 65536.0)
    records = []
    for row in range(steps):
        values = {
            "loss": 3 + 0.1 * float(rng.standard_normal()),
            "grad_norm": float(grads[row, 0]),
            "attention_logit_max": float(logits[row]),
            "learning_rate": 1e-3 * min(1.0, (row + 1) / 60),
            "batch_size": 16 if row < 400 else 32,
            "loss_scale": float(scale[row]),
        }
        if row % 20 == 0:
            values |= {"update_rms": 2e-4, "adam_rms": float(0.9 + grads[row, 0])}
        if row > 330:
            values["log_z"] = 0.1 * float(rng.standard_normal())
        if row % 37 == 5:
            values["grad_norm"] = math.nan if row % 2 else math.inf
        if row % 11 == 3:
            del values["attention_logit_max"]
        places = {"grad_norm": grads[row, 1:].astype(np.float32)}
        if row % 20 == 0:
            places["adam_rms"] = np.array([1.0, math.nan], dtype=np.float32)
        step = row + 1 if row < 600 else row - 39
        attempt = int(row >= 600)
        records.append(StepRecord(step=step, attempt=attempt, values=values, places=places))
    return records


RUN = eventful()


def learns(row: int) -> bool:
    return not (152 <= row < 170 or 560 <= row < 580)


class Pair:
    """A bank and the early warning fed by it."""

    def __init__(self):
        self.bank, self.early = SignalBank(PLACES), EarlyWarning(tuple(ALL))

    def update(self, row):
        learn = learns(row)
        scores = self.bank.update(RUN[row], learn=learn)
        return scores, self.early.update(RUN[row], scores, incident=not learn)

    def through_json(self):
        state = self.bank.state_dict(), self.early.state_dict()
        text = json.dumps(state, allow_nan=False)
        other = Pair()
        other.bank, other.early = SignalBank(), EarlyWarning(())
        bank, early = json.loads(text)
        other.bank.load_state_dict(bank)
        other.early.load_state_dict(early)
        return other

    def answers(self):
        names = self.bank.names()
        return (
            [self.bank.facts(name, since=140) for name in names],
            [self.bank.trend(name) for name in names],
            self.bank.earliest(since=1, until=661),
            self.bank.strongest(9, since=300),
            self.bank.place_count(since=100),
            self.bank.state_dict(),
            self.early.state_dict(),
        )


def whole():
    pair = Pair()
    return [pair.update(row) for row in range(len(RUN))], pair


TOLD, END = whole()


def test_the_run_of_these_tests_is_eventful():
    scores = [scores for scores, _ in TOLD]
    assert sum(bool(s.opened) for s in scores) >= 2
    assert any(s.zeros for s in scores)
    assert any(s.nonfinite for s in scores)
    assert {change for s in scores for change in s.changes} == {"rate", "batch"}
    assert len([sign for _, signs in TOLD for sign in signs]) >= 1


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, len(RUN)), min_size=1, max_size=3).map(sorted))
def test_split_anywhere_saved_and_loaded_it_says_the_same(splits):
    pair, told = Pair(), []
    for begin, end in zip([0, *splits], [*splits, len(RUN)], strict=True):
        told += [pair.update(row) for row in range(begin, end)]
        pair = pair.through_json()
    assert list(map(repr, told)) == list(map(repr, TOLD))
    assert repr(pair.answers()) == repr(END.answers())


@pytest.mark.parametrize("split", [1, 15, 16, 17, 151, 152, 161, 171, 221, 302, 331, 405, 570, 601])
def test_split_in_the_middle_of_each_event(split):
    pair = Pair()
    told = [pair.update(row) for row in range(split)]
    pair = pair.through_json()
    told += [pair.update(row) for row in range(split, len(RUN))]
    assert list(map(repr, told)) == list(map(repr, TOLD))


def test_a_saved_state_is_a_copy():
    pair = Pair()
    for row in range(160):
        pair.update(row)
    state = pair.bank.state_dict()
    text = json.dumps(state)
    for row in range(160, 300):
        pair.update(row)
    assert json.dumps(state) == text


@pytest.mark.parametrize("found", [None, 0, "1"])
def test_a_state_of_another_format_is_refused(found):
    state = END.bank.state_dict() | {"format": found}
    with pytest.raises(ValueError, match=f"expected bank state of format 1, got {found!r}"):
        SignalBank().load_state_dict(state)


odd = st.sampled_from([0.0, -1.0, 5e-324, 1e-300, 1e308, -1e308, math.nan, math.inf, -math.inf])
number = st.none() | odd | st.floats() | st.floats(0.1, 12) | st.integers()
scalars = st.fixed_dictionaries(
    {"gap": st.integers(1, 40)},
    optional={
        name: number
        for name in ("grad_norm", "log_z", "update_rms", "learning_rate", "batch_size", "loss")
    },
)
vectors = st.lists(st.floats(width=32), min_size=0, max_size=3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(scalars, vectors, st.booleans()), max_size=60))
def test_no_input_stops_or_poisons_it(rows):
    bank, early, step = SignalBank(), EarlyWarning(tuple(ALL)), 0
    for values, vector, learn in rows:
        step += values["gap"]
        values = {name: value for name, value in values.items() if name != "gap"}
        record = StepRecord(step=step, values=values, places={"grad_norm": np.array(vector)})
        early.update(record, bank.update(record, learn=learn), incident=not learn)
    json.dumps((bank.state_dict(), early.state_dict()), allow_nan=False)
    rng, told = np.random.default_rng(0), []
    for row in range(400):
        value = 0.3 * math.exp(0.1 * rng.standard_normal()) * (20 if 380 <= row < 383 else 1)
        scores = bank.update(StepRecord(step=step + 1 + row, values={"grad_norm": value}))
        told += [row] * bool(scores.opened)
    assert 381 in told


def test_the_state_does_not_grow():
    pair, sizes = Pair(), []
    for _ in range(3):
        for row in range(len(RUN)):
            pair.update(row)
        sizes.append(len(json.dumps(pair.bank.state_dict())))
    assert max(sizes) < 2 * sizes[0]  # packed: it varies with what is in it


@pytest.mark.slow
def test_a_million_records_cost_the_same_from_first_to_last():
    rng = np.random.default_rng(1)
    block = np.exp(0.1 * rng.standard_normal((10_000, 4))).tolist()
    names = ("grad_norm", "param_norm", "attention_logit_max", "z_loss")
    values = [dict(zip(names, row, strict=True)) for row in block]
    bank, times, alarms = SignalBank(), [], 0
    for part in range(100):
        begin = time.process_time()
        for row, columns in enumerate(values):
            record = StepRecord(step=part * 10_000 + row + 1, values=columns)
            alarms += bool(bank.update(record).opened)
        times.append(time.process_time() - begin)
        if part == 0:
            size = len(json.dumps(bank.state_dict()))
    assert len(json.dumps(bank.state_dict())) < 1.2 * size
    assert np.median(times[-10:]) < 2 * np.median(times[:10])
    assert alarms <= 40  # 0.2 in 10 000: 20 in a million
