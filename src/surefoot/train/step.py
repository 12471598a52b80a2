"""One optimizer step: accumulate, measure, clip, update unless a gradient is not finite.

Nothing here waits for the device: whether the update takes place is decided on the device, and the
step's signals reach the host with the next step.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from surefoot.model import Decoder, LossSums, loss_sums
from surefoot.optim import LossScaler, clip_factor, guarded_step
from surefoot.signals import Meter
from surefoot.train.ranks import Ranks

IGNORE = -100
"""Target value of a token that does not count."""

_FORMATS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """What a step leaves on the device for its record.

    Attributes:
        sums: the loss sums of this rank's tokens; combined over ranks by the meter.
        values: scalars that are the same on every rank.
        attention: largest attention logit of each layer, at sampled steps.
    """

    sums: LossSums
    values: Mapping[str, Tensor | float]
    attention: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainStep:
    """The step of a run; call it with a batch.

    Attributes:
        model: the plain decoder.
        wrapped: what the forward pass goes through: the decoder, compiled or in DDP.
        optimizer: any torch optimizer; the fused ones take no detour.
        meter: measures gradients and updates.
        ranks: this process among the others.
        micro_size: sequences a forward pass.
        clip_norm: clip by global norm; 0 = no clipping.
        z_loss_weight: weight of the z-loss.
        precision: ``fp32``, ``bf16`` or ``fp16``.
        scaler: loss scaler, for fp16.
        attention_sequences: sequences on which attention logits are measured.
    """

    model: Decoder
    wrapped: nn.Module
    optimizer: torch.optim.Optimizer
    meter: Meter
    ranks: Ranks
    micro_size: int
    clip_norm: float
    z_loss_weight: float
    precision: str = "fp32"
    scaler: LossScaler | None = None
    attention_sequences: int = 1

    def __call__(self, batch: Tensor, step: int, learning_rate: float) -> StepOutcome:
        """Take one step.

        Args:
            batch: this rank's sequences (B, T+1) int64; targets may be IGNORE.
            step: counted from 1.
            learning_rate: for this update.

        Returns:
            What the record is made of, still on the device.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        inputs, targets = batch[:, :-1].clamp(min=0), batch[:, 1:]
        sums, attention = self._backward(inputs, targets, sampled=self.meter.is_sampled(step))

        scale = None if self.scaler is None else self.scaler.scale
        norms = self.meter.norms(step, unscale=scale)
        factor = clip_factor(norms.total, self.clip_norm)
        divisor = 1 / factor if scale is None else scale / factor
        guarded_step(self.optimizer, found_inf=norms.found_inf, grad_divisor=divisor)
        self.meter.after_update(step)
        self.optimizer.zero_grad(set_to_none=True)

        values: dict[str, Tensor | float] = {
            "grad_norm": norms.total,
            "clip_factor": factor,
            "update_skipped": norms.found_inf,
            "learning_rate": learning_rate,
        }
        if self.scaler is not None:
            values["loss_scale"] = self.scaler.scale.clone()
            self.scaler.update(norms.found_inf)
        return StepOutcome(sums=sums, values=values, attention=attention)

    def autocast(self) -> AbstractContextManager[object]:
        """The number format of the forward pass."""
        dtype = _FORMATS[self.precision]
        if dtype is None:
            return nullcontext()
        return torch.autocast(self.ranks.device.type, dtype=dtype)

    def _backward(
        self, inputs: Tensor, targets: Tensor, sampled: bool
    ) -> tuple[LossSums, Tensor | None]:
        """Accumulate the gradient of the whole batch, each counted token weighing the same.

        The divisor is the number of counted tokens of the global batch, not of a micro-batch: a
        mean of means would weigh tokens of short micro-batches more. DDP averages over ranks, hence
        the factor `world`.
        """
        counted = self.ranks.total((targets != IGNORE).sum())
        weight = self.ranks.world / counted.clamp(min=1).float()
        if self.scaler is not None:
            weight = weight * self.scaler.scale
        size = self.micro_size
        pieces = list(zip(torch.split(inputs, size), torch.split(targets, size), strict=True))
        total: LossSums | None = None
        for index, (tokens, wanted) in enumerate(pieces):
            measure = self.attention_sequences if sampled and index == 0 else 0
            with self._measuring(measure), self._syncing(index == len(pieces) - 1):
                with self.autocast():
                    logits = self.wrapped(tokens)
                sums = loss_sums(logits, wanted, ignore_index=IGNORE)
                objective = sums.cross_entropy + self.z_loss_weight * sums.log_z_squared
                torch.autograd.backward(objective * weight)
            total = _added(total, sums)
        assert total is not None
        return total, self.model.attention_logit_max if sampled else None

    def _measuring(self, sequences: int) -> AbstractContextManager[object]:
        """Attention logits are measured on the first sequences of the first micro-batch."""
        return self.model.measure_attention_logits(sequences) if sequences else nullcontext()

    def _syncing(self, last: bool) -> AbstractContextManager[object]:
        """Gradients are exchanged with the last micro-batch only."""
        if isinstance(self.wrapped, DistributedDataParallel) and not last:
            return self.wrapped.no_sync()
        return nullcontext()


def _added(total: LossSums | None, sums: LossSums) -> LossSums:
    sums = LossSums._make(value.detach() for value in sums)
    if total is None:
        return sums
    added = LossSums._make(a + b for a, b in zip(total, sums, strict=True))
    largest = torch.maximum(total.log_z_abs_max, sums.log_z_abs_max)
    return added._replace(log_z_abs_max=largest)
