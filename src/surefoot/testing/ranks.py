"""Two data-parallel ranks on one process, one of which went its own way."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn


class StaleRank:
    """A second data-parallel rank whose weights are not those of the first.

    Ranks exchange gradients, not weights: a rank that missed an update, or started from an older
    checkpoint, takes the same updates as all others from then on and keeps its distance for good.
    Its gradients, taken at the wrong weights, enter everybody's average.

    Args:
        model: the first rank's module.
        weights: what the second rank has instead, by parameter name; the difference is kept.
    """

    def __init__(self, model: nn.Module, weights: dict[str, Tensor]) -> None:
        self._model = model
        self._copy = copy.deepcopy(model)
        self._offsets = {
            name: weights[name].to(p) - p.detach() for name, p in model.named_parameters()
        }

    def gradients(self, backward: Callable[[nn.Module], None]) -> dict[nn.Parameter, Tensor]:
        """This rank's gradients now, by parameter of the *first* rank's model.

        Args:
            backward: runs forward and backward of the rank's share of the batch on the module it
                is given; like the first rank's, divided by the share's tokens.

        Returns:
            What :func:`surefoot.testing.replace_gradients` takes, with weight 1/2 for two ranks.
        """
        own = dict(self._copy.named_parameters())
        theirs = dict(self._model.named_parameters())
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(theirs[name] + self._offsets[name])
                parameter.grad = None
        backward(self._copy)
        found = {}
        for name, parameter in own.items():
            grad = parameter.grad
            found[theirs[name]] = torch.zeros_like(parameter) if grad is None else grad
        return found
