"""What a run announces is no incident; what it cannot have planned is one even then."""

import math

import numpy as np
import pytest

from surefoot.detect import LossDetector
from surefoot.detect.planned import Marks, Planned

NAN = math.nan


@pytest.fixture(params=range(3))
def rng(request):
    return np.random.default_rng(request.param)


def settled(steps, rng, level=2.5, sigma=0.02):
    return level + sigma * rng.standard_normal(steps)


def phases(steps, *changes):
    return [sum(step >= change for change in changes) for step in range(1, steps + 1)]


@pytest.mark.parametrize("jump", [1.5, 0.3, -0.4])
def test_another_data_phase_moves_the_loss_and_is_silent(feed, rng, jump):
    losses = settled(1000, rng)
    after = np.maximum(0, np.arange(1000) - 499)
    fades = 0.4 + 0.6 * np.exp(-after / 60) if jump > 0 else 1.0
    losses += np.where(after > 0, jump * fades, 0.0)
    grads = 0.3 * np.exp(0.1 * rng.standard_normal(1000)) * np.where(after > 0, 5.0, 1.0)
    assert feed(losses, grads, data_phase=phases(1000, 501)).codes == []


def test_the_same_jump_that_nobody_announced_is_an_incident(feed, rng):
    losses = settled(1000, rng)
    losses[500:] += 1.5
    assert feed(losses, data_phase=[0] * 1000).codes[0] == (501, "SPK000")


def test_a_curriculum_of_many_phases_is_silent(feed, rng):
    steps = np.arange(1, 1501)
    losses = 2.5 + 0.25 * ((steps // 120) % 3) + 0.02 * rng.standard_normal(1500)
    assert feed(losses, data_phase=steps // 120).codes == []


def test_a_spike_after_the_window_is_found_at_the_new_level(feed, rng):
    losses = settled(1000, rng)
    losses[500:] += 1.0
    losses[700:703] += 0.4
    told = feed(losses, data_phase=phases(1000, 501))
    assert [code for _, code in told.codes] == ["SPK000", "SPK001"]
    assert told.codes[0][0] == 701
    assert told.one("SPK001").evidence["peak_nats"] == pytest.approx(0.4, abs=0.08)


@pytest.mark.parametrize("late", [0, 10, 40])
def test_divergence_to_a_model_that_knows_nothing_is_told_in_the_window(feed, rng, late):
    losses = settled(900, rng)
    losses[500 + late :] = math.log(50304) + 0.02 * rng.standard_normal(400 - late)
    told = feed(losses, data_phase=phases(900, 501))
    assert [code for _, code in told.codes] == ["SPK000", "SPK003"]
    assert told.codes[0][0] <= 501 + late + 4


def test_a_loss_that_goes_on_rising_after_an_announced_change_is_told(feed, rng):
    losses = settled(900, rng)
    losses[500:] += 0.2 + 0.02 * np.arange(400)
    told = feed(losses, data_phase=phases(900, 501))
    assert told.codes[0][1] == "SPK000"
    assert told.codes[0][0] <= 501 + 60
    assert "SPK003" in [code for _, code in told.codes]


def test_a_nan_in_the_window_is_told(feed, rng):
    losses = settled(700, rng)
    losses[500:] += 1.0
    losses[510:] = NAN
    told = feed(losses, data_phase=phases(700, 501))
    assert told.codes == [(511, "SPK004")]
    assert told.one("SPK004").evidence["onset_step"] == 511


def test_a_longer_sequence_is_silent_and_its_sudden_change_only(feed, rng):
    losses = settled(900, rng)
    losses[450:] += 0.25
    batch, tokens = [16] * 900, [16 * 1024] * 450 + [16 * 4096] * 450
    assert feed(losses, batch_size=batch, tokens=tokens).codes == []
    # Lengths that vary from batch to batch say nothing of a plan.
    wild = [16 * (700 + 600 * (step % 2)) for step in range(900)]
    assert [c for _, c in feed(losses, batch_size=batch, tokens=wild).codes][:1] == ["SPK000"]


def test_a_smaller_batch_is_noisier_and_silent(feed, rng):
    sigma = np.where(np.arange(1200) < 600, 0.02, 0.08)
    losses = 2.5 + sigma * rng.standard_normal(1200)
    batch = [256] * 600 + [16] * 600
    assert feed(losses, batch_size=batch).codes == []


def test_a_batch_ramp_with_its_batch_sizes(feed, curve, gradient, rng):
    stage = np.minimum(np.arange(3000) // 400, 4)
    losses = curve(3000) + 0.12 / np.sqrt(2.0**stage) * rng.standard_normal(3000)
    grads = gradient(3000, rng) / np.sqrt(2.0**stage)
    assert feed(losses, grads, batch_size=(16 * 2**stage).tolist()).codes == []


def test_going_back_hundreds_of_steps_on_a_steep_course_is_silent(feed, curve, rng):
    # The loss of step 150 is half a nat above that of step 400: known from the first time.
    losses = curve(700) + 0.02 * rng.standard_normal(700)
    detector = LossDetector(vocab_size=50304)
    assert feed(losses[:400], detector=detector).codes == []
    told = feed(losses[149:], detector=detector, first=150, attempt=1)
    assert told.codes == []


def test_a_resume_that_lost_something_is_told(feed, curve, rng):
    losses = curve(700) + 0.02 * rng.standard_normal(700)
    detector = LossDetector(vocab_size=50304)
    feed(losses[:400], detector=detector)
    again = losses[349:].copy()
    again += 0.5 * np.exp(-np.arange(len(again)) / 30)
    told = feed(again, detector=detector, first=350, attempt=1)
    assert told.codes[0] == (350, "SPK000")


def test_ten_times_the_rate_by_a_slip_hides_no_divergence(feed, rng):
    losses = settled(900, rng)
    losses[500:] += np.minimum(0.05 * np.arange(400), 8.0)
    rate = np.where(np.arange(900) < 500, 1e-3, 1e-2)
    told = feed(losses, learning_rate=rate)
    assert told.codes[0][1] == "SPK000"
    assert told.codes[0][0] <= 515
    assert "SPK003" in [code for _, code in told.codes]


def test_an_open_incident_knows_that_the_data_changed(feed, rng):
    # The spike is back on the course, which by then runs half a nat higher, as announced.
    losses = settled(900, rng)
    losses[500:520] += 2.0
    losses[510:] += 0.5
    told = feed(losses, data_phase=phases(900, 511))
    assert [code for _, code in told.codes] == ["SPK000", "SPK001"]
    assert 521 <= told.one("SPK001").evidence["recovered_step"] <= 523


@pytest.mark.parametrize(
    ("first", "second", "change"),
    [
        ({"batch_size": 8}, {"batch_size": 8}, None),
        ({"batch_size": 8}, {"batch_size": 32}, ("batch", 0.5)),
        ({"batch_size": 32}, {"batch_size": 8}, ("batch", 2.0)),
        ({"batch_size": 100}, {"batch_size": 104}, None),
        ({"data_phase": 0}, {"data_phase": 1}, ("data", 1.0)),
        ({"data_phase": 0, "batch_size": 4}, {"data_phase": 1, "batch_size": 1}, ("data", 2.0)),
        ({"data_phase": 0}, {"data_phase": NAN}, None),
        ({"data_phase": 0}, {}, None),
        ({"batch_size": 8}, {"batch_size": 0}, None),
        ({"batch_size": 8, "tokens": 80}, {"batch_size": 8, "tokens": None}, None),
    ],
)
def test_what_counts_as_an_announcement(first, second, change):
    planned = Planned()
    for _ in range(10):
        assert planned.read(first) is None
    assert planned.read(second) == change


def test_marks_of_a_long_run_stay_few_and_answer_for_all_of_it():
    marks = Marks()
    for step in range(1, 20_001):
        marks.add(step, 10.0 - step / 4000, 0.0)
    assert len(marks.marks) <= 64
    loss, _ = marks.back_to(7777)
    assert loss == pytest.approx(10.0 - 7777 / 4000, abs=0.01)
    assert max(step for step, _, _ in marks.marks) < 7777
    assert marks.back_to(9000) is None  # what came after was forgotten
