"""What is said of the costs: the true cause, and a cure that helps."""

from dataclasses import replace

import pytest

from surefoot.errors import UsageError
from surefoot.probe import Sizes
from surefoot.probe.effort import duration, require_possible, words
from surefoot.probe.reduce import Plan, plan

DENSE = Sizes(layers=32, width=4096, heads=32, kv_heads=32, head_size=128, ff_width=11008,
              ff_matrices=3, vocab_size=32000)  # fmt: skip
NARROW = replace(DENSE, width=128, heads=1, kv_heads=1, ff_width=344)
EXPERTS = replace(NARROW, experts=512, experts_per_token=8)


def refusal(sizes, length, memory):
    chosen = Plan(sizes=sizes, length=length, sequences=1, rows=1024)
    with pytest.raises(UsageError) as caught:
        require_possible(chosen, sizes, memory)
    return str(caught.value)


@pytest.mark.parametrize(
    ("sizes", "length", "says", "not_says"),
    [
        (NARROW, 65536, "--sequence-length", "vocabulary"),
        (EXPERTS, 1024, "512 experts in each of 32 layers", "give fewer tokens"),
        (replace(NARROW, vocab_size=2**22), 128, "vocabulary of 4,194,304", "--sequence-length"),
        (replace(NARROW, layers=9000), 128, "9000 layers", "--sequence-length"),
    ],
)
def test_the_part_that_takes_the_memory_is_named(sizes, length, says, not_says):
    message = refusal(sizes, length, 10**9)
    assert says in message
    assert not_says not in message


def test_too_many_operations_are_refused_with_what_helps():
    assert "--sequence-length" in refusal(replace(NARROW, layers=9000), 4096, None)
    assert "--sequence-length" not in refusal(replace(NARROW, layers=900000), 128, None)


def test_why_it_was_built_narrower():
    slow = plan(DENSE, 2048, fixed_length=True, memory=None)
    said = words(DENSE, slow, 2048)[0]
    assert "to stay within 10 seconds (the whole would take about " in said
    assert "minutes of one core): the standard deviation of every matrix x sqrt(r)" in said
    wide = replace(DENSE, layers=1, width=2048, heads=16, kv_heads=16, ff_width=5504)
    small = plan(wide, 256, fixed_length=True, memory=10**9)
    assert small.sizes.width < 2048
    assert "to stay within half of the memory: " in words(wide, small, 256)[0]


def test_what_was_built_whole_is_not_mentioned():
    whole = plan(NARROW, 256, fixed_length=True, memory=None)
    assert [line[:5] for line in words(NARROW, whole, 256)] == ["fed 4"]


def test_fewer_experts_of_a_router_that_does_not_renormalise_are_owned_up_to():
    chosen = Plan(sizes=replace(EXPERTS, experts=16), length=128, sequences=1, rows=1024)
    assert "larger" in words(EXPERTS, chosen, 128, alike=False)[0]
    assert "larger" not in words(EXPERTS, chosen, 128)[0]


@pytest.mark.parametrize(
    ("seconds", "says"), [(9.7, "10 seconds"), (119, "119 seconds"), (720, "12 minutes"),
                          (8000, "2 hours")]
)  # fmt: skip
def test_durations_in_words(seconds, says):
    assert duration(seconds) == says
