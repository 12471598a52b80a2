"""NaN and infinity: told once an incident, never learned, and never the end of the watch."""

import math

import numpy as np
import pytest

NAN, INF = math.nan, math.inf


def noisy(steps, rng, level=2.5, sigma=0.01):
    return level + sigma * rng.standard_normal(steps)


@pytest.mark.parametrize(
    ("value", "peak"), [(NAN, "nan"), (INF, "inf"), (-INF, "-inf")], ids=["nan", "inf", "-inf"]
)
def test_a_loss_that_is_not_finite_is_told_at_its_step_and_halts(feed, rng, value, peak):
    losses = noisy(400, rng)
    losses[299] = value
    told = feed(losses)
    assert told.codes == [(300, "SPK004")]
    assert told.halts == [300]
    finding = told.one("SPK004")
    assert finding.severity == "error"
    assert finding.evidence["onset_step"] == 300
    assert finding.evidence["peak_nats"] == peak
    assert finding.evidence["leading_signal"] == "loss"
    assert finding.evidence["last_healthy_step"] == 298
    assert f"the loss was {peak} at step 300" in finding.message


@pytest.mark.parametrize("value", [NAN, INF])
def test_a_gradient_norm_that_is_not_finite(feed, rng, value):
    grads = 0.3 * np.exp(0.1 * rng.standard_normal(400))
    grads[299] = value
    told = feed(noisy(400, rng), grads)
    assert told.codes == [(300, "SPK004")]
    assert told.one("SPK004").evidence["leading_signal"] == "grad_norm"
    assert f"the gradient norm was {value} at step 300" in told.one("SPK004").message
    # Its loss was finite, so the weights it was taken of are sound: the onset is this very step.
    assert told.one("SPK004").evidence["onset_interval"] == [300, 300]
    assert told.one("SPK004").evidence["last_healthy_step"] == 299


def test_in_the_very_first_record(feed, rng):
    losses = noisy(200, rng)
    losses[0] = NAN
    losses[150] += 1.0
    told = feed(losses)
    assert told.codes == [(1, "SPK004"), (151, "SPK000"), (167, "SPK001")]
    assert told.one("SPK004").evidence["onset_interval"] == [1, 1]
    assert told.one("SPK004").evidence["last_healthy_step"] == 0


def test_after_a_nan_a_later_spike_is_still_found(feed, rng):
    losses = noisy(600, rng)
    losses[299] = NAN
    losses[399:403] += 0.3
    told = feed(losses)
    assert told.codes == [(300, "SPK004"), (400, "SPK000"), (419, "SPK001")]


def test_the_verdict_says_when_the_loss_was_back(feed, rng):
    losses = noisy(400, rng)
    losses[299:302] = NAN
    told = feed(losses)
    back = [
        (v.step, v.scores["recovered_step"]) for v in told.verdicts if "recovered_step" in v.scores
    ]
    assert back == [(318, 303)]
    assert told.verdicts[317].status == "healthy"


def test_a_storm_of_nan_is_one_incident_and_one_alert(feed, rng):
    losses = noisy(1400, rng)
    losses[299:1299] = NAN
    told = feed(losses)
    assert told.codes == [(300, "SPK004")]
    assert {v.status for v in told.verdicts[299:1299]} == {"incident"}


def test_nan_every_few_records_is_one_incident_too(feed, rng):
    losses = noisy(900, rng)
    losses[299:799:10] = NAN
    assert feed(losses).codes == [(300, "SPK004")]


def test_two_nan_far_apart_are_two_incidents(feed, rng):
    losses = noisy(600, rng)
    losses[[299, 399]] = NAN
    assert feed(losses).codes == [(300, "SPK004"), (400, "SPK004")]


def test_a_spike_that_ends_in_nan_changes_its_code_under_the_same_id(feed, rng):
    losses = noisy(400, rng)
    losses[299:303] += [0.5, 1.0, 2.0, 4.0]
    losses[303:] = NAN
    told = feed(losses)
    assert told.codes == [(300, "SPK000"), (304, "SPK004")]
    assert told.halts == [304]
    assert {f.evidence["incident"] for f in told.findings} == {"a0-s00300"}
    assert told.one("SPK004").evidence["onset_step"] == 300
    assert told.one("SPK004").evidence["peak_nats"] == "nan"
    (last,) = told.detector.finish()
    assert "still so when the data ended at step 400" in last.message


def test_a_gradient_norm_that_led_to_nan_dates_the_onset(feed, rng):
    grads = 0.3 * np.exp(0.1 * rng.standard_normal(302))
    grads[299:301] *= 5
    losses = noisy(302, rng)
    losses[301] = NAN
    told = feed(losses, grads)
    assert told.codes[-1] == (302, "SPK004")
    assert told.findings[-1].evidence["onset_step"] == 300
    assert told.findings[-1].evidence["leading_signal"] == "grad_norm"


def test_what_comes_after_a_nan_is_told_and_still_names_it(feed, rng):
    losses = noisy(800, rng)
    losses[299:302] = NAN
    losses[302:] += 1.0
    told = feed(losses)
    assert [code for _, code in told.codes] == ["SPK004", "SPK002"]
    assert told.one("SPK002").message.endswith("; the loss was nan at step 300")


def test_a_run_without_a_loss_is_watched_on_after_a_gradient_norm_that_is_not_finite(feed, rng):
    grads = 0.3 * np.exp(0.1 * rng.standard_normal(600))
    grads[299] = NAN
    grads[399:403] *= 30
    told = feed(None, grads)
    assert [code for _, code in told.codes] == ["SPK004", "SPK000", "SPK001"]
    assert told.codes[0][0] == 300
    assert told.one("SPK000").evidence["onset_step"] == 400


# ---- fp16 loss scaling: infinite gradients are its everyday business -----------------------------


def overflowing(rng, steps=400, at=()):
    grads = 0.3 * np.exp(0.1 * rng.standard_normal(steps))
    scale, skipped = np.full(steps, 65536.0), np.zeros(steps, dtype=int)
    for step in at:
        grads[step - 1], skipped[step - 1] = INF, 1
        scale[step - 1 :] /= 2
    return noisy(steps, rng), grads, {"loss_scale": scale, "update_skipped": skipped}


def test_an_overflow_now_and_then_is_not_a_finding(feed, rng):
    losses, grads, more = overflowing(rng, at=(100, 101, 200, 300))
    assert feed(losses, grads, **more).codes == []


def test_a_first_scale_that_settles_is_not_a_finding(feed, rng):
    losses, grads, more = overflowing(rng)
    grads[:30], more["update_skipped"][:30] = NAN, 1
    more["loss_scale"] = 2.0 ** np.maximum(2, 32 - np.arange(400.0))
    assert feed(losses, grads, **more).codes == []


def test_ten_overflows_in_a_row_are_a_storm(feed, rng):
    losses, grads, more = overflowing(rng, at=range(200, 214))
    assert feed(losses, grads, **more).codes == [(209, "SPK004")]


def test_an_overflow_at_the_least_scale_is_told(feed, rng):
    losses, grads, more = overflowing(rng, at=(200,))
    more["loss_scale"][199:] = 1.0
    assert feed(losses, grads, **more).codes == [(200, "SPK004")]


def test_an_infinite_gradient_whose_update_was_made_is_told(feed, rng):
    losses, grads, more = overflowing(rng, at=(200,))
    more["update_skipped"][:] = 0
    assert feed(losses, grads, **more).codes == [(200, "SPK004")]


def test_a_loss_that_is_not_finite_is_told_whatever_the_scale(feed, rng):
    losses, grads, more = overflowing(rng, at=(200,))
    losses[199] = NAN
    assert feed(losses, grads, **more).codes == [(200, "SPK004")]
