"""Which alarm belongs to which fault: every clause of the matching rule."""

import pytest

from surefoot.records import Finding
from surefoot.testing.match import (
    GAP,
    HORIZON,
    Alarm,
    from_findings,
    from_flags,
    healthy_span,
    judge,
    rank_of_cause,
    window,
)
from surefoot.testing.truth import Truth


def truth(**changes):
    values = {
        "case": "fault",
        "set": "dev",
        "kind": "bit-flip",
        "group": "hardware",
        "cause": "hardware",
        "twin": "clean-1",
        "point": True,
        "injection_step": 300,
        "last_injection_step": 300,
        "manifest_step": 304,
        "loss_manifest_step": 320,
        "recovered": True,
        "steps": 600,
        **changes,
    }
    return Truth(**values)


CLEAN = truth(
    case="clean-1", kind="clean", group="clean", cause="", healthy=True, point=False,
    injection_step=None, last_injection_step=None, manifest_step=None, loss_manifest_step=None,
    recovered=None,
)  # fmt: skip


def finding(code, incident=None, severity="error", **evidence):
    if incident is not None:
        evidence["incident"] = incident
    return Finding(code=code, name=code, severity=severity, evidence=evidence)


def cried(outcome):
    return tuple(alarm.step for alarm in outcome.false_alarms)


# ---------------------------------------------------------------------------------------- alarms


def test_flags_with_small_gaps_are_one_alarm():
    steps = [100, 101, 101 + GAP, 102 + 2 * GAP]
    assert [alarm.step for alarm in from_flags(steps)] == [100, 102 + 2 * GAP]


def test_a_flag_after_the_injection_begins_an_alarm_of_its_own():
    # Otherwise a rule that flags every 30 steps would be one endless false alarm, and miss all.
    alarms = from_flags(range(10, 600, 30), injection=300)
    assert [alarm.step for alarm in alarms] == [10, 310]
    assert [alarm.onset for alarm in alarms] == [10, 310]


def test_findings_of_one_incident_are_one_alarm_with_what_was_told_last():
    told = [
        (310, finding("SPK000", "a0-s00310", onset_step=308, causes=[{"cause": "rate"}])),
        (330, finding("SPK001", "a0-s00310", onset_step=305, recovered_step=329)),
        (500, finding("SPK004", "a0-s00500", onset_step=500)),
    ]
    first, second = from_findings(told)
    assert (first.step, first.first_code, first.code, first.onset) == (310, "SPK000", "SPK001", 305)
    assert first.recovered is True
    assert first.causes == ("rate",)  # not lost because the last finding names none
    assert (second.step, second.recovered) == (500, False)
    assert (first.first_onset, first.first_causes) == (308, ("rate",))


def test_findings_without_an_incident_are_alarms_by_themselves():
    told = [(9, finding("CKP001")), (400, finding("CKP001", onset_step=399))]
    assert [(alarm.step, alarm.onset) for alarm in from_findings(told)] == [(9, None), (400, 399)]


def test_a_remark_is_no_alarm():
    assert from_findings([(9, finding("LOG009", severity="info"))]) == []
    assert [a.code for a in from_findings([(9, finding("LOG001", severity="warning"))])] == [
        "LOG001"
    ]


@pytest.mark.parametrize(
    ("code", "evidence", "recovered"),
    [
        ("SPK000", {}, None),
        ("SPK001", {"recovered_step": 9}, True),
        ("SPK002", {"recovered_step": None}, False),
        ("SPK003", {}, False),
        ("SPK004", {"recovered_step": 12}, True),
        ("SPK005", {}, None),
    ],
)
def test_what_a_code_says_of_the_end(code, evidence, recovered):
    (alarm,) = from_findings([(5, finding(code, "i", **evidence))])
    assert alarm.recovered is recovered


# ----------------------------------------------------------------------------------- what is found


@pytest.mark.parametrize(
    ("step", "found"),
    [(299, False), (300, True), (304 + HORIZON, True), (305 + HORIZON, False)],
)
def test_an_alarm_finds_the_fault_from_its_injection_to_its_horizon(step, found):
    outcome = judge(truth(), [Alarm(step=step)], {"clean-1"})
    assert outcome.found is found
    assert cried(outcome) == ()  # what is before is counted in the twin


def test_the_horizon_begins_where_the_fault_last_acted_or_showed():
    assert window(truth(last_injection_step=400)) == (300, 400 + HORIZON)
    assert window(truth(manifest_step=450)) == (300, 450 + HORIZON)
    assert window(truth(manifest_step=None, last_injection_step=None)) == (300, 300 + HORIZON)


def test_delay_lead_and_onset_error():
    outcome = judge(truth(), [Alarm(step=310, onset=301), Alarm(step=330, onset=304)])
    assert (outcome.delay, outcome.lead, outcome.onset_error) == (6, 10, 3)


def test_an_alarm_before_anything_showed_gains_nothing():
    outcome = judge(truth(), [Alarm(step=301, onset=301)])
    assert (outcome.found, outcome.delay, outcome.lead) == (True, 0, 320 - 304)


def test_there_is_no_onset_error_of_a_fault_that_is_no_point_in_time():
    assert judge(truth(point=False), [Alarm(step=310, onset=301)]).onset_error is None
    assert judge(truth(), [Alarm(step=310)]).onset_error is None


def test_a_loss_that_never_shows_it_gives_no_lead():
    assert judge(truth(loss_manifest_step=None), [Alarm(step=310)]).lead is None


def test_the_end_is_that_of_the_first_incident_of_the_loss():
    warning = Alarm(step=305, code="SPK005", first_code="SPK005")
    spike = Alarm(step=322, code="SPK001", recovered=True)
    assert judge(truth(), [spike, warning]).end_right is True
    assert judge(truth(), [spike, warning]).early
    assert judge(truth(), [warning]).end_right is False  # it says neither
    norm = Alarm(step=306, code="SPK002", recovered=False, signal="grad_norm")
    assert judge(truth(), [norm, spike]).end_right is True
    assert judge(truth(), [norm]).end_right is False
    assert judge(truth(recovered=False), [norm]).end_right is True  # better than nothing
    assert judge(truth(recovered=False), [spike]).end_right is False
    assert judge(truth(), []).end_right is False
    assert judge(truth(recovered=None), [spike]).end_right is None


def test_a_fault_counts_once_however_often_it_is_told():
    outcome = judge(truth(), [Alarm(step=310), Alarm(step=340), Alarm(step=590)], {"clean-1"})
    assert outcome.found
    assert cried(outcome) == ()


def test_a_finding_on_the_log_itself_does_not_find_a_fault():
    assert judge(truth(), [Alarm(step=310, code="LOG001")]).found is False


def test_an_alarm_about_the_whole_run_finds_without_a_delay():
    whole = Alarm(step=600, whole_run=True)
    outcome = judge(truth(), [whole])
    assert (outcome.found, outcome.delay, outcome.lead) == (True, None, None)
    assert cried(outcome) == ()
    assert cried(judge(CLEAN, [whole])) == (600,)


# ------------------------------------------------------------------------------------------- causes


def test_the_rank_of_the_first_right_cause():
    case = truth(accepted=("precision",))
    assert rank_of_cause(case, ["hardware", "rate"]) == 1
    assert rank_of_cause(case, ["rate", "precision"]) == 2
    assert rank_of_cause(case, ["rate"]) == 0
    assert rank_of_cause(case, []) == 0


def test_unknown_is_right_of_held_out_kinds_only():
    assert rank_of_cause(truth(held_out=True), ["unknown"]) == 1
    assert rank_of_cause(truth(), ["unknown"]) == 0


def test_what_was_told_with_the_alarm_is_judged_by_itself():
    alarm = Alarm(
        step=310, onset=304, causes=("hardware",), first_onset=298, first_causes=("rate",)
    )
    outcome = judge(truth(), [alarm])
    assert (outcome.onset_error, outcome.first_onset_error) == (0, 6)
    assert (outcome.cause_rank, outcome.first_cause_rank) == (1, 0)


def test_no_rank_where_no_cause_is_known():
    assert judge(truth(cause=""), [Alarm(step=310, causes=("rate",))]).cause_rank is None


# ------------------------------------------------------------------------------------ healthy steps


def test_a_shared_stretch_is_counted_once_in_the_twin():
    alarms = [Alarm(step=120)]
    twins = {"clean-1", "fault"}
    assert cried(judge(CLEAN, alarms, twins)) == (120,)
    assert judge(CLEAN, alarms, twins).healthy_steps == 600
    assert judge(truth(), alarms, twins).healthy_steps == 0
    assert cried(judge(truth(), alarms, twins)) == ()


def test_without_the_twin_the_steps_before_the_injection_are_healthy_ones():
    outcome = judge(truth(), [Alarm(step=120), Alarm(step=299), Alarm(step=300)])
    assert cried(outcome) == (120, 299)
    assert outcome.healthy_steps == 299


def test_a_look_alike_or_harmless_case_counts_from_its_fork():
    ramp = truth(case="ramp", group="look-alike", healthy=True, manifest_step=None)
    assert healthy_span(ramp, {"clean-1"}) == (300, 600)
    assert cried(judge(ramp, [Alarm(step=310)], {"clean-1"})) == (310,)
    assert judge(ramp, [Alarm(step=310)], {"clean-1"}).found is None


def test_only_records_count_where_not_every_step_has_one():
    assert judge(CLEAN, [], records=60).healthy_steps == 60
