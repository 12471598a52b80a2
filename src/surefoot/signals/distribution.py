"""How Adam's update is spread over the weights: size, two-sidedness, and the share at its limit.

Let u = m / (sqrt(v) + eps), bias-corrected. While gradients are independent in time, u is a bell of
standard deviation sqrt((1 - beta1) / (1 + beta1)) around 0; where they agree, every weight goes to
-1 or +1, and the bell becomes two points: Molybog et al. 2023, 2304.09871. Sarle's coefficient

    (skewness^2 + 1) / kurtosis

tells the one (1/3) from the other (1).

Moments are taken about the mean of each chunk and put together in float64 on the host. From plain
sums of powers those of a bias, whose updates may all lie within a hundredth of 1, would be lost to
rounding.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Vector = npt.NDArray[np.float64]
Starts = npt.NDArray[np.intp]

LARGE = 0.8
"""From here on |u| counts as large: four standard deviations of independent gradients at beta1 0.9,
and out of reach but for weights whose gradients agree."""

FLAT = 1e-6
"""A spread below this share of the mean is the rounding of u."""

FAINT = 1e-9
"""Of a u that is smaller throughout, the fourth power is lost to float32."""


@dataclass(frozen=True, slots=True)
class UpdateSums:
    """Sums for the distribution on the device, one entry a chunk.

    With c the mean of the chunk, rounded, and d = u - c:

    Attributes:
        center: c.
        second: sum of d^2.
        third: sum of d^3.
        fourth: root of the sum of d^4.
        large: number of weights with |u| above the limit.
    """

    center: list[Tensor] = field(default_factory=list)
    second: list[Tensor] = field(default_factory=list)
    third: list[Tensor] = field(default_factory=list)
    fourth: list[Tensor] = field(default_factory=list)
    large: list[Tensor] = field(default_factory=list)

    def add(self, update: Tensor, limit: Tensor, scratch: Tensor) -> None:
        """Take in a chunk.

        Args:
            update: u, up to a factor; overwritten.
            limit: :data:`LARGE` times that factor, 0-d.
            scratch: shaped like ``update``, overwritten.
        """
        # As numbers, for torch is slow at booleans on a CPU. A chunk's count is exact in float32.
        torch.gt(torch.abs(update, out=scratch), limit, out=scratch)
        self.large.append(scratch.sum())
        center = update.sum().div_(max(1, update.numel()))
        self.center.append(center)
        update.sub_(center)
        torch.mul(update, update, out=scratch)
        self.second.append(scratch.sum())
        self.fourth.append(torch.linalg.vector_norm(scratch))
        self.third.append(update.mul_(scratch).sum())

    def parts(self) -> list[tuple[str, Tensor]]:
        """The sums as vectors by name, for the mailbox."""
        return [
            ("update_center", torch.stack(self.center)),
            ("update_second", torch.stack(self.second)),
            ("update_third", torch.stack(self.third)),
            ("update_fourth", torch.stack(self.fourth)),
            ("update_large", torch.stack(self.large)),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Number, mean, and sums of powers about the mean, of several sets of numbers; all (S,)."""

    count: Vector
    mean: Vector
    second: Vector
    third: Vector
    fourth: Vector

    def pooled(self, starts: Starts) -> "Moments":
        """Of the unions of neighbouring sets: Pebay 2008, SAND2008-6212, in float64.

        Args:
            starts: index of the first set of each union, ascending from 0.
        """
        lengths = np.diff([*starts, len(self.count)])
        n = self.count
        count = np.add.reduceat(n, starts)
        mean = np.add.reduceat(n * self.mean, starts) / np.where(count == 0, 1.0, count)
        d = self.mean - np.repeat(mean, lengths)
        second = self.second + n * d**2
        third = self.third + 3 * d * self.second + n * d**3
        fourth = self.fourth + 4 * d * self.third + 6 * d**2 * self.second + n * d**4
        second, third, fourth = (np.add.reduceat(x, starts) for x in (second, third, fourth))
        return Moments(count=count, mean=mean, second=second, third=third, fourth=fourth)

    def taken(self, which: npt.NDArray[np.bool_]) -> "Moments":
        """Of the chosen sets."""
        return Moments(
            count=self.count[which],
            mean=self.mean[which],
            second=self.second[which],
            third=self.third[which],
            fourth=self.fourth[which],
        )

    def scaled(self, factor: Vector) -> "Moments":
        """Of the numbers times ``factor``, (S,)."""
        return Moments(
            count=self.count,
            mean=self.mean * factor,
            second=self.second * factor**2,
            third=self.third * factor**3,
            fourth=self.fourth * factor**4,
        )

    def rms(self) -> Vector:
        """Root mean squares (S,)."""
        return np.sqrt(self.second / self.count + self.mean**2)

    def bimodality(self) -> Vector:
        """Sarle's coefficients, in (0, 1]; 0 where all numbers are the same or next to nothing.

        NaN where a number is, or where the fourth power was too large for float32.
        """
        variance = self.second / self.count
        spread = np.sqrt(variance)
        alike = (spread <= FLAT * np.abs(self.mean)) | (spread < FAINT)
        skewness = self.third / self.count / spread**3
        kurtosis = self.fourth / self.count / variance**2
        found = (skewness**2 + 1) / kurtosis
        found = np.where(np.isfinite(self.fourth), np.minimum(found, 1.0), np.nan)
        return np.where(alike, 0.0, found)
