"""The processes that save and load together: all succeed, or all raise the same error."""

from collections.abc import Callable
from typing import TypeVar

import torch.distributed as dist

from surefoot.errors import SurefootError

T = TypeVar("T")


class Ranks:
    """The ranks of a process group; without an initialised group, one rank alone.

    A rank that raised while the others waited in a collective would hang the job, so every piece of
    work that can fail goes through one of these methods.

    Args:
        group: the process group; None is the default group if one is initialised.
        alone: leave the group out of it: this process does everything itself.
    """

    def __init__(self, group: dist.ProcessGroup | None = None, *, alone: bool = False) -> None:
        self.group = group
        self.distributed = not alone and dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank(group) if self.distributed else 0
        self.size = dist.get_world_size(group) if self.distributed else 1

    def gather(self, work: Callable[[], T]) -> list[T]:
        """Do ``work`` on every rank; its results by rank.

        Results and messages travel pickled between the ranks of one job, which trust each other.

        Raises:
            SurefootError: on every rank, if it was raised on any.
            RuntimeError: on the other ranks, if one raised anything else.
        """
        if not self.distributed:
            return [work()]
        result: T | None = None
        error: BaseException | None = None
        try:
            result = work()
        except BaseException as raised:  # an interrupt, too, must not leave the others waiting
            error = raised
        outcomes: list[tuple[T | None, tuple[type[SurefootError] | None, str] | None]]
        outcomes = [(None, None)] * self.size
        mine = (result, None if error is None else _portable(error))
        dist.all_gather_object(outcomes, mine, group=self.group)
        failures = [(rank, failed) for rank, (_, failed) in enumerate(outcomes) if failed]
        # The error that says what to type, if there is one, before those that only follow from it.
        for _, (kind, message) in failures:
            if kind is not None:
                raise kind(message) from error
        if error is not None:
            raise error
        if failures:
            rank, (_, message) = failures[0]
            raise RuntimeError(f"rank {rank} failed: {message}")
        return [value for value, _ in outcomes]  # type: ignore[misc]

    def each(self, work: Callable[[], T]) -> T:
        """Do ``work`` on every rank; each gets its own result, or all raise."""
        results: list[T] = []
        self.gather(lambda: results.append(work()))
        return results[0]

    def first(self, work: Callable[[], T]) -> T:
        """Do ``work`` on rank 0 only; every rank gets its result or raises its error."""
        return self.gather(lambda: work() if self.rank == 0 else None)[0]  # type: ignore[return-value]


def _portable(error: BaseException) -> tuple[type[SurefootError] | None, str]:
    if isinstance(error, SurefootError):
        return type(error), str(error)
    return None, f"{type(error).__name__}: {error}"
