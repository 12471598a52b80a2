"""The meter: signals of each step of any loop, which reach the host one step late."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from surefoot.errors import UsageError
from surefoot.records import StepRecord
from surefoot.signals.adam import AdamSample, AdamState
from surefoot.signals.finish import Note, finish
from surefoot.signals.mailbox import Mailbox
from surefoot.signals.parameters import Parameters
from surefoot.signals.sums import SUMMED, LossSums, combine, is_maximum, pack

PER_PARAMETER = (
    "grad_norm",
    "param_norm",
    "update_rms",
    "update_ratio",
    "adam_rms",
    "eps_share",
    "grad_cosine",
    "second_moment_lag",
    "adam_update_rms",
    "update_bimodality",
    "update_large_share",
)
"""Signals that have one value for each trainable parameter; all but the first two are sampled."""


OF_ROUTERS = ("router_entropy", "router_logit_max", "expert_load_max", "tokens_dropped")
"""Signals that have one value for each layer of a mixture of experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradNorms:
    """The gradient of a step, before clipping and after unscaling; 0-d tensors on the device.

    Attributes:
        total: global L2 norm, float32 (float64 if a parameter is).
        found_inf: 1 if ``total`` is not finite, else 0, float32; fused optimizers take it as it is.
    """

    total: Tensor
    found_inf: Tensor


class Meter:
    """Measures the gradients, parameters and Adam state of a step and makes its StepRecord.

    In each step call, in this order, :meth:`norms` after the backward pass, :meth:`after_update`
    after the optimizer's step, and :meth:`record`. Nothing waits for the device: the numbers of a
    step are packed into one vector on the device, copied to the host without a sync, and read when
    the next step's are sent.

    Every step: ``grad_norm`` and ``param_norm``. At the first step and each ``sample_every``-th,
    from the state of optimizers that have Adam's: ``adam_rms``, ``eps_share``,
    ``second_moment_lag`` and ``grad_cosine`` and, where the rule is that of Adam or AdamW,
    ``update_rms``, ``update_ratio``, ``adam_update_rms``, ``update_bimodality`` and
    ``update_large_share``. Scalars are over all parameters, and each is also given per parameter.
    Other optimizers lack the sampled ones, or those of them that their rule does not give: see
    :class:`surefoot.signals.adam_rule.Rule`. With ``light`` there is the scalar ``grad_norm``
    alone.

    What is computed:

    - A trainable parameter without a gradient counts with gradient 0; frozen ones have no place.
      Tied ones have one, under their first name. NaN thus always means a value that is not finite,
      except in what is taken from the state (all sampled signals but ``update_rms`` and
      ``update_ratio``) of a parameter for which there is none yet. ``grad_cosine`` is NaN too where
      the moments hold a coupled weight decay, ``update_bimodality`` where an update is beyond 1e9.
    - The update is computed again from the moments (see :mod:`surefoot.signals.adam`),
      decoupled decay included; it is 0 for a parameter whose step was skipped. It equals the
      difference of the weights up to the rounding of the weights themselves.
    - ``adam_update_rms``, ``update_bimodality`` and ``update_large_share`` are of the moments as
      they are after the step, before rate and decay: of a parameter without gradient, or whose step
      was skipped, too. A bimodality of 0 says that the update is the same everywhere, or nowhere
      above 1e-9.
    - ``update_ratio`` is over the norm after the update. ``adam_rms`` and ``second_moment_lag``
      take the gradient as the optimizer saw it, after clipping, for v follows that one; the latter
      is infinite where gradients are so small that v, their square, is 0 in its type.
    - ``grad_cosine`` is taken with the moment before this gradient went into it, so it begins with
      the second update; it is 0 where the gradient or that moment is zero.
    - A caller that clips gives the norm of before as the value ``grad_norm`` of :meth:`record`:
      the norms by parameter are scaled to it, and the quotient is ``clip_factor``.
    - With amsgrad, v is the maximum that the update is divided by.

    Under DistributedDataParallel gradients and parameters are the same on every rank and are
    measured on each, without communication; loss sums and attention maxima are combined by one
    all-gather a step.

    Args:
        model: any module; bare, compiled or in DistributedDataParallel.
        optimizer: any torch optimizer of its parameters.
        sample_every: steps between the sampled signals.
        process_group: ranks whose sums are combined; None for one process.
        light: measure the global gradient norm and nothing else.

    Raises:
        UsageError: if there is nothing to measure, or parameters are sharded or on several devices.

    Attributes:
        places: for each per-place signal the names of its places, in order; those of
            ``attention_logit_max`` are the ``layers`` of a model that has
            ``measure_attention_logits``, as surefoot's decoder has.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        sample_every: int = 20,
        process_group: dist.ProcessGroup | None = None,
        light: bool = False,
    ) -> None:
        if sample_every < 1:
            raise UsageError(f"sample_every counts steps from 1, got {sample_every}")
        self.sample_every = sample_every
        self._light = light
        self._parameters = Parameters(model)
        self._adam = AdamState(self._parameters, optimizer)
        self._group = process_group
        self._mailbox: Mailbox[Note] = Mailbox(self._parameters.device)
        self._parts: list[tuple[str, Tensor]] = []
        self._prepared: int | None = None
        self._rates: tuple[float | Tensor, ...] = ()
        self._sample: AdamSample | None = None
        self._counters = torch.empty(0)
        self.places: dict[str, tuple[str, ...]] = {}
        if light:
            return
        self.places |= dict.fromkeys(PER_PARAMETER, self._parameters.names)
        layers = getattr(model, "layers", None)
        if hasattr(model, "measure_attention_logits") and isinstance(layers, nn.Module):
            names = tuple(f"layers.{name}" for name, _ in layers.named_children())
            self.places["attention_logit_max"] = names
            if getattr(getattr(model, "architecture", None), "experts", None) is not None:
                self.places |= dict.fromkeys(OF_ROUTERS, names)

    def is_sampled(self, step: int) -> bool:
        """Whether the sampled signals are measured at ``step``: 1 and multiples of the period."""
        return not self._light and (step == 1 or step % self.sample_every == 0)

    @torch.no_grad()
    def before_update(self, step: int) -> None:
        """Begin a step: note learning rates and update counters.

        :meth:`norms` does it; needed apart from it only where gradients come with the update alone,
        in an optimizer step that is given a closure.
        """
        self._prepared, self._parts, self._sample = step, [], None
        if self.is_sampled(step):
            self._rates = self._adam.rates()
            self._counters = self._adam.counters()
            self._parts.append(("counters_before", self._counters))

    @torch.no_grad()
    def norms(self, step: int, unscale: Tensor | None = None) -> GradNorms:
        """Measure the gradients, before clipping.

        Args:
            step: counted from 1.
            unscale: loss scale that the gradients still hold; the norms are divided by it, the
                gradients left alone.

        Raises:
            UsageError: if no parameter has a gradient, or one is sparse.
        """
        if self._prepared != step or any(name == "grad_norm_total" for name, _ in self._parts):
            self.before_update(step)
        gradients = [p.grad for p in self._parameters.tensors]
        if not any(g is not None for g in gradients):
            raise UsageError(
                f"no parameter has a gradient at step {step}: measure after loss.backward() and "
                "before optimizer.zero_grad()"
            )
        try:
            norms = self._parameters.norms(gradients)
        except NotImplementedError:
            raise UsageError(
                "signals are measured on dense gradients, got a sparse one: "
                "type nn.Embedding(..., sparse=False)"
            ) from None
        if unscale is not None:
            norms = norms / unscale
        total = torch.linalg.vector_norm(norms)
        found_inf = torch.isfinite(total).logical_not().to(torch.float32)
        if not self._light:
            self._parts.append(("grad_norm", norms))
        self._parts.append(("grad_norm_total", total))
        return GradNorms(total=total, found_inf=found_inf)

    @torch.no_grad()
    def after_update(self, step: int) -> None:
        """Measure the parameters and, at sampled steps, the optimizer's state.

        Call it before the gradients are dropped.
        """
        if self._prepared != step:
            raise ValueError(f"after_update of step {step} before its norms")
        if self._light:
            return
        self._parts.append(("param_norm", self._parameters.norms(self._parameters.tensors)))
        if not self.is_sampled(step):
            return
        counters = self._adam.counters()
        sample = self._adam.measure(self._counters, counters, self._rates)
        if sample is None:
            return
        self._sample = sample
        self._parts += [("counters_after", counters), *sample.parts()]
        if any(isinstance(rate, Tensor) for rate in sample.rates):
            device = self._parameters.device
            rates = [
                rate.to(device, torch.float32)
                if isinstance(rate, Tensor)
                else torch.full((), rate, device=device)
                for rate in sample.rates
            ]
            self._parts.append(("rates", torch.stack(rates)))

    @torch.no_grad()
    def record(
        self,
        step: int,
        attempt: int,
        values: Mapping[str, float | int | Tensor],
        sums: LossSums | Mapping[str, Tensor] | None = None,
        attention: Tensor | None = None,
        layers: Mapping[str, Tensor] | None = None,
    ) -> StepRecord | None:
        """Send this step's numbers on their way; take the previous step's record.

        Args:
            step: counted from 1.
            attempt: of the run.
            values: further scalars, the same on every rank. Host numbers stay exact; 0-d tensors on
                the device arrive with the rest, as int where the catalogue says integer. They
                replace what the meter found under that name.
            sums: sums over this rank's tokens; they become ``loss``, ``log_z``, ``log_z_abs_max``
                and ``z_loss`` of the global batch.
            attention: largest attention logit of each layer on this rank (layers,).
            layers: what else was measured of each layer on this rank (layers,), by signal: of
                ranks the mean, of names in ``_max`` the largest. The scalar is that over the
                layers. Every rank has the same names.

        Returns:
            The record of the step before, None at the first step and after :meth:`flush`.
        """
        if self._prepared not in (None, step):
            raise ValueError(f"step {self._prepared} was measured, got the record of step {step}")
        previous = self.flush()
        device = {name: v for name, v in values.items() if isinstance(v, Tensor)}
        parts, self._parts, self._prepared = self._parts, [], None
        if device:
            # Together they would be float32, in which a counter is exact to 2^24.
            exact = [v.detach().reshape(()).to(self._mailbox.dtype) for v in device.values()]
            parts.append(("values", torch.stack(exact)))
        named = pack(sums)
        parts += self._combined(named, attention)
        parts += self._of_layers(layers or {})
        sample, self._sample = self._sample, None
        self._mailbox.send(
            parts,
            Note(
                step=step,
                attempt=attempt,
                values={n: v for n, v in values.items() if not isinstance(v, Tensor)},
                device_values=tuple(device),
                sums=tuple(named),
                layers=tuple(layers or ()),
                hyper=() if sample is None else sample.hyper,
                rates=()
                if sample is None
                else tuple(float("nan") if isinstance(r, Tensor) else r for r in sample.rates),
            ),
        )
        return previous

    def flush(self) -> StepRecord | None:
        """The record that has not been handed out yet, if any; waits for the device."""
        message = self._mailbox.receive()
        return None if message is None else finish(*message, self._parameters)

    def arrived(self) -> StepRecord | None:
        """As :meth:`flush`, but None while it would have to wait for the device."""
        return self.flush() if self._mailbox.arrived else None

    def _of_layers(self, layers: Mapping[str, Tensor]) -> list[tuple[str, Tensor]]:
        """Vectors of all ranks' layers, to send."""
        if not layers:
            return []
        ordered = sorted(layers, key=is_maximum)
        vector = torch.cat(
            [layers[n].detach().reshape(-1).to(self._mailbox.dtype) for n in ordered]
        )
        means = sum(layers[name].numel() for name in ordered if not is_maximum(name))
        if self._group is not None:
            vector = combine(vector, means, self._group)
            vector[:means] /= dist.get_world_size(self._group)
        return list(
            zip(ordered, torch.split(vector, [layers[n].numel() for n in ordered]), strict=True)
        )

    def _combined(
        self, named: Mapping[str, Tensor], attention: Tensor | None
    ) -> list[tuple[str, Tensor]]:
        """Loss sums and attention maxima of all ranks, as vectors to send."""
        vectors = [number.detach().reshape(1) for number in named.values()]
        if attention is not None:
            vectors.append(attention.detach().reshape(-1))
        if not vectors:
            return []
        vector = torch.cat([v.to(self._mailbox.dtype) for v in vectors])
        if self._group is not None:
            vector = combine(vector, sum(name in SUMMED for name in named), self._group)
        parts = [("sums", vector[: len(named)]), ("attention_logit_max", vector[len(named) :])]
        return [(name, part) for name, part in parts if part.numel()]
