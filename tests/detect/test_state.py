"""One detector, online and offline: state through JSON at any split, and no input that stops it."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from surefoot.detect import LossDetector
from surefoot.records import StepRecord


def eventful(seed: int = 0, steps: int = 1000) -> list[StepRecord]:
    """A run in which everything happens: spike, NaN, shift, gaps, placeholders, divergence."""
    rng = np.random.default_rng(seed)
    losses = 2.5 + 4 * np.exp(-np.arange(steps) / 40) + 0.02 * rng.standard_normal(steps)
    grads = 0.3 * np.exp(0.1 * rng.standard_normal(steps))
    losses[120:124] += 0.5
    grads[118:124] *= 20
    losses[180:183] = math.nan
    losses[440:] += 0.3
    losses[600:610] = -1.0
    grads[615] = math.inf
    losses[700:] += np.arange(steps - 700) * 0.01
    rates = np.minimum(1e-3, 1e-5 * np.arange(steps))
    return [
        StepRecord(
            step=step + 1,
            values={
                name: float(column[step])
                for name, column in {
                    "loss": losses,
                    "grad_norm": grads,
                    "learning_rate": rates,
                }.items()
                if not (step % 7 == 3 and name == "grad_norm") and step % 31
            },
        )
        for step in range(steps)
    ]


RUN = eventful()


def whole():
    detector = LossDetector(vocab_size=50304, horizon=100)
    return [detector.update(record) for record in RUN], detector.finish(), detector.state_dict()


VERDICTS, FINISHED, STATE = whole()


def test_the_run_of_these_tests_is_eventful():
    codes = [finding.code for verdict in VERDICTS for finding in verdict.findings]
    assert {"SPK000", "SPK001", "SPK002", "SPK003", "SPK004"} <= set(codes)
    assert STATE["open"] is not None


def restored(detector):
    text = json.dumps(detector.state_dict(), allow_nan=False)
    other = LossDetector()  # other settings: those of the state count
    other.load_state_dict(json.loads(text))
    return other


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, len(RUN)), min_size=1, max_size=3).map(sorted))
def test_split_anywhere_saved_and_loaded_it_says_the_same(splits):
    detector, verdicts = LossDetector(vocab_size=50304, horizon=100), []
    for begin, end in zip([0, *splits], [*splits, len(RUN)], strict=True):
        verdicts += [detector.update(record) for record in RUN[begin:end]]
        detector = restored(detector)
    # As text: NaN is not equal to itself.
    assert list(map(repr, verdicts)) == list(map(repr, VERDICTS))
    assert repr(detector.finish()) == repr(FINISHED)
    assert detector.state_dict() == STATE


@pytest.mark.parametrize("split", [1, 15, 16, 121, 123, 181, 441, 500, 541, 605, 617, 705, 800])
def test_split_in_the_middle_of_each_event(split):
    detector = LossDetector(vocab_size=50304, horizon=100)
    verdicts = [detector.update(record) for record in RUN[:split]]
    saved = restored(detector)
    verdicts += [saved.update(record) for record in RUN[split:]]
    assert list(map(repr, verdicts)) == list(map(repr, VERDICTS))


def test_a_saved_state_is_a_copy():
    detector = LossDetector(vocab_size=50304, horizon=100)
    for record in RUN[:122]:
        detector.update(record)
    text = json.dumps(state := detector.state_dict())
    other = LossDetector()
    other.load_state_dict(state)
    for record in RUN[122:400]:
        other.update(record)
    assert json.dumps(state) == text == json.dumps(detector.state_dict())


def test_the_state_does_not_grow():
    detector = LossDetector()
    sizes = []
    for number in range(4):
        for record in eventful(number):
            shifted = StepRecord(step=record.step + 1000 * number, values=record.values)
            detector.update(shifted)
        sizes.append(len(json.dumps(detector.state_dict())))
    assert max(sizes) < 30_000


@pytest.mark.parametrize("found", [None, 0, 1, "2"])
def test_a_state_of_another_format_is_refused(found):
    with pytest.raises(ValueError, match=f"expected detector state of format 2, got {found!r}"):
        LossDetector().load_state_dict({**STATE, "format": found})


def test_a_state_without_a_format_is_refused():
    with pytest.raises(ValueError, match="got None"):
        LossDetector().load_state_dict({})


NOTHING = {"gap": 1, "back": 1}
ONLY_NORM = {**NOTHING, "grad_norm": 1e300, "back": 0}
LOSS = {**NOTHING, "loss": 3.0}
LOWER = {**NOTHING, "loss": 5e-324}
odd = st.sampled_from([0.0, -0.0, -1.0, 5e-324, 1e-300, 1e300, -1e300, 1e6, math.nan, math.inf])
value = st.none() | odd | st.floats() | st.floats(-1, 12)
row = st.fixed_dictionaries(
    {
        "loss": value,
        "grad_norm": value,
        "learning_rate": value,
        "loss_scale": st.none() | odd,
        "update_skipped": st.none() | st.booleans(),
        "gap": st.integers(1, 1000),
        "back": st.integers(0, 40),
    }
)


@settings(max_examples=60, deadline=None)
@example(
    [(ONLY_NORM, 4), (LOSS, 31), (LOWER, 2)], 15, None
)  # 16 records known, none of them learned
@given(
    st.lists(st.tuples(row, st.integers(1, 40)), max_size=40),
    st.integers(0, 300),
    st.sampled_from([None, 2, 50304]),
)
def test_it_never_raises_and_its_state_is_always_strict_json(blocks, healthy, vocabulary):
    detector = LossDetector(vocab_size=vocabulary, horizon=32)
    step, attempt = 0, 0
    for number in range(healthy):
        step += 1
        values = {"loss": 2.0 + 0.01 * (number % 7), "grad_norm": 0.3 + 0.01 * (number % 5)}
        detector.update(StepRecord(step=step, values=values))
    for block, repeats in blocks:
        values = {k: v for k, v in block.items() if v is not None and k not in ("gap", "back")}
        if block["back"] == 0:  # rewind
            step, attempt = step // 2, attempt + 1
        for _ in range(repeats):
            step += block["gap"]
            verdict = detector.update(StepRecord(step=step, attempt=attempt, values=values))
            assert verdict.step == step
            for finding in verdict.findings:
                json.dumps(dict(finding.evidence), allow_nan=False)
                assert finding.message
        json.dumps(detector.state_dict(), allow_nan=False)
        for finding in detector.finish():
            json.dumps(dict(finding.evidence), allow_nan=False)


@settings(max_examples=10, deadline=None)
@example([1e6])
@given(st.lists(st.floats() | st.none(), max_size=60))
def test_whatever_came_before_a_spike_is_found_once_the_run_is_healthy_again(before):
    # No sequence of values blinds or locks the detector for good.
    detector = LossDetector(horizon=32)
    losses = [*before, *(2.0 + 0.01 * ((7 * n) % 5) for n in range(1200)), 3.0]
    for step, loss in enumerate(losses, start=1):
        values = {} if loss is None else {"loss": loss}
        verdict = detector.update(StepRecord(step=step, values=values))
    assert [finding.code for finding in verdict.findings] == ["SPK000"]
