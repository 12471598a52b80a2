"""The trail: any earlier step is known in a fixed amount of memory."""

import json

from surefoot.detect.monitors._trail import LENGTH, Trail


def filled(steps, every=1):
    trail = Trail()
    for step in range(every, steps + 1, every):
        trail.add(step, 8.0 * step)
    return trail


def test_memory_does_not_grow_and_every_step_is_within_its_neighbours():
    trail = filled(100_000)
    assert len(trail) < LENGTH
    assert len(json.dumps(trail.state())) < 3_000
    for step in (1, 2, 777, 50_000, 99_999, 100_000):
        below, above = trail.around(step)
        assert below is None or below[0] < step
        assert above is not None
        assert above[0] >= step
        assert trail.due(step) is None or abs(trail.due(step) - 8.0 * step) < 1e-6


def test_beyond_the_end_the_last_value_is_due_and_before_the_start_none():
    trail = filled(50)
    assert trail.due(70) == 400.0
    assert trail.due(0) is None
    assert Trail().due(3) is None


def test_what_was_gone_back_over_is_forgotten():
    trail = filled(500)
    trail.forget_from(101)
    assert trail.around(101)[1] is None
    last = trail.last()
    assert last is not None
    assert 80 <= last[0] <= 100
    trail.add(101, 1.0)
    assert trail.last() == (101, 1.0)
    trail.forget_from(0)
    assert trail.last() is None


def test_a_state_goes_on_as_the_trail_did():
    trail, other = filled(300), Trail(json.loads(json.dumps(filled(300).state())))
    for step in range(301, 900):
        trail.add(step, 8.0 * step)
        other.add(step, 8.0 * step)
    assert trail.state() == other.state()
