"""Family LOG: values that are no measurement are told once, and judge nothing."""

import math

import numpy as np
import pytest

NAN = math.nan


def noisy(steps, rng, level=2.5, sigma=0.01):
    return level + sigma * rng.standard_normal(steps)


def test_a_gradient_norm_that_is_always_zero(feed, rng):
    told = feed(noisy(300, rng), np.zeros(300))
    assert told.codes == [(20, "LOG001")]
    finding = told.one("LOG001")
    assert finding.evidence == {
        "signal": "grad_norm", "value": 0.0, "records": 20, "first_step": 1, "last_step": 20,
    }  # fmt: skip
    assert finding.place.steps == (1, 20)
    assert finding.place.signal == "grad_norm"
    assert "not recorded" in finding.message
    assert told.halts == []


def test_a_gradient_norm_once_seen_alive_is_recorded(feed, rng):
    assert feed(noisy(300, rng), [0.5] * 5 + [0.0] * 295).codes == []


def test_a_dead_model_is_no_missing_gradient_norm(feed):
    assert feed([2.5] * 300, [0.0] * 300).codes == []


def test_a_loss_of_minus_one_is_a_placeholder_and_judges_nothing(feed, rng):
    told = feed([-1.0] * 300, 0.3 * np.exp(0.1 * rng.standard_normal(300)))
    assert told.codes == [(20, "LOG002")]
    assert {verdict.status for verdict in told.verdicts} == {"unusable"}
    assert told.one("LOG002").place.signal == "loss"


def test_placeholders_between_losses_do_not_enter_the_course(feed, rng):
    losses = noisy(600, rng)
    losses[100:500:2] = -1.0
    losses[549:553] += 0.3
    told = feed(losses)
    assert [code for _, code in told.codes] == ["LOG002", "SPK000", "SPK001"]
    assert told.codes[1][0] == 550


def test_a_zero_loss_with_a_nan_gradient_is_a_masked_nan(feed, rng):
    losses, grads = noisy(400, rng), 0.3 * np.exp(0.1 * rng.standard_normal(400))
    losses[299:], grads[299:] = 0.0, NAN
    told = feed(losses, grads)
    assert told.codes == [(300, "LOG003"), (300, "SPK004")]
    assert told.one("LOG003").evidence["value"] == 0.0
    assert told.one("SPK004").evidence["peak_nats"] == "nan"


def test_a_loss_of_exactly_zero_after_a_healthy_one(feed, rng):
    losses = noisy(400, rng)
    losses[299:] = 0.0
    told = feed(losses)
    assert told.codes == [(309, "LOG004")]
    assert told.one("LOG004").evidence["first_step"] == 300


def test_a_loss_that_fell_to_zero_by_learning_is_used(feed):
    # A toy task learned by heart: 0.000 at last is a measurement.
    losses = np.round(2.5 * np.exp(-np.arange(600) / 40), 3)
    assert feed(losses).codes == []


@pytest.mark.parametrize(
    ("losses", "grads", "code"),
    [
        ([2.5, 2.4, 2.3], [0.0, 0.0, 0.0], "LOG001"),
        ([-1.0] * 3, None, "LOG002"),
        ([2.5] * 10 + [0.0] * 3, None, "LOG004"),
    ],
)
def test_at_the_end_of_the_data_three_records_are_enough(feed, losses, grads, code):
    told = feed(losses, grads)
    assert told.codes == []
    assert [finding.code for finding in told.detector.finish()] == [code]
    assert feed(losses[:-1], grads and grads[:-1]).detector.finish() == ()


def test_what_was_told_is_not_told_again_at_the_end(feed, rng):
    told = feed(noisy(300, rng), np.zeros(300))
    assert told.detector.finish() == ()


@pytest.mark.parametrize("value", ["2.5", None, [], object(), 10**400, -(10**400)])
def test_a_value_of_another_type_does_no_harm(feed, value):
    told = feed([2.5] * 30 + [value] + [2.5] * 30)
    assert [code for _, code in told.codes] in ([], ["SPK004"])
    assert told.verdicts[-1].status in ("healthy", "incident")
