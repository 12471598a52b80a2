"""Dynamic loss scaling for fp16, on the device: nothing waits for the host."""

from collections.abc import Mapping

import torch
from torch import Tensor

GROWTH, BACKOFF, INTERVAL = 2.0, 0.5, 2000
"""Factor after INTERVAL good steps, factor after a bad one (those of torch.amp.GradScaler)."""


class LossScaler:
    """The factor on the loss before backward; halves on overflow, doubles after 2000 good steps.

    Below 1 a scale no longer protects anything from underflow, so it stops there: a gradient that
    overflows at scale 1 is a diverged run, for the detector to report.

    Args:
        initial: first scale.
        device: where the scale lives.

    Attributes:
        scale: 0-d fp32 tensor; the same object for the whole run, updated in place.

    Source: Micikevicius et al. 2017, 1710.03740.
    """

    def __init__(self, initial: float, device: torch.device | str = "cpu") -> None:
        self.scale = torch.tensor(initial, dtype=torch.float32, device=device)
        self._good_steps = torch.tensor(0, dtype=torch.int32, device=device)

    def update(self, found_inf: Tensor) -> None:
        """Take in whether this step's gradients overflowed (0-d fp32, 0 or 1)."""
        torch._amp_update_scale_(
            self.scale, self._good_steps, found_inf.float(), GROWTH, BACKOFF, INTERVAL
        )
        self.scale.clamp_(min=1.0)

    def state_dict(self) -> dict[str, Tensor]:
        """All state; the tensors themselves."""
        return {"scale": self.scale, "good_steps": self._good_steps}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take up the state of :meth:`state_dict`."""
        self.scale.copy_(state["scale"])
        self._good_steps.copy_(state["good_steps"])
