"""What acts on a step between its gradient and the next one, beside the optimizer itself."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surefoot.model import LossSums
from surefoot.optim import (
    Clipper,
    QueryKey,
    SpikeSkip,
    build_clipper,
    qk_clip_,
    query_key_pairs,
    scale_shallow_gradients,
)
from surefoot.recipe import Recipe
from surefoot.train.ranks import Ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Shrinks shallow gradients, leaves out spikes, clips gradients and attention heads.

    Attributes:
        model: whose first blocks are shrunk.
        clipper: limits the gradient.
        skip: leaves out the update of a spike, or None.
        heads: query and key matrices to clip, a layer each; empty = none.
        largest_logit: attention logit beyond which they are.
        shallow_gradient: factor on the gradients of the first blocks.
        shallow_layers: how many blocks; 0 = none.
    """

    model: nn.Module
    clipper: Clipper
    skip: SpikeSkip | None
    heads: Sequence[QueryKey]
    largest_logit: float
    shallow_gradient: float
    shallow_layers: int

    @property
    def clips_heads(self) -> bool:
        """Whether the largest attention logit of every head is needed at every step."""
        return bool(self.heads)

    def shrink(self) -> None:
        """Scale the gradients of the first blocks, before anything is measured."""
        if self.shallow_layers:
            scale_shallow_gradients(self.model, self.shallow_gradient, self.shallow_layers)

    def judge(self, sums: LossSums, norm: Tensor, ranks: Ranks) -> Tensor:
        """Whether the update is a spike's, from values that every rank has: 0-d, 1 = leave out."""
        assert self.skip is not None
        total = ranks.total(torch.stack((sums.cross_entropy.detach(), sums.tokens.detach())))
        return self.skip.skip(total[0] / total[1].clamp(min=1), norm)

    def clip(self, norm: Tensor, leave_out: Tensor, scale: Tensor | None) -> Tensor:
        """The factor on the gradient; a step that is left out stays out of the history."""
        return self.clipper(torch.where(leave_out > 0, math.nan, norm), scale)

    def clip_heads(self, largest: Tensor, leave_out: Tensor, ranks: Ranks) -> None:
        """Scale down query and key weights of heads whose logits grew, after the update."""
        qk_clip_(self.heads, largest, self.largest_logit, skip=leave_out, group=ranks.group)

    def state_dict(self) -> dict[str, Tensor]:
        """All history, as tensors by name."""
        found = {f"clip_{name}": value for name, value in self.clipper.state_dict().items()}
        if self.skip is not None:
            found |= {f"skip_{name}": value for name, value in self.skip.state_dict().items()}
        return found

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take up the history of :meth:`state_dict`.

        Raises:
            UsageError: if it is that of other settings.
        """
        self.clipper.load_state_dict(_under("clip_", state))
        if self.skip is not None:
            self.skip.load_state_dict(_under("skip_", state))


def build_guards(model: nn.Module, recipe: Recipe, device: torch.device) -> Guards:
    """The guards that a recipe asks for.

    Args:
        model: a decoder, on its device.
        recipe: resolved.
        device: of the model.

    Raises:
        UsageError: if QK-clip is asked for beside QK-norm, on which it has no effect.
    """
    o, largest = recipe.optimizer, recipe.architecture.qk_clip
    trained = [p for p in model.parameters() if p.requires_grad]
    # With tied embeddings the head is the embedding.
    head = getattr(model, "head", None) or getattr(model, "embedding", None)
    return Guards(
        model=model,
        clipper=build_clipper(o, trained, head=[] if head is None else list(head.parameters())),
        skip=SpikeSkip(o.skip_window, o.skip_sigmas, device) if o.skip_spikes else None,
        heads=query_key_pairs(model) if largest is not None else (),
        largest_logit=largest or math.inf,
        shallow_gradient=o.shallow_gradient,
        shallow_layers=o.shallow_layers,
    )


def _under(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): v for n, v in state.items() if n.startswith(prefix)}
