"""Spikes that come back: found at their step, dated, closed under the same id, and priced."""

import math
import re

import numpy as np
import pytest

from surefoot.detect import LossDetector
from surefoot.records import StepRecord

EVIDENCE = [
    "incident",
    "onset_step",
    "onset_interval",
    "leading_signal",
    "peak_step",
    "peak_nats",
    "recovered_step",
    "last_healthy_step",
    "rewind_to_step",
    "false_alarm_rate",
    "known",
]


def noisy(steps, rng, level=2.5, sigma=0.01):
    return level + sigma * rng.standard_normal(steps)


@pytest.mark.parametrize("settings", [{"vocab_size": 1}, {"vocab_size": 0}, {"horizon": 31}])
def test_settings_that_cannot_work_are_refused(settings):
    with pytest.raises(ValueError, match=f"got {next(iter(settings.values()))}"):
        LossDetector(**settings)


def test_the_first_sixteen_records_are_warm_up_and_silent(feed, rng):
    told = feed(noisy(40, rng))
    assert [verdict.status for verdict in told.verdicts] == ["warming_up"] * 15 + ["healthy"] * 25
    assert told.codes == []


def test_even_a_wild_first_fall_is_silent_in_the_warm_up(feed):
    told = feed([10.8, 11.4, 10.9, 10.1, 10.6, 9.8, 9.9, 9.0, 9.3, 8.8, 8.9, 8.1, 8.3, 7.9, 7.7])
    assert told.codes == []


def test_a_catastrophe_in_the_warm_up_is_still_told(feed):
    told = feed([10.8, 10.7, 10.6, 10.5, 10.4, 10.3, 10.2, 10.1, 55.0])
    assert told.codes == [(9, "SPK000")]


def test_a_constant_series_is_healthy_and_a_spike_on_it_is_found(feed):
    told = feed([2.0] * 600, [0.5] * 600)
    assert told.codes == []
    told = feed([2.0] * 600 + [2.1] + [2.0] * 40)
    assert told.codes == [(601, "SPK000"), (617, "SPK001")]


def test_a_constant_series_takes_a_change_in_the_last_digit_calmly(feed):
    losses = [2.0] * 300 + [2.001] * 300 + [2.0] * 300
    assert feed(losses).codes == []


@pytest.mark.parametrize("seed", range(5))
def test_a_single_spike(feed, curve, gradient, seed):
    rng = np.random.default_rng(seed)
    losses = curve(1200) + 0.03 * rng.standard_normal(1200)
    losses[999] = curve(1200)[999] + 0.3
    told = feed(losses, gradient(1200, rng))
    assert [code for _, code in told.codes] == ["SPK000", "SPK001"]
    assert told.codes[0][0] == 1000
    closed = told.one("SPK001")
    assert closed.severity == "info"
    assert closed.evidence["onset_step"] == closed.evidence["peak_step"] == 1000
    assert closed.evidence["recovered_step"] == 1001
    assert closed.evidence["peak_nats"] == pytest.approx(0.3, abs=0.07)
    assert closed.evidence["leading_signal"] == "loss"
    assert told.halts == []


def test_one_outlier_is_told_but_never_halts_and_the_alarm_step_tells_one_code(feed, rng):
    losses = noisy(400, rng)
    losses[299:304] += [4.0, 3.0, 2.0, 1.0, 0.5]
    told = feed(losses)
    assert told.codes[0] == (300, "SPK000")
    assert [len(v.findings) for v in told.verdicts if v.findings] == [1, 1]
    assert told.halts == []


def test_while_it_is_open_the_incident_can_be_asked_for(feed, rng):
    losses = noisy(320, rng)
    losses[299] += 1.0
    detector = LossDetector()
    assert detector.incident is None
    told = feed(losses[:305], detector=detector)
    assert [v.status for v in told.verdicts[298:]] == ["healthy"] + ["incident"] * 6
    incident = detector.incident
    assert (incident.id, incident.alarm_step) == ("a0-s00300", 300)
    assert (incident.onset_step, incident.peak_step, incident.last_healthy_step) == (300, 300, 298)
    told = feed(losses[305:], detector=detector, first=306)
    assert told.codes == [(316, "SPK001")]
    assert detector.incident is None


def test_the_same_id_opens_and_closes_and_two_spikes_have_two(feed, rng):
    losses = noisy(700, rng)
    losses[299:303] += 0.5
    losses[499:503] += 0.5
    told = feed(losses)
    assert told.codes == [(300, "SPK000"), (319, "SPK001"), (500, "SPK000"), (519, "SPK001")]
    ids = [finding.evidence["incident"] for finding in told.findings]
    assert ids == ["a0-s00300", "a0-s00300", "a0-s00500", "a0-s00500"]


def test_a_second_hump_before_the_loss_is_back_is_the_same_incident(feed, rng):
    losses = noisy(400, rng)
    losses[299:303] += 0.5
    losses[309:312] += 0.5
    told = feed(losses)
    assert told.codes == [(300, "SPK000"), (328, "SPK001")]
    assert told.one("SPK001").evidence["recovered_step"] == 313


@pytest.mark.parametrize("at", [60, 120, 200, 300])
def test_a_spike_in_the_steep_first_fall_is_closed_as_one_that_came_back(feed, rng, at):
    # The fall of the last hundred steps must not be carried on for ever: it is fading.
    losses = 2.5 + 8 * np.exp(-np.arange(700) / 40) + 0.02 * rng.standard_normal(700)
    losses[at - 1 : at + 3] += 3.0
    told = feed(losses)
    assert [code for _, code in told.codes] == ["SPK000", "SPK001"]
    assert told.codes[0][0] == at
    assert told.codes[1][0] <= at + 40


def test_spikes_do_not_raise_the_bar_for_the_next_one(feed, rng):
    # A detector that lets its outliers into its baseline is blind after a few of them.
    losses = noisy(3000, rng)
    losses[499::100] += 1.0
    losses[-51] += -1.0 + 0.2  # the last one is smaller
    told = feed(losses)
    opened = [step for step, code in told.codes if code == "SPK000"]
    assert opened == [*range(500, 2900, 100), 2900, 2950] or opened == list(range(500, 3001, 100))


@pytest.mark.parametrize(
    ("height", "records", "severity"), [(0.4, 20, "info"), (0.8, 20, "warning")]
)
def test_a_spike_that_cost_more_than_ten_nat_steps_is_a_warning(
    feed, rng, height, records, severity
):
    losses = noisy(500, rng)
    losses[299 : 299 + records] += height
    told = feed(losses)
    assert [code for _, code in told.codes] == ["SPK000", "SPK001"]
    closed = told.one("SPK001")
    assert closed.severity == severity
    assert f"cost {height * records:.2g}" in closed.message
    assert len(closed.actions) == (1 if severity == "info" else 2)


def test_the_cost_counts_steps_not_records(feed, rng):
    losses = noisy(500, rng)
    losses[299:303] += 0.5  # 2 nat x records, 20 nat x steps
    told = feed(losses, first=10, every=10)
    assert told.one("SPK001").severity == "warning"
    assert told.one("SPK001").evidence["recovered_step"] == 3040


def test_evidence_place_and_message(feed, rng):
    losses = noisy(400, rng)
    losses[299:303] += [0.6, 0.5, 0.4, 0.2]
    opened, closed = feed(losses).findings
    for finding in (opened, closed):
        assert list(finding.evidence)[: len(EVIDENCE)] == EVIDENCE
        assert finding.evidence["rewind_to_step"] is None
        assert finding.evidence["onset_interval"] == [299, 300]
        assert finding.evidence["last_healthy_step"] == 298
        assert finding.place.attempt == 0
        assert finding.place.signal == "loss"
        assert finding.references
        assert finding.actions
    assert opened.severity == "warning"
    assert opened.evidence["recovered_step"] is None
    assert opened.evidence["excess_nats"] == pytest.approx(0.6, abs=0.05)
    assert opened.evidence["at_end"] is False
    assert opened.place.steps == (300, 300)
    assert re.match(
        r"the loss left its course of 2\.[45]\d* nats: peak \+0\.[56]\d* nat at step 300, "
        r"onset step 299 to 300, led by loss$",
        opened.message,
    )
    assert "newest checkpoint at or before step 298" in opened.actions[1]
    assert closed.place.steps == (300, 304)
    assert "was back at step 304, 4 steps after the onset" in closed.message
    assert "no action" in closed.actions[0]


def test_a_gradient_norm_alone_opens_an_incident_and_closes_it(feed, rng):
    losses = noisy(500, rng)
    grads = 0.3 * np.exp(0.1 * rng.standard_normal(500))
    grads[299:302] *= 30
    told = feed(losses, grads)
    assert [code for _, code in told.codes] == ["SPK000", "SPK001"]
    assert told.codes[0][0] == 301  # one record of it says little: two of three do
    assert told.one("SPK000").evidence["leading_signal"] == "grad_norm"
    assert told.one("SPK000").evidence["onset_step"] == 300


def test_a_run_that_logs_no_loss_is_watched_by_its_gradient_norm(feed, rng):
    grads = 0.3 * np.exp(0.1 * rng.standard_normal(500))
    grads[299:303] *= 30
    told = feed(None, grads)
    assert [code for _, code in told.codes] == ["SPK000", "SPK001"]
    closed = told.one("SPK001")
    assert closed.evidence["onset_step"] == 300
    assert closed.evidence["recovered_step"] == 304
    assert closed.evidence["peak_nats"] == 0.0
    assert "the gradient norm left its course" in closed.message


def test_steps_must_increase_within_an_attempt(feed):
    detector = LossDetector()
    feed([2.0] * 5, detector=detector)
    for step in (5, 3):
        with pytest.raises(ValueError, match=f"got step {step} after 5 in attempt 0"):
            feed([2.0], detector=detector, first=step)


def test_a_later_attempt_may_go_back_and_a_spike_in_it_is_found_again(feed, rng):
    detector = LossDetector()
    losses = noisy(310, rng)
    losses[299:] += 3.0
    told = feed(losses, detector=detector)
    assert told.codes == [(300, "SPK000")]
    again = noisy(400, rng)
    again[299:303] += 0.5
    told = feed(again[250:], detector=detector, first=251, attempt=1)
    assert told.codes == [(300, "SPK000"), (319, "SPK001")]
    assert told.one("SPK001").evidence["incident"] == "a1-s00300"
    assert told.one("SPK001").place.attempt == 1


def test_going_back_to_before_a_shift_is_no_incident(feed, rng):
    detector = LossDetector()
    losses = noisy(700, rng)
    losses[299:] += 0.5
    assert [code for _, code in feed(losses, detector=detector).codes] == ["SPK000", "SPK002"]
    told = feed(noisy(600, rng), detector=detector, first=251, attempt=1)
    assert told.codes == []


def _values(detector, feed, at, **wanted):
    """The loss, or the gradient norm, that has the wanted score at step ``at``."""
    probe = LossDetector()
    probe.load_state_dict(detector.state_dict())
    scores = feed([2.55], [0.6], detector=probe, first=at).verdicts[0].scores
    unit = scores["excess_nats"] / scores["score"]
    return 2.55 + (wanted["score"] - scores["score"]) * unit


@pytest.mark.parametrize(("grad", "codes"), [(3.0, [(301, "SPK000")]), (0.3, [])])
def test_two_signals_that_each_fall_short_are_an_incident_together(feed, rng, grad, codes):
    detector = LossDetector()
    feed(noisy(300, rng), 0.3 * np.exp(0.1 * rng.standard_normal(300)), detector=detector)
    loss = _values(detector, feed, 301, score=0.9)
    assert feed([loss], [grad], detector=detector, first=301).codes == codes


@pytest.mark.parametrize(("between", "onset"), [(0, 301), (3, 301), (4, 306)])
def test_the_onset_reaches_back_across_up_to_three_records_in_the_band(feed, rng, between, onset):
    detector = LossDetector()
    feed(noisy(300, rng), detector=detector)
    loss = _values(detector, feed, 301, score=0.6)
    told = feed([loss, *[2.5] * between, 4.0], detector=detector, first=301)
    assert told.codes == [(302 + between, "SPK000")]
    assert told.one("SPK000").evidence["onset_step"] == onset


def test_a_collapse_to_a_model_that_knows_nothing_is_no_recovery():
    # A rate far too high: the first updates throw the loss out, then the model answers uniformly
    # for good. The course before was that of a fresh model, so the loss is "back" on it.
    uniform = math.log(320)
    detector = LossDetector(vocab_size=320)
    told = []
    for step in range(1, 400):
        loss = uniform + 0.1 if step < 3 else 1e6 if step < 12 else uniform
        told += detector.update(StepRecord(step=step, values={"loss": loss})).findings
    assert [finding.code for finding in told] == ["SPK000", "SPK003"]


def test_an_early_spike_is_over_once_the_model_learns():
    uniform = math.log(320)
    detector = LossDetector(vocab_size=320)
    told = []
    for step in range(1, 200):
        loss = uniform + 0.1 if step < 3 else 9.0 if step < 6 else uniform - 0.02 * (step - 6)
        told += detector.update(StepRecord(step=step, values={"loss": loss})).findings
    assert [finding.code for finding in told] == ["SPK000", "SPK001"]
