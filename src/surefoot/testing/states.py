"""State that a resume loses, or brings back from the wrong time."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def forget_moments(optimizer: torch.optim.Optimizer) -> None:
    """Lose all state of an optimizer, as a resume does that loads the weights alone.

    The next step starts with empty moments and, in Adam, with step 1.
    """
    optimizer.state.clear()


@torch.no_grad()
def reset_step_counter(optimizer: torch.optim.Optimizer, step: int = 0) -> None:
    """Set Adam's step counters back while its moments stay: bias correction comes twice.

    With moments that are full already, dividing by 1 - beta^t of a small t makes the next updates
    (1 - beta1)^-1 sqrt(1 - beta2) times as large: 2.2 for (0.9, 0.95), 0.3 for (0.9, 0.999).

    Args:
        optimizer: any whose state has ``step``; others are left alone.
        step: the count that it has from now on.
    """
    for state in optimizer.state.values():
        if isinstance(state.get("step"), Tensor):
            state["step"].fill_(step)
        elif "step" in state:
            state["step"] = step


@torch.no_grad()
def put_weights_back(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Give a model older weights, its optimizer left as it is: master weights that are stale.

    Args:
        model: any module.
        weights: by parameter name; parameters that are not in it stay as they are.
    """
    for name, parameter in model.named_parameters():
        if name in weights:
            parameter.copy_(weights[name])
