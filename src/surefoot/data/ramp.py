"""Batch sizes that grow, and each rank's share of a batch: arithmetic on consumed samples."""

from bisect import bisect_right

from surefoot.recipe import Batch


class BatchRamp:
    """The batch size as a function of the samples consumed so far.

    As in Megatron-LM (Shoeybi et al. 2019, 1909.08053): from ``ramp_from`` to ``global_size`` in
    stages of ``ramp_increment``, each lasting an equal part of ``ramp_samples``. A step's size is
    that of the stage in which it begins. Without a ramp it is ``global_size`` throughout.

    ::

        ramp = BatchRamp(Batch(global_size=64, ramp_from=16, ramp_increment=16, ramp_samples=3000))
        ramp.size_at(0), ramp.size_at(1000), ramp.size_at(3000)     # 16, 32, 64
    """

    def __init__(self, batch: Batch) -> None:
        self.global_size = batch.global_size
        self._first = batch.ramp_from or batch.global_size
        self._increment = batch.ramp_increment or 1
        self._samples = batch.ramp_samples or 1
        self._stages = (batch.global_size - self._first) // self._increment
        # Steps done and samples consumed when each batch size is first used.
        self._steps, self._consumed = [0], [0]
        while (size := self.size_at(self._consumed[-1])) != self.global_size:
            stage = (size - self._first) // self._increment
            end = -(-self._samples * (stage + 1) // self._stages)
            steps = -(-(end - self._consumed[-1]) // size)
            self._steps.append(self._steps[-1] + steps)
            self._consumed.append(self._consumed[-1] + steps * size)

    def size_at(self, consumed: int) -> int:
        """Sequences of the step that begins after ``consumed`` samples."""
        stage = consumed * self._stages // self._samples
        return self._first + min(stage, self._stages) * self._increment

    def consumed_after(self, steps: int) -> int:
        """Samples consumed by the first ``steps`` steps of a run."""
        i = bisect_right(self._steps, steps) - 1
        size = self.size_at(self._consumed[i])
        return self._consumed[i] + (steps - self._steps[i]) * size


LENGTH_MULTIPLE = 8
"""Sequence lengths grow by as many tokens, so that matrix products keep an even shape."""


def length_at(batch: Batch, full: int, step: int) -> int:
    """Tokens of a training sequence at a step: a sequence-length warm-up, or ``full``.

    From ``length_from`` at step 1 linearly to ``full`` after ``length_steps``, rounded down to
    multiples of 8 (never below ``length_from``). Long sequences at the start are what makes Adam's
    second moment extreme. Source: Li et al. 2021, 2108.06084; their pacing is not restated here.

    Args:
        batch: ``length_from`` and ``length_steps``; None = no warm-up.
        full: tokens of a sequence as the data has them.
        step: counted from 1.
    """
    first, steps = batch.length_from, batch.length_steps
    if first is None or steps is None or step > steps:
        return full
    grown = first + (full - first) * (step - 1) // steps
    return max(first, grown // LENGTH_MULTIPLE * LENGTH_MULTIPLE)


def rank_share(start: int, size: int, rank: int, world: int) -> range:
    """The positions that one rank takes of the batch ``start .. start + size - 1``.

    The shares of all ranks are contiguous, in order of rank, and together just the batch, whatever
    the world size; where it does not divide the batch, the first ranks take one sample more.
    """
    if not 0 <= rank < world:
        raise ValueError(f"expected 0 <= rank < world, got rank {rank} of {world}")
    share, extra = divmod(size, world)
    begin = start + rank * share + min(rank, extra)
    return range(begin, begin + share + (rank < extra))
