"""The loss from sums: combined over ranks by one all-gather, divided on the host."""

from collections.abc import Mapping
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

SUMMED = ("cross_entropy", "tokens", "log_z", "log_z_squared")
"""Sums over the counted tokens; ranks add up."""

MAXIMA = ("log_z_abs_max",)
"""Largest values over the counted tokens; of ranks the largest counts."""


class LossSums(Protocol):
    """Sums over the counted tokens of this rank's share of a step, 0-d tensors on the device.

    ``surefoot.model.LossSums`` is one. A mapping with some of these names serves as well.
    """

    @property
    def cross_entropy(self) -> Tensor:
        """Sum of the cross-entropies, nats."""

    @property
    def tokens(self) -> Tensor:
        """Number of counted tokens."""

    @property
    def log_z(self) -> Tensor:
        """Sum of the log-sum-exps of the logits, nats."""

    @property
    def log_z_squared(self) -> Tensor:
        """Sum of their squares."""

    @property
    def log_z_abs_max(self) -> Tensor:
        """Their largest absolute value."""


def is_maximum(name: str) -> bool:
    """Whether a signal is a largest value, so that of ranks and layers the largest counts."""
    return name.endswith("_max")


def pack(sums: "LossSums | Mapping[str, Tensor] | None") -> dict[str, Tensor]:
    """The sums that are there, by name, :data:`SUMMED` before :data:`MAXIMA`."""
    if sums is None:
        return {}
    if isinstance(sums, Mapping):
        unknown = set(sums) - {*SUMMED, *MAXIMA}
        if unknown:
            raise ValueError(f"unknown loss sums {sorted(unknown)}: known are {SUMMED + MAXIMA}")
        return {name: sums[name] for name in SUMMED + MAXIMA if name in sums}
    return {name: getattr(sums, name) for name in SUMMED + MAXIMA}


def combine(local: Tensor, summed: int, group: dist.ProcessGroup) -> Tensor:
    """One vector for all ranks: the first ``summed`` entries added, the others' largest.

    One all-gather, as sums and maxima do not fit one all-reduce; ranks are added in their order, so
    that every rank has the same bits. NaN in any rank is NaN in the result.

    Args:
        local: this rank's vector (n,), of the same layout on every rank.
        summed: how many entries are sums.
        group: the ranks.
    """
    gathered = local.new_empty(dist.get_world_size(group), local.numel())
    dist.all_gather(list(gathered.unbind()), local, group=group)
    return torch.cat([gathered[:, :summed].sum(0), gathered[:, summed:].amax(0)])


def loss_values(sums: Mapping[str, float]) -> dict[str, float]:
    """``loss``, ``log_z``, ``z_loss`` and ``log_z_abs_max`` from the global batch's sums.

    Args:
        sums: host numbers by the names of :data:`SUMMED` and :data:`MAXIMA`; ``tokens`` must be
            there, of the others those that were measured.

    Returns:
        Catalogued signals; means are NaN if no token counted.
    """
    tokens = sums["tokens"]
    means = {"loss": "cross_entropy", "log_z": "log_z", "z_loss": "log_z_squared"}
    values = {
        signal: sums[name] / tokens if tokens else float("nan")
        for signal, name in means.items()
        if name in sums
    }
    return values | {name: sums[name] for name in MAXIMA if name in sums}
