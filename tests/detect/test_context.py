"""What was kept of a run around an incident."""

import json
import math

from surefoot.detect.context import AFTER, BEFORE, Context
from surefoot.records import StepRecord


def fed(losses: list[float], **values: float) -> Context:
    context = Context()
    for step, loss in enumerate(losses, 1):
        context.update(StepRecord(step=step, values={"loss": loss, **values}))
    return context


def facts(context: Context, onset: int):
    return context.evidence(
        code="SPK000",
        onset_step=onset,
        onset_interval=(onset - 1, onset),
        alarm_step=onset,
        leading_signal="loss",
        recovered=None,
        score=2.0,
    )


def test_losses_before_and_after_the_onset() -> None:
    context = fed([2.0] * 100 + [5.0, 4.0])
    found = facts(context, 101)
    assert found.loss is not None
    assert (found.loss.before, found.loss.at_onset, found.loss.extreme) == (2.0, 5.0, 5.0)
    assert found.loss_after == (5.0, 4.0)
    assert found.steps_after == (101, 102)
    assert len(found.loss_before) == 16
    assert found.uniform == 2.0


def test_what_was_before_a_long_incident_is_kept_until_its_end() -> None:
    context = fed([2.0] * 100)
    context.opened(101)
    for step in range(101, 2000):
        context.update(StepRecord(step=step, values={"loss": 7.0}))
    found = facts(context, 101)
    assert found.loss is not None
    assert found.loss.before == 2.0
    assert len(found.loss_after) == AFTER
    assert len(context.losses) <= BEFORE + AFTER
    context.closed(101)
    assert facts(context, 2000).repeats == (101,)


def test_a_rate_that_jumps_is_noted_and_warm_up_is_not() -> None:
    context = Context()
    for step in range(1, 200):
        rate = min(step, 100) * 1e-5 * (10 if step >= 150 else 1)
        context.update(StepRecord(step=step, values={"loss": 3.0, "learning_rate": rate}))
    ((step, factor),) = context.rate_jumps
    assert step == 150
    assert 9.9 < factor < 10.1


def test_an_attempt_that_goes_back_forgets_what_it_gave_up() -> None:
    context = fed([3.0] * 50)
    context.update(StepRecord(step=31, attempt=1, values={"loss": 9.0}))
    assert context.resumed_step == 31
    assert [step for step, _, _ in context.losses][-2:] == [30, 31]


def test_nan_absent_values_and_the_state_as_json() -> None:
    context = fed([3.0, math.nan, 2.0])
    context.update(StepRecord(step=4, values={"learning_rate": math.inf, "loss_scale": 4.0}))
    again = Context.from_state(json.loads(json.dumps(context.state_dict())))
    assert again == context
    assert facts(context, 4).loss is None
