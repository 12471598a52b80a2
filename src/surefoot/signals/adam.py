"""What Adam's state says of the last update: its size, and how well v follows the gradient.

Nothing is copied: the update is computed again from the moments, a chunk at a time. With t updates
made, c1 = 1 - beta1^t and c2 = 1 - beta2^t, Adam and AdamW changed a parameter p by

    -lr (m / c1) / (sqrt(v / c2) + eps)             and, with decoupled decay, by - lr wd p_old

so from p after the update, s = sqrt(c2) and u = m / (sqrt(v) + eps s), the change is

    -lr / (1 - lr wd) * s / c1 * (u + (wd c1 / s) p)

with the decay written for the new p. The factors before the bracket are applied on the host.
Kingma and Ba 2014, 1412.6980; Loshchilov and Hutter 2017, 1711.05101.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from surefoot.signals.adam_rule import Hyper, Rule, hyper_of, rule_of, second_moment, state_of
from surefoot.signals.cosine import CosineSums
from surefoot.signals.distribution import LARGE, UpdateSums
from surefoot.signals.parameters import Parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamSample:
    """What :meth:`AdamState.measure` leaves on the device, and what the host needs to finish it.

    Entries are one a chunk of the measured parameters, K in all.

    Attributes:
        hyper: by parameter; None for one without Adam's state, for which nothing is measured.
        rates: learning rate of each group, on the host or on the device.
        adam_rms: norm of g / max(sqrt(v), eps s), (K,).
        below_eps: number of weights with sqrt(v) < eps s, (K,).
        gradient: norm of g, (K,).
        second: sum of v, (K,).
        update: norm of the bracket of the module's formula, (K,); empty if the rule is not Adam's.
        distribution: sums for the distribution of u; None if the rule is not Adam's.
        cosine: sums for the cosine with the first moment; None if the rule of that is not Adam's.
    """

    hyper: tuple[Hyper | None, ...]
    rates: tuple[float | Tensor, ...]
    adam_rms: list[Tensor] = field(default_factory=list)
    below_eps: list[Tensor] = field(default_factory=list)
    gradient: list[Tensor] = field(default_factory=list)
    second: list[Tensor] = field(default_factory=list)
    update: list[Tensor] = field(default_factory=list)
    distribution: UpdateSums | None
    cosine: CosineSums | None

    def parts(self) -> list[tuple[str, Tensor]]:
        """The vectors by name, for the mailbox."""
        found = [
            (name, torch.stack(numbers))
            for name in ("adam_rms", "below_eps", "gradient", "second", "update")
            if (numbers := getattr(self, name))
        ]
        for sums in (self.distribution, self.cosine):
            found += [] if sums is None else sums.parts()
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """Factors of one parameter, 0-d on the device; names as in the module's formulas.

    Attributes:
        floor: eps s.
        decay: wd c1 / s; None without decay.
        share: the part of the gradient that is in m; 0 where the update was skipped.
        large: :data:`surefoot.signals.distribution.LARGE` in units of u.
    """

    floor: Tensor
    decay: Tensor | None
    share: Tensor
    large: Tensor


class AdamState:
    """Reads the state of an optimizer that keeps Adam's moments.

    Temporary memory: two scratches of one chunk, made when first needed and kept, a copy of a chunk
    of moments that have another dtype, and a few numbers a chunk.
    """

    def __init__(self, parameters: Parameters, optimizer: torch.optim.Optimizer) -> None:
        self.parameters = parameters
        self.optimizer = optimizer
        self.rule: Rule = rule_of(optimizer)
        self._scratch: Tensor | None = None

    def rates(self) -> tuple[float | Tensor, ...]:
        """Learning rate of each group now; a copy, as a scheduler changes tensors in place."""
        rates = (group["lr"] for group in self.optimizer.param_groups)
        return tuple(r.detach().clone() if isinstance(r, Tensor) else float(r) for r in rates)

    def counters(self) -> Tensor:
        """Updates made to each parameter (P,), 0 where there is no state; a copy, on the device."""
        found = [state_of(self.optimizer, p).get("step") for p in self.parameters.tensors]
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
        hyper = hyper_of(self.optimizer, self.parameters.tensors)
        if not any(hyper):
            return None
        sample = AdamSample(
            hyper=hyper,
            rates=rates,
            distribution=UpdateSums() if self.rule.direction else None,
            cosine=CosineSums() if self.rule.moment else None,
        )
        for index, scales in enumerate(self._scales(hyper, before, counters)):
            if hyper[index] is not None:
                self._measure(index, scales, sample)
        return sample

    def _measure(self, index: int, scales: Scales, sample: AdamSample) -> None:
        """One parameter: all that is wanted of a chunk while it is in the cache."""
        pieces, parameter = self.parameters.pieces, self.parameters.tensors[index]
        state = state_of(self.optimizer, parameter)
        firsts = pieces(index, state["exp_avg"])
        seconds = pieces(index, second_moment(state))
        weights = pieces(index, parameter)
        gradients: Sequence[Tensor | None] = [None] * len(firsts)
        if parameter.grad is not None:
            gradients = pieces(index, parameter.grad)
        for m, v, w, g in zip(firsts, seconds, weights, gradients, strict=True):
            root, scratch = self._scratches(v)
            # bf16 sums and products would be bf16 numbers.
            v, g = v.to(root.dtype), None if g is None else g.to(root.dtype)
            torch.sqrt(v, out=root)
            sample.second.append(v.sum())
            # As numbers, for torch is slow at booleans on a CPU. A chunk's count is exact.
            sample.below_eps.append(torch.lt(root, scales.floor, out=scratch).sum())
            if g is None:
                zero = torch.zeros_like(scales.floor)
                sample.adam_rms.append(zero)
                sample.gradient.append(zero)
            else:
                torch.maximum(root, scales.floor, out=scratch)
                torch.div(g, scratch, out=scratch)
                sample.adam_rms.append(torch.linalg.vector_norm(scratch))
                sample.gradient.append(torch.linalg.vector_norm(g))
            if sample.cosine is not None:
                sample.cosine.add(m, g, scales.share, scratch)
            if sample.distribution is None:
                continue
            update = torch.div(m, root.add_(scales.floor), out=scratch)
            if self.rule.size:
                bracket = update
                if scales.decay is not None:
                    bracket = torch.addcmul(update, w, scales.decay, out=root)
                sample.update.append(torch.linalg.vector_norm(bracket))
            sample.distribution.add(update, scales.large, root)

    def _scratches(self, piece: Tensor) -> tuple[Tensor, Tensor]:
        if self._scratch is None:
            size = min(self.parameters.chunk, int(self.parameters.sizes.max()))
            device, dtype = self.parameters.device, self.parameters.dtype
            self._scratch = torch.empty(2, size, device=device, dtype=dtype)
        first, second = self._scratch[:, : piece.numel()].unbind()
        return first.view(piece.shape), second.view(piece.shape)

    def _scales(
        self, hyper: tuple[Hyper | None, ...], before: Tensor, counters: Tensor
    ) -> list[Scales]:
        """The factors of each parameter; what they are of one without state means nothing."""
        rows = [(h.beta1, h.beta2, h.eps, h.decay, h.sign) if h else (0.0,) * 5 for h in hyper]
        # Made on the host and copied without waiting; the formulas use float64, as 1 - beta^t
        # loses digits at small t.
        table = torch.tensor(rows, dtype=torch.float64).to(counters.device, non_blocking=True)
        beta1, beta2, eps, decay, sign = table.unbind(1)
        c1, c2 = 1 - beta1**counters, 1 - beta2**counters
        share = sign * (1 - beta1) * (counters != before)
        s = c2.sqrt()
        scales = torch.stack([eps * s, decay * c1 / s, share, LARGE * c1 / s])
        floors, factors, shares, limits = (row.unbind() for row in scales.to(self.parameters.dtype))
        return [
            Scales(floor=f, decay=d if h and h.decay else None, share=x, large=limit)
            for h, f, d, x, limit in zip(hyper, floors, factors, shares, limits, strict=True)
        ]
