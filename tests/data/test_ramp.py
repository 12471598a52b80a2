"""Batch ramps and the shares of ranks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.data import BatchRamp, rank_share
from surefoot.recipe import Batch


def slow_size(batch, consumed):
    """Megatron-LM's rule, in floating point as there."""
    if batch.ramp_from is None or consumed > batch.ramp_samples:
        return batch.global_size
    stages = (batch.global_size - batch.ramp_from) // batch.ramp_increment
    if stages == 0:
        return batch.global_size
    steps = int(consumed / (batch.ramp_samples / stages))
    return min(batch.ramp_from + steps * batch.ramp_increment, batch.global_size)


ramps = st.builds(
    lambda first, increment, stages, samples: Batch(
        global_size=first + increment * stages,
        ramp_from=first,
        ramp_increment=increment,
        ramp_samples=samples,
    ),
    st.integers(1, 40),
    st.integers(1, 20),
    st.integers(0, 8),
    # Powers of two divide exactly in floating point too, so that the reference has no rounding.
    st.integers(0, 11).map(lambda k: 2**k),
)


@given(batch=ramps)
@settings(deadline=None, max_examples=100, database=None)
def test_same_as_the_plain_loop(batch):
    ramp = BatchRamp(batch)
    consumed = 0
    for step in range(150):
        assert ramp.consumed_after(step) == consumed
        size = ramp.size_at(consumed)
        stages = (batch.global_size - batch.ramp_from) // batch.ramp_increment
        if stages in (0, 1, 2, 4, 8):
            assert size == slow_size(batch, consumed)
        consumed += size
    assert batch.ramp_samples > consumed or ramp.size_at(consumed) == batch.global_size


def test_stages_are_evenly_spaced_over_the_samples():
    ramp = BatchRamp(Batch(global_size=64, ramp_from=16, ramp_increment=16, ramp_samples=3000))
    assert [ramp.size_at(c) for c in (0, 999, 1000, 1999, 2000, 2999, 3000, 10**15)] == [
        *(16, 16, 32, 32, 48, 48, 64, 64)
    ]
    # 63 steps of 16 reach 1008, 31 of 32 reach 2000, 21 of 48 reach 3008.
    assert [ramp.consumed_after(k) for k in (0, 1, 63, 64, 94, 95, 115, 116)] == [
        *(0, 16, 1008, 1040, 2000, 2048, 3008, 3072)
    ]
    assert ramp.consumed_after(10**9) == 3008 + (10**9 - 115) * 64


def test_without_a_ramp_the_size_is_constant():
    ramp = BatchRamp(Batch(global_size=12))
    assert [ramp.size_at(c) for c in (0, 5, 10**12)] == [12, 12, 12]
    assert ramp.consumed_after(10**9) == 12 * 10**9


def test_a_ramp_that_starts_at_the_end_is_none():
    ramp = BatchRamp(Batch(global_size=8, ramp_from=8, ramp_increment=4, ramp_samples=100))
    assert ramp.size_at(0) == 8
    assert ramp.consumed_after(3) == 24


def test_a_batch_longer_than_a_stage_passes_it_over():
    ramp = BatchRamp(Batch(global_size=40, ramp_from=10, ramp_increment=1, ramp_samples=30))
    assert [ramp.consumed_after(k) for k in range(5)] == [0, 10, 30, 70, 110]


@given(start=st.integers(0, 10**15), size=st.integers(0, 300), world=st.integers(1, 50))
@settings(deadline=None, max_examples=100, database=None)
def test_shares_are_the_batch_in_order_and_even(start, size, world):
    shares = [rank_share(start, size, rank, world) for rank in range(world)]
    assert [i for share in shares for i in share] == list(range(start, start + size))
    lengths = [len(share) for share in shares]
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize(("rank", "world"), [(2, 2), (-1, 2), (0, 0)])
def test_a_rank_out_of_the_world_is_refused(rank, world):
    with pytest.raises(ValueError, match="0 <= rank < world"):
        rank_share(0, 4, rank, world)
