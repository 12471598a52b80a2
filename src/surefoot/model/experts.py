"""Mixture of experts: several feed-forward blocks; each token passes the few it is sent to.

All experts are on the device of the model: data parallelism copies them all, and there is no expert
parallelism.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surefoot.model.feed_forward import FeedForward
from surefoot.model.routing import RouterSums, Routing, route
from surefoot.recipe import Architecture

# B sequences, T positions, C = width, N = B T tokens, E experts, k experts of each token.


class Experts(nn.Module):
    """The sum over the k experts chosen for a token of weight times ``FeedForward``.

    The router's product is made in fp32, under autocast too: rounding its logits to bf16 changes
    who is chosen, and makes training unstable (Fedus et al. 2021, 2101.03961, selective precision).
    Weights are renormalised over the chosen, so experts that are equal give what one of them gives.

    The capacity is a limit in training only. In evaluation nothing is dropped: the loss of a
    sequence would depend on what it is batched with.

    Sources: the layer, Shazeer et al. 2017, 1701.06538; weights, Jiang et al. 2024, 2401.04088;
    capacity and balance loss, Fedus et al. 2021, 2101.03961.

    Args:
        architecture: with ``experts`` set.

    Attributes:
        router: from the width to the experts.
        experts: what a dense model has one of.
        sums: of the last forward pass, 0-d tensors; None before.

    Raises:
        ValueError: if ``experts`` is not set or less than ``experts_per_token`` (a recipe reports
            the latter before).
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a = architecture
        if a.experts is None or a.experts_per_token > a.experts:
            raise ValueError(
                f"experts = {a.experts}, experts_per_token = {a.experts_per_token}: expected a "
                "number of experts, at least as many as each token is sent to"
            )
        self.per_token = a.experts_per_token
        self.capacity = a.expert_capacity
        self.router = nn.Linear(a.width, a.experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(a) for _ in range(a.experts))
        self.sums: RouterSums | None = None

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C), in the dtype that the experts give.

        Waits for the device once, for the number of tokens of each expert.
        """
        tokens = x.reshape(-1, x.shape[-1])  # N C
        routing = route(
            self._logits(tokens), self.per_token, self.capacity if self.training else None
        )
        self.sums = routing.sums
        written = self._written(tokens, routing)  # N k C
        # The products are summed in the dtype of the weights, fp32 at least, and rounded once: the
        # same whatever the order of the experts, and with equal experts what a single one gives.
        summed = (written * routing.weights[..., None]).sum(1)
        return summed.to(written.dtype).view(x.shape)

    def _logits(self, tokens: Tensor) -> Tensor:
        """(N, C) -> (N, E), fp32 at least."""
        with torch.autocast(tokens.device.type, enabled=False):
            exact = torch.promote_types(tokens.dtype, torch.float32)
            return F.linear(tokens.to(exact), self.router.weight.to(exact))

    def _written(self, tokens: Tensor, routing: Routing) -> Tensor:
        """What each assignment writes, (N, k, C); 0 where it was dropped."""
        k = self.per_token
        copies = tokens[:, None].expand(-1, k, -1).reshape(-1, tokens.shape[-1])  # Nk C
        read: Tensor = _Permute.apply(copies, routing.order, routing.place)  # type: ignore[no-untyped-call]
        counts = routing.counts.tolist()
        # An expert without a token is called too: its gradient is zero then, not missing, for which
        # data parallelism would wait.
        outputs = []
        for expert, chunk in zip(self.experts, torch.split(read, counts), strict=True):
            taken = chunk[: routing.limit]
            y = expert(taken)
            outputs.append(F.pad(y, (0, 0, 0, len(chunk) - len(taken))))
        written: Tensor = _Permute.apply(torch.cat(outputs), routing.place, routing.order)  # type: ignore[no-untyped-call]
        return written.view(-1, k, tokens.shape[-1])


class _Permute(torch.autograd.Function):
    """Rows in another order; the gradient goes back by reading, which adds nothing up.

    The gradient of plain indexing is a sum by index: slow on a CPU, without a fixed order on a GPU.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(order, inverse)
        return x.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        order, inverse = ctx.saved_tensors
        back: Tensor = _Permute.apply(grad, inverse, order)  # type: ignore[no-untyped-call]
        return back, None, None
