"""What people are told to do fits what happened; numbers in a sentence agree with each other."""

import math
import re

import numpy as np
import pytest

from surefoot.detect.messages import came_back, with_checkpoints
from surefoot.detect.summary import summary
from surefoot.detect.usability import usable_loss

NAN = math.nan


def noisy(steps, rng, level=2.5, sigma=0.01):
    return level + sigma * rng.standard_normal(steps)


def end(told, code=None):
    (finding,) = told.detector.finish()
    assert code is None or finding.code == code
    return finding


def test_spikes_far_apart_on_a_falling_course_are_told_one_by_one(feed, rng):
    # The fall of an open incident's course used to be carried on too far: one spike after the
    # other was swallowed by the first, and ended as a shift.
    steps = np.arange(1, 1501)
    losses = 2.2 + 5.0 * (1 + steps / 30) ** -0.5 + 0.02 * rng.standard_normal(1500)
    for at in (520, 560, 640, 720):
        losses[at - 1 : at + 3] += [0.8, 0.7, 0.5, 0.2]
    told = feed(losses)
    assert [code for _, code in told.codes] == ["SPK000", "SPK001"] * 4
    peaks = [f.evidence["peak_nats"] for f in told.findings if f.code == "SPK001"]
    assert peaks == pytest.approx([0.8] * 4, abs=0.08)


def test_settled_at_was_and_the_difference_subtract(feed, rng):
    losses = noisy(1000, rng)
    losses[499:] += 0.3
    message = feed(losses).one("SPK002").message
    found = re.search(
        r"settled at ([\d.]+) nats, was ([\d.]+) nats before \(([+\d.]+) nat\)", message
    )
    settled, was, rise = map(float, found.groups())
    assert rise == pytest.approx(settled - was, abs=1e-3)


def test_an_infinite_loss_that_is_finite_again_is_not_still_so(feed):
    told = feed([1.3, 1.25, math.inf, 1.248])
    message = end(told, "SPK004").message
    assert "still so" not in message
    assert "finite again from step 4 on" in message
    assert "rewind to" not in " ".join(end(told).actions)


def test_a_nan_that_came_back_within_the_data_says_so(feed, rng):
    losses = noisy(310, rng)
    losses[299:301] = NAN
    told = feed(losses)
    finding = end(told, "SPK004")
    assert finding.evidence["recovered_step"] == 302
    assert not any("rewind to" in action for action in finding.actions)
    assert any("no rewind" in action for action in finding.actions)


def test_the_first_signal_that_was_not_finite_is_named_first(feed):
    losses = [1.48, 1.44, 1.45, 1.48, 1.44, 1.45, 1.4596, 0.0, 0.0, 0.0]
    grads = [1.97, 2.31, 1.92, 2.39, 1.82, 2.07, NAN, NAN, NAN, NAN]
    finding = next(f for f in feed(losses, grads).detector.finish() if f.code == "SPK004")
    assert finding.message.startswith(
        "the gradient norm was nan at step 7, the loss from step 8 on"
    )
    assert finding.evidence["leading_signal"] == "grad_norm"
    assert finding.evidence["onset_interval"] == [7, 7]
    assert finding.evidence["nonfinite"] == {"grad_norm": 7, "loss": 8}


def test_a_skipped_update_needs_no_rewind(feed, rng):
    grads = 0.3 * np.exp(0.1 * rng.standard_normal(300))
    grads[-1] = NAN
    skipped = [0] * 299 + [1]
    finding = feed(noisy(300, rng), grads, update_skipped=skipped).one("SPK004")
    assert finding.evidence["update_skipped"] is True
    assert "no rewind: the update was skipped" in finding.actions[1]
    finding = feed(noisy(300, rng), grads).one("SPK004")
    assert finding.evidence["update_skipped"] is False
    assert "rewind to the newest checkpoint at or before step 299" in finding.actions[1]


def test_what_was_told_online_is_completed_once_it_came_back(feed, rng):
    losses = noisy(400, rng)
    losses[299] = NAN
    told = feed(losses)
    finding = came_back(told.one("SPK004"), 301)
    assert "from step 301 on" in finding.message
    assert finding.evidence["recovered_step"] == 301
    assert any("no rewind" in action for action in with_checkpoints(finding, [100]).actions)


@pytest.mark.parametrize("first", [0, 1, 5000])
def test_a_log_of_nothing_but_nan_names_no_step_to_go_back_to(feed, first):
    told = feed([NAN] * 30, first=first)
    finding = told.one("SPK004")
    assert finding.evidence["last_healthy_step"] >= 0
    text = " ".join(finding.actions)
    assert "step -1" not in text
    assert "at or before step" not in text
    assert "start again from" in text


def test_a_nan_after_an_evaluated_step_dates_from_the_step_after_it(feed):
    # Rows of every tenth step; the weights after step 3000 were evaluated, and were sound.
    losses = [3.99, 3.94, 4.0, 4.1, 4.15, 3.95, 3.9, 3.89, 4.249, *[NAN] * 6]
    evaluated = [None] * 8 + [4.0427] + [None] * 6
    told = feed(losses, first=2920, every=10, validation_loss=evaluated)
    finding = told.one("SPK004")
    assert finding.evidence["onset_interval"] == [3001, 3010]
    assert with_checkpoints(finding, [2000, 3000]).evidence["rewind_to_step"] == 3000
    # Without the evaluation the update of step 3000 itself is in doubt.
    told = feed(losses, first=2920, every=10)
    assert told.one("SPK004").evidence["onset_interval"] == [3000, 3010]


def test_nobody_is_told_to_wait_while_the_loss_is_nats_up(feed, rng):
    losses = [2.77, 2.768, 2.771, 7.34, 8.72, 7.5, 7.2, 6.85]
    finding = end(feed(losses, first=10, every=10), "SPK000")
    assert "wait" not in " ".join(finding.actions)
    assert "+4.08" in finding.actions[0] or "+4.4" in finding.actions[0]
    # Online, at the alarm, most spikes do come back; one of 8 nats at once does not.
    losses = noisy(300, rng)
    losses[-1] += 0.3
    assert "wait" in feed(losses).one("SPK000").actions[0]
    losses[-1] += 8.0
    assert "wait" not in feed(losses).one("SPK000").actions[0]


def test_many_spikes_are_summarised_in_a_line(feed, rng):
    losses = noisy(3000, rng)
    for at in (300, 700, 1500, 2000, 2500):
        losses[at] += 0.5
    losses[1500] += 0.7
    findings = [f for f in feed(losses).findings if f.code == "SPK001"]
    text = summary(findings, 3000)
    assert text.startswith("5 spikes that came back, 1.7 a thousand records")
    assert "between steps 301 and 2501" in text
    assert re.search(r"worst \+1\.[12]\d* nat at step 1501", text)
    assert summary(findings[:3], 3000) is None


@pytest.mark.parametrize(
    ("loss", "grad", "used"),
    [
        (2.5, 0.3, 2.5), (0.0, NAN, None), (0.0, math.inf, None), (0.0, 0.0, 0.0), (0.0, None, 0.0),
        (-1.0, 0.3, None), (NAN, 0.3, None), (None, 0.3, None), ("2.5", None, 2.5),
    ],
)  # fmt: skip
def test_a_masked_nan_is_no_best_loss(loss, grad, used):
    assert usable_loss(loss, grad) == used


# ---- what another signal knows of an incident ----------------------------------------------------


def test_the_onset_can_be_moved_earlier_and_never_later(feed, rng):
    losses = noisy(310, rng)
    losses[299:] += 1.0
    told = feed(losses)
    assert told.detector.set_onset(305, (304, 306), "update_rms") is None
    finding = told.detector.set_onset(290, (288, 292), "update_rms")
    assert finding.code == "SPK000"
    assert finding.evidence["onset_step"] == 290
    assert finding.evidence["last_healthy_step"] == 287
    assert finding.evidence["leading_signal"] == finding.place.signal == "update_rms"
    assert finding.message.startswith("update_rms left its course, the loss ran at 2.")
    assert told.detector.incident.onset_step == 290


def test_an_incident_of_another_signal_ends_once_that_signal_no_longer_holds_it(feed, rng):
    losses = noisy(400, rng)
    told = feed(losses[:300])
    detector = told.detector
    finding = detector.open_incident(298, (297, 299), "update_rms")
    assert (finding.code, finding.evidence["onset_step"]) == ("SPK000", 298)
    assert detector.open_incident(298, (297, 299), "update_rms") is None
    codes = []
    for step in range(301, 401):
        told = feed(losses[step - 1 : step], detector=detector, first=step)
        codes += told.codes
        if step <= 330:
            detector.hold()
    assert codes == [(346, "SPK001")]


def test_an_incident_of_another_signal_in_a_run_without_a_loss_ends_with_time(feed):
    detector = feed([None] * 50, [None] * 49 + [0.3], other=[1.0] * 50).detector
    assert detector.open_incident(50, (49, 50), "log_z").code == "SPK000"
    told = feed(None, None, detector=detector, first=51, other=[1.0] * 40)
    assert [code for _, code in told.codes] == ["SPK001"]
    assert detector.level is None


def test_level_noise_and_guess_are_known(feed, rng):
    told = feed(noisy(500, rng, sigma=0.03))
    assert told.detector.level == pytest.approx(2.5, abs=0.03)
    assert told.detector.noise == pytest.approx(0.03, rel=0.4)
    assert told.detector.uniform == pytest.approx(math.log(50304))
