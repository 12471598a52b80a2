"""The keep policy: property tests against what it states."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.checkpoint import quarantined_to_keep, steps_to_keep


def play(steps, *, keep_newest, interval, confirm=None):
    """Save at ``steps`` in turn, rotating after each; ``confirm`` maps a save's number to a lag."""
    kept, confirmed = set(), set()
    for number, step in enumerate(steps):
        kept.add(step)
        if confirm is not None and number in confirm:
            confirmed |= {s for s in kept if s <= step - confirm[number]}
        newest_confirmed = max(confirmed & kept, default=None)
        kept = steps_to_keep(
            kept, keep_newest=keep_newest, interval=interval, confirmed=newest_confirmed
        )
        yield kept, newest_confirmed


def assert_policy(saved, kept, *, keep_newest, interval, confirmed):
    ordered = sorted(saved)
    newest, oldest = ordered[-1], ordered[0]
    assert kept <= set(saved)
    assert set(ordered[-keep_newest:]) <= kept
    assert oldest in kept
    assert confirmed is None or confirmed in kept
    ages = sorted(newest - step for step in kept)
    power = 1
    while power * interval <= newest - oldest:
        target = power * interval
        # Within a factor 2, wherever saves were made that close together at all.
        made = [newest - step for step in saved if target / 2 <= newest - step <= 2 * target]
        if made:
            assert any(target / 2 <= age <= 2 * target for age in ages), (target, ages)
        power *= 2
    length = max(1.0, (newest - oldest) / interval)
    assert len(kept) <= keep_newest + math.log2(length) + 4


@pytest.mark.parametrize("keep_newest", [1, 3])
def test_policy_over_thousands_of_regular_saves(keep_newest):
    saves = range(0, 4000 * 50, 50)
    confirm = dict.fromkeys(range(4000), 75)
    played = play(saves, keep_newest=keep_newest, interval=50, confirm=confirm)
    for number, (kept, confirmed) in enumerate(played, 1):
        if number > 150 and number % 97:
            continue
        assert_policy(
            saves[:number], kept, keep_newest=keep_newest, interval=50, confirmed=confirmed
        )


@settings(deadline=None, max_examples=60)
@given(
    gaps=st.lists(st.integers(1, 400), min_size=1, max_size=300),
    keep_newest=st.integers(1, 5),
    interval=st.integers(1, 200),
    confirm=st.dictionaries(st.integers(0, 300), st.integers(0, 2000), max_size=20),
)
def test_what_is_kept_covers_what_was_ever_saved(gaps, keep_newest, interval, confirm):
    """In any rhythm: each age has a kept checkpoint within a factor 2, or none was near it."""
    saves = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    played = play(saves, keep_newest=keep_newest, interval=interval, confirm=confirm)
    for number, (kept, confirmed) in enumerate(played, 1):
        saved = saves[:number]
        newest = saved[-1]
        assert set(saved[-keep_newest:]) <= kept
        assert saved[0] in kept
        assert confirmed is None or confirmed in kept
        ages = sorted(newest - step for step in kept)
        for nearer, older in itertools.pairwise(ages):
            lost = [s for s in saved if nearer < newest - s < older]
            if lost:  # something between was given up: the neighbours must be close enough
                assert older <= 4 * max(nearer, interval / 2)


@settings(deadline=None, max_examples=60)
@given(
    gaps=st.lists(st.integers(1, 400), min_size=1, max_size=300),
    keep_newest=st.integers(1, 5),
    interval=st.integers(1, 200),
)
def test_few_are_kept(gaps, keep_newest, interval):
    saves = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    *_, (kept, _) = play(saves, keep_newest=keep_newest, interval=interval)
    length = max(1.0, (saves[-1] - saves[0]) / interval)
    assert len(kept) <= keep_newest + math.log2(length) + 4


def test_keeping_is_stable():
    """A second rotation without a save changes nothing more."""
    *_, (kept, _) = play(range(0, 5000, 10), keep_newest=2, interval=10)
    assert steps_to_keep(kept, keep_newest=2, interval=10, confirmed=None) == kept


def test_the_first_checkpoints():
    assert steps_to_keep([], keep_newest=1, interval=10, confirmed=None) == set()
    assert steps_to_keep([5], keep_newest=1, interval=10, confirmed=None) == {5}
    assert steps_to_keep([5, 6], keep_newest=1, interval=10, confirmed=None) == {5, 6}
    every = list(range(0, 170, 10))
    spaced = steps_to_keep(every, keep_newest=1, interval=10, confirmed=None)
    assert [(160 - step) // 10 for step in sorted(spaced, reverse=True)] == [0, 2, 8, 16]
    assert 70 in steps_to_keep(every, keep_newest=1, interval=10, confirmed=70)


def test_of_quarantined_ones_the_last_saved_of_each_reason_is_kept():
    assert quarantined_to_keep([]) == set()
    made = [(900, 1, "incident"), (500, 2, "incident"), (500, 3, "signal"), (400, 4, "signal")]
    assert quarantined_to_keep(made) == {500, 400}
