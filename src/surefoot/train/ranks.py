"""Which process this is: one by default, several under ``torchrun``."""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from surefoot.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """This process among all of the run.

    Attributes:
        rank: 0 for the one that writes.
        world: number of processes; the global batch is divided over them.
        device: where this process computes.
    """

    rank: int
    world: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        """Whether this process writes the run folder and speaks."""
        return self.rank == 0

    @property
    def group(self) -> dist.ProcessGroup | None:
        """The process group to combine over; None for a single process."""
        return dist.group.WORLD if self.world > 1 else None

    def barrier(self) -> None:
        """Wait for every rank."""
        if self.world > 1:
            dist.barrier()

    def total(self, value: torch.Tensor) -> torch.Tensor:
        """``value`` summed over ranks, in place; no host synchronisation."""
        if self.world > 1:
            dist.all_reduce(value)
        return value

    def wrap(self, model: nn.Module) -> nn.Module:
        """DDP around the model where there are several ranks."""
        if self.world == 1:
            return model
        on_gpu = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=on_gpu, gradient_as_bucket_view=True)


def join(device: str) -> Ranks:
    """Find out the device and, under ``torchrun``, join the other processes.

    Args:
        device: ``auto``, ``cpu`` or ``cuda``.

    Raises:
        UsageError: if CUDA is asked for and absent.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            "training.device = 'cuda' but torch sees no CUDA device; type --set training.device=cpu"
        )
    kind = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
    local = int(os.environ.get("LOCAL_RANK", "0"))
    place = torch.device(kind, local) if kind == "cuda" else torch.device("cpu")
    if kind == "cuda":
        torch.cuda.set_device(place)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        if not dist.is_initialized():
            dist.init_process_group("nccl" if kind == "cuda" else "gloo")
        return Ranks(rank=dist.get_rank(), world=dist.get_world_size(), device=place)
    return Ranks(rank=0, world=1, device=place)


def leave() -> None:
    """Leave the process group, if any."""
    if dist.is_initialized():
        dist.destroy_process_group()


class StopVote:
    """Agreement on a signal that may have reached one rank only.

    Each step starts a small all-reduce on the host and reads the one that the step before started:
    by then it is done, so nothing waits, and every rank reads the same answer at the same step.
    """

    def __init__(self, ranks: Ranks) -> None:
        self._several = ranks.world > 1
        self._group = dist.new_group(backend="gloo") if self._several else None
        self._pending: tuple[dist.Work, torch.Tensor] | None = None

    def cast(self, received: int | None) -> int | None:
        """Vote with this rank's signal number; returns the number all ranks agree on, or None."""
        if not self._several:
            return received
        agreed = 0
        if self._pending is not None:
            work, result = self._pending
            work.wait()
            agreed = int(result.numpy()[0])
        mine = torch.tensor([received or 0], dtype=torch.int32)
        work = dist.all_reduce(mine, op=dist.ReduceOp.MAX, group=self._group, async_op=True)
        self._pending = (work, mine)
        return agreed or None
