"""One optimizer step: accumulate, measure, clip, update unless a gradient is not finite.

Nothing here waits for the device: whether the update takes place is decided on the device, and the
step's signals reach the host with the next step.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from surefoot.model import Decoder, LossSums, RouterSums, loss_sums
from surefoot.optim import LossScaler, clip_factor, guarded_step
from surefoot.signals import Meter
from surefoot.train.guards import Guards
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
        routers: what the routers of this rank did, by signal, one value a layer.
    """

    sums: LossSums
    values: Mapping[str, Tensor | float]
    attention: Tensor | None
    routers: Mapping[str, Tensor] = field(default_factory=dict)


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
        clip_norm: clip by global norm where ``guards`` bring no other way; 0 = no clipping.
        z_loss_weight: weight of the z-loss.
        precision: ``fp32``, ``bf16`` or ``fp16``.
        scaler: loss scaler, for fp16.
        attention_sequences: sequences on which attention logits are measured.
        guards: what else acts between the gradient and the next step.
        balance_loss_weight: weight of the loss that evens the load of experts.
        router_z_loss_weight: weight of the z-loss of the routers.
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
    guards: Guards | None = None
    balance_loss_weight: float = 0.0
    router_z_loss_weight: float = 0.0

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
            group["lr"] = learning_rate * group.get("rate_factor", 1.0)
        inputs, targets = batch[:, :-1].clamp(min=0), batch[:, 1:]
        done = self._backward(inputs, targets, sampled=self.meter.is_sampled(step))

        guards, scale = self.guards, None if self.scaler is None else self.scaler.scale
        if guards is not None:
            guards.shrink()
        norms = self.meter.norms(step, unscale=scale)
        leave_out = norms.found_inf
        if guards is None:
            factor = clip_factor(norms.total, self.clip_norm)
        else:
            if guards.skip is not None:
                leave_out = torch.maximum(
                    leave_out, guards.judge(done.sums, norms.total, self.ranks)
                )
            factor = guards.clip(norms.total, leave_out, scale)
        divisor = 1 / factor if scale is None else scale / factor
        guarded_step(self.optimizer, found_inf=leave_out, grad_divisor=divisor)
        if guards is not None and done.heads is not None:
            guards.clip_heads(done.heads, leave_out, self.ranks)
        self.meter.after_update(step)
        self.optimizer.zero_grad(set_to_none=True)

        values: dict[str, Tensor | float] = {
            "grad_norm": norms.total,
            "clip_factor": factor if guards is None else guards.clipper.smallest,
            "update_skipped": leave_out,
            "learning_rate": learning_rate,
        }
        if self.scaler is not None:
            values["loss_scale"] = self.scaler.scale.clone()
            self.scaler.update(norms.found_inf)
        return StepOutcome(
            sums=done.sums, values=values, attention=done.attention, routers=done.routers
        )

    def autocast(self) -> AbstractContextManager[object]:
        """The number format of the forward pass."""
        dtype = _FORMATS[self.precision]
        if dtype is None:
            return nullcontext()
        return torch.autocast(self.ranks.device.type, dtype=dtype)

    def _backward(self, inputs: Tensor, targets: Tensor, sampled: bool) -> "_Done":
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
        clips = self.guards is not None and self.guards.clips_heads
        done = _Done()
        for index, (tokens, wanted) in enumerate(pieces):
            measure = self.attention_sequences if sampled and index == 0 else 0
            if clips:  # the largest logit of the whole batch, not of a sample of it
                measure = len(tokens)
            with self._measuring(measure), self._syncing(index == len(pieces) - 1):
                with self.autocast():
                    logits = self.wrapped(tokens)
                sums = loss_sums(logits, wanted, ignore_index=IGNORE)
                objective = sums.cross_entropy + self.z_loss_weight * sums.log_z_squared
                routed = self.model.router_sums
                if routed is not None:
                    balance = self.balance_loss_weight * routed.balance_loss
                    router_z = self.router_z_loss_weight * routed.router_z
                    objective = objective + (balance + router_z) * sums.tokens
                torch.autograd.backward(objective * weight)
            done.add(sums, routed, self.model, sampled=sampled, clips=clips)
        return done

    def _measuring(self, sequences: int) -> AbstractContextManager[object]:
        """Attention logits are measured on the first sequences of the first micro-batch."""
        return self.model.measure_attention_logits(sequences) if sequences else nullcontext()

    def _syncing(self, last: bool) -> AbstractContextManager[object]:
        """Gradients are exchanged with the last micro-batch only."""
        if isinstance(self.wrapped, DistributedDataParallel) and not last:
            return self.wrapped.no_sync()
        return nullcontext()


class _Done:
    """What the forward passes of a step left, over its micro-batches."""

    def __init__(self) -> None:
        self.total: LossSums | None = None
        self.attention: Tensor | None = None
        self.heads: Tensor | None = None
        self.routers: dict[str, Tensor] = {}

    @property
    def sums(self) -> LossSums:
        """Loss sums of the whole batch on this rank."""
        assert self.total is not None
        return self.total

    def add(
        self,
        sums: LossSums,
        routed: RouterSums | None,
        model: Decoder,
        *,
        sampled: bool,
        clips: bool,
    ) -> None:
        """Take in a micro-batch."""
        self.total = _added(self.total, sums)
        if sampled and model.attention_logit_max is not None:
            self.attention = _larger(self.attention, model.attention_logit_max)
        if clips and model.attention_head_logit_max is not None:
            self.heads = _larger(self.heads, model.attention_head_logit_max)
        if routed is not None:
            # Of the last micro-batch: one is as good a sample as another.
            self.routers = {
                "router_entropy": routed.entropy,
                "router_logit_max": routed.logit_max,
                "expert_load_max": routed.load_max,
                "tokens_dropped": routed.dropped,
                "load_balancing_loss": routed.balance_loss.detach().reshape(1),
                "router_z_loss": routed.router_z.detach().reshape(1),
            }


def _larger(one: Tensor | None, other: Tensor) -> Tensor:
    return other if one is None else torch.maximum(one, other)


def _added(total: LossSums | None, sums: LossSums) -> LossSums:
    sums = LossSums._make(value.detach() for value in sums)
    if total is None:
        return sums
    added = LossSums._make(a + b for a, b in zip(total, sums, strict=True))
    largest = torch.maximum(total.log_z_abs_max, sums.log_z_abs_max)
    return added._replace(log_z_abs_max=largest)
