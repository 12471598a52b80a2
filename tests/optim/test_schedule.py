import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.optim import learning_rate
from surefoot.optim.schedule import SHAPES
from surefoot.recipe import Schedule

KINDS = ("cosine", "wsd", "linear", "constant")


@st.composite
def schedules(draw):
    steps = draw(st.integers(1, 300))
    warmup = draw(st.integers(0, steps))
    kind = draw(st.sampled_from(KINDS))
    decay = draw(st.none() | st.integers(0, steps - warmup)) if kind == "wsd" else None
    return Schedule(
        kind=kind,
        steps=steps,
        warmup_steps=warmup,
        decay_steps=decay,
        final_factor=draw(st.sampled_from([0.0, 0.1, 0.9])),
    )


@settings(deadline=None, max_examples=150)
@given(schedule=schedules(), peak=st.sampled_from([1.0, 3e-4]))
def test_shape(schedule, peak):
    steps, warmup = schedule.steps, schedule.warmup_steps
    rates = [learning_rate(schedule, peak, step) for step in range(1, steps + 1)]
    assert all(math.isfinite(rate) and 0 <= rate <= peak for rate in rates)
    for step in range(1, warmup + 1):
        assert rates[step - 1] == pytest.approx(peak * step / warmup, rel=1e-12)
    after = rates[max(warmup - 1, 0) :]
    assert after == sorted(after, reverse=True)  # never rises after the warm-up
    if warmup:
        assert rates[warmup - 1] == peak
    falls = schedule.kind != "constant" and schedule.decay_steps != 0 and warmup < steps
    assert rates[-1] == (peak * schedule.final_factor if falls else peak)
    assert learning_rate(schedule, peak, steps + 7) == rates[-1]
    # No jump larger than the steepest slope of the shape allows.
    decay = schedule.decay_steps
    if decay is None:
        decay = min(max(1, steps // 10), steps - warmup)
    length = {"wsd": decay, "constant": 1}.get(schedule.kind, steps - warmup)
    steepest = peak * (1 - schedule.final_factor) * math.pi / 2 / max(length, 1)
    drops = [a - b for a, b in itertools.pairwise(after)]
    assert all(drop <= steepest * (1 + 1e-9) for drop in drops)


def test_golden_values():
    def rates(steps, **settings):
        schedule = Schedule(steps=8, warmup_steps=2, final_factor=0.1, **settings)
        return [learning_rate(schedule, 1.0, step) for step in steps]

    assert rates([1, 2, 5, 8], kind="cosine") == pytest.approx([0.5, 1, 0.55, 0.1])
    assert rates([4], kind="cosine") == pytest.approx([0.1 + 0.9 * 0.75])
    assert rates([1, 2, 4, 5, 8], kind="linear") == pytest.approx([0.5, 1, 0.7, 0.55, 0.1])
    assert rates([2, 7, 8], kind="wsd") == pytest.approx([1, 1, 0.1])  # a tenth, but one step
    assert rates([4, 5, 6, 7, 8], kind="wsd", decay_steps=4) == pytest.approx(
        [1, 0.775, 0.55, 0.325, 0.1]
    )
    assert rates([1, 3, 8], kind="constant") == pytest.approx([0.5, 1, 1])


def test_the_resolved_schedule_has_the_same_rates():
    # The recipe writes the default of decay_steps into the run's spec.
    left_out = Schedule(kind="wsd", steps=95, warmup_steps=3)
    stated = left_out.model_copy(update={"decay_steps": 9})
    steps = range(1, 96)
    assert [learning_rate(left_out, 1.0, s) for s in steps] == [
        learning_rate(stated, 1.0, s) for s in steps
    ]


def test_steps_count_from_one():
    with pytest.raises(ValueError, match="steps count from 1"):
        learning_rate(Schedule(steps=5, warmup_steps=0), 1.0, 0)


def test_every_kind_of_the_recipe_is_there():
    assert set(SHAPES) == set(KINDS)
