"""What Adam's state says of the last update: its size, and how well v follows the gradient.

Nothing is copied: the update is computed again from the moments, a chunk at a time. With t updates
made, c1 = 1 - beta1^t and c2 = 1 - beta2^t, Adam and AdamW changed a parameter p by

    -lr (m / c1) / (sqrt(v / c2) + eps)             and, with decoupled decay, by - lr wd p_old

so from p after the update, s = sqrt(c2) and u = m / (sqrt(v) + eps s), the change is

    -lr / (1 - lr wd) * s / c1 * (u + (wd c1 / s) p)

with the decay written for the new p. The factors before the bracket are applied on the host.
Kingma and Ba 2014, 1412.6980; Loshchilov and Hutter 2017, 1711.05101.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from surefoot.signals.cosine import CosineSums
from surefoot.signals.parameters import Parameters

_UPDATE_KNOWN = (torch.optim.Adam, torch.optim.AdamW)
"""Optimizers whose update is the formula above. NAdam, RAdam and others keep the same moments but
move by another rule: of them only what depends on the moments themselves is measured."""

_MOMENT_KNOWN = (*_UPDATE_KNOWN, torch.optim.NAdam, torch.optim.RAdam)
"""Optimizers whose first moment is m = beta1 m + (1 - beta1) g."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyper:
    """What a parameter's group says.

    Attributes:
        beta1: of the first moment.
        beta2: of the second moment.
        eps: added to sqrt(v).
        decay: weight decay, 0 unless it is decoupled from the gradient.
        coupled: whether there is one that is not: then the moments hold more than gradients.
        sign: -1 where the optimizer maximizes, else 1.
        group: number of the parameter group.
    """

    beta1: float
    beta2: float
    eps: float
    decay: float
    coupled: bool
    sign: int
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamSample:
    """What :meth:`AdamState.measure` leaves on the device, and what the host needs to finish it.

    Attributes:
        hyper: by parameter; None for one without Adam's state, for which nothing is measured.
        rates: learning rate of each group, on the host or on the device.
        adam_rms: norm of g / max(sqrt(v), eps s), one a chunk of the measured parameters (K,).
        below_eps: number of weights with v < eps^2 c2, (K,).
        update: norm of the bracket of the module's formula, (K,); None if the rule is not Adam's.
        cosine: sums for the cosine with the first moment; None if the rule of that is not Adam's.
    """

    hyper: tuple[Hyper | None, ...]
    rates: tuple[float | Tensor, ...]
    adam_rms: Tensor
    below_eps: Tensor
    update: Tensor | None
    cosine: CosineSums | None

    def parts(self) -> list[tuple[str, Tensor]]:
        """The vectors by name, for the mailbox."""
        found = [("adam_rms", self.adam_rms), ("below_eps", self.below_eps)]
        if self.update is not None:
            found.append(("update", self.update))
        return found if self.cosine is None else found + self.cosine.parts()


class AdamState:
    """Reads the state of an optimizer that keeps Adam's moments.

    Temporary memory: a scratch of one chunk, made when first needed and kept, a copy of a chunk of
    moments that have another dtype, and a few numbers a chunk.
    """

    def __init__(self, parameters: Parameters, optimizer: torch.optim.Optimizer) -> None:
        self.parameters = parameters
        self.optimizer = optimizer
        self._scratch: Tensor | None = None

    def rates(self) -> tuple[float | Tensor, ...]:
        """Learning rate of each group now; a copy, as a scheduler changes tensors in place."""
        rates = (group["lr"] for group in self.optimizer.param_groups)
        return tuple(r.detach().clone() if isinstance(r, Tensor) else float(r) for r in rates)

    def counters(self) -> Tensor:
        """Updates made to each parameter (P,), 0 where there is no state; a copy, on the device."""
        found = [self._state_of(i).get("step") for i in range(len(self.parameters))]
        # Without `capturable` or `fused` torch keeps the counters on the CPU.
        home = next((s.device for s in found if isinstance(s, Tensor)), torch.device("cpu"))
        zero = torch.zeros((), device=home)
        steps = [
            step if isinstance(step, Tensor) else zero if step is None else zero + float(step)
            for step in found
        ]
        return torch.stack(steps).to(self.parameters.device, non_blocking=True)

    def measure(
        self, before: Tensor, counters: Tensor, rates: tuple[float | Tensor, ...]
    ) -> AdamSample | None:
        """Go over the state once, after an update.

        Args:
            before: of :meth:`counters`, before the update.
            counters: of :meth:`counters`, after the update.
            rates: of :meth:`rates`, as the update used them.

        Returns:
            None if no parameter has Adam's second moment.
        """
        hyper = self._hyper()
        if not any(hyper):
            return None
        known = isinstance(self.optimizer, _UPDATE_KNOWN)
        adam_rms: list[Tensor] = []
        below_eps: list[Tensor] = []
        update: list[Tensor] = []
        cosine = CosineSums() if isinstance(self.optimizer, _MOMENT_KNOWN) else None
        for index, (group, scales) in enumerate(
            zip(hyper, self._scales(hyper, before, counters), strict=True)
        ):
            if group is not None:
                threshold, floor, decay, share = scales
                self._follow(index, threshold, adam_rms, below_eps)
                if known:
                    self._update(index, floor, decay if group.decay else None, update)
                if cosine is not None:
                    self._align(index, share, cosine)
        return AdamSample(
            hyper=hyper,
            rates=rates,
            adam_rms=torch.stack(adam_rms),
            below_eps=torch.stack(below_eps),
            update=torch.stack(update) if known else None,
            cosine=cosine,
        )

    def _follow(
        self, index: int, threshold: Tensor, adam_rms: list[Tensor], below_eps: list[Tensor]
    ) -> None:
        """How the gradient compares with v, and v with eps^2; without a gradient RMS_t is 0."""
        gradient = self.parameters.tensors[index].grad
        seconds = self.parameters.pieces(index, _second_moment(self._state_of(index)))
        gradients = () if gradient is None else self.parameters.pieces(index, gradient)
        for number, v in enumerate(seconds):
            scratch, v = self._scratch_like(v), v.to(self.parameters.dtype)
            # Compared as squares, for a root of all v costs more; as numbers, for torch is slow at
            # booleans on a CPU. A chunk's count is exact in float32.
            below_eps.append(torch.lt(v, threshold, out=scratch).sum())
            if gradient is None:
                adam_rms.append(torch.zeros_like(threshold))
                continue
            torch.maximum(v, threshold, out=scratch).sqrt_()
            torch.div(gradients[number], scratch, out=scratch)
            adam_rms.append(torch.linalg.vector_norm(scratch))

    def _update(
        self, index: int, floor: Tensor, decay: Tensor | None, update: list[Tensor]
    ) -> None:
        """The bracket of the module's formula."""
        state, pieces = self._state_of(index), self.parameters.pieces
        firsts = pieces(index, state["exp_avg"])
        seconds = pieces(index, _second_moment(state))
        weights = pieces(index, self.parameters.tensors[index])
        for m, v, w in zip(firsts, seconds, weights, strict=True):
            scratch = self._scratch_like(v)
            torch.sqrt(v.to(self.parameters.dtype), out=scratch).add_(floor)
            torch.div(m, scratch, out=scratch)
            if decay is not None:
                scratch.addcmul_(w, decay)
            update.append(torch.linalg.vector_norm(scratch))

    def _align(self, index: int, share: Tensor, cosine: CosineSums) -> None:
        """How the gradient lies to the first moment of before."""
        gradient = self.parameters.tensors[index].grad
        moments = self.parameters.pieces(index, self._state_of(index)["exp_avg"])
        gradients: Sequence[Tensor | None] = [None] * len(moments)
        if gradient is not None:
            gradients = self.parameters.pieces(index, gradient)
        for m, g in zip(moments, gradients, strict=True):
            cosine.add(m, g, share, self._scratch_like(m))

    def _scratch_like(self, piece: Tensor) -> Tensor:
        if self._scratch is None:
            size = min(self.parameters.chunk, int(self.parameters.sizes.max()))
            device, dtype = self.parameters.device, self.parameters.dtype
            self._scratch = torch.empty(size, device=device, dtype=dtype)
        return self._scratch[: piece.numel()].view(piece.shape)

    def _state_of(self, index: int) -> Mapping[str, Any]:
        # `state` is a defaultdict: indexing would leave an empty entry behind.
        state: Mapping[str, Any] = self.optimizer.state.get(self.parameters.tensors[index], {})
        return state

    def _hyper(self) -> tuple[Hyper | None, ...]:
        found: dict[Tensor, Hyper] = {}
        is_adamw = isinstance(self.optimizer, torch.optim.AdamW)
        for number, group in enumerate(self.optimizer.param_groups):
            if "betas" not in group:
                continue
            decoupled = group.get("decoupled_weight_decay", is_adamw)
            decay = float(group["weight_decay"])
            hyper = Hyper(
                beta1=float(group["betas"][0]),
                beta2=float(group["betas"][1]),
                eps=float(group["eps"]),
                decay=decay if decoupled else 0.0,
                coupled=bool(decay) and not decoupled,
                sign=-1 if group.get("maximize") else 1,
                group=number,
            )
            found |= {p: hyper for p in group["params"]}
        return tuple(
            found.get(p) if _has_moments(self._state_of(index), p) else None
            for index, p in enumerate(self.parameters.tensors)
        )

    def _scales(
        self, hyper: tuple[Hyper | None, ...], before: Tensor, counters: Tensor
    ) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """0-d tensors of each parameter, on the device: eps^2 c2, eps s, wd c1 / s, share of g.

        The last is the part of the gradient that is in m; none where the update was skipped.
        """
        rows = [(h.beta1, h.beta2, h.eps, h.decay, h.sign) if h else (0.0,) * 5 for h in hyper]
        # Made on the host and copied without waiting; the formulas use float64, as 1 - beta^t
        # loses digits at small t.
        table = torch.tensor(rows, dtype=torch.float64).to(counters.device, non_blocking=True)
        beta1, beta2, eps, decay, sign = table.unbind(1)
        c1, c2 = 1 - beta1**counters, 1 - beta2**counters
        share = sign * (1 - beta1) * (counters > before)
        scales = torch.stack([eps**2 * c2, eps * c2.sqrt(), decay * c1 / c2.sqrt(), share])
        scales = scales.to(self.parameters.dtype)
        threshold, floor, factor, shares = (row.unbind() for row in scales)
        return list(zip(threshold, floor, factor, shares, strict=True))


def _has_moments(state: Mapping[str, Any], parameter: Tensor) -> bool:
    """Whether Adam's moments are there as plain tensors: other optimizers factor or pack them."""
    found = [state.get(name) for name in ("exp_avg", "exp_avg_sq")]
    return all(
        type(moment) is Tensor
        and moment.is_floating_point()
        and moment.shape == parameter.shape
        and moment.device == parameter.device
        for moment in found
    )


def _second_moment(state: Mapping[str, Any]) -> Tensor:
    """v, or with amsgrad its maximum: what the update is divided by."""
    second: Tensor = state["max_exp_avg_sq"] if "max_exp_avg_sq" in state else state["exp_avg_sq"]
    return second
