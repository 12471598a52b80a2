"""Watch any training loop: the same signals and the same detector as surefoot's own trainer.

::

    watch = surefoot.watch(model, optimizer)
    for inputs, targets in batches:
        loss = loss_function(model(inputs), targets)
        loss.backward()
        optimizer.step()
        watch.loss(loss)
        verdict = watch.step()                   # a value: nothing acts unless you do
        for finding in verdict.findings:
            print(finding.code, finding.message)
        optimizer.zero_grad()

Gradients, learning rate and update are measured inside ``optimizer.step()``, through torch's hooks,
so that gradient scalers, schedulers and wrappers of the loop do not matter. Nothing waits for the
device; a step's numbers arrive with the next one, and so does the verdict on it.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.detect import LossDetector
from surefoot.errors import UsageError
from surefoot.protocols import Detector
from surefoot.records import Finding, StepRecord, Verdict
from surefoot.signals import Meter, peak_memory


def watch(
    model: nn.Module,
    optimizer: Optimizer,
    *,
    detector: Detector | None = None,
    sample_every: int = 20,
    process_group: dist.ProcessGroup | None = None,
) -> "Watch":
    """Watch the training of ``model`` by ``optimizer``.

    Args:
        model: any module; bare, compiled or in DistributedDataParallel.
        optimizer: any torch optimizer of its parameters, also inside accelerate's wrapper.
        detector: judges each step. Default: surefoot's LossDetector.
        sample_every: steps between the signals that cost more (update sizes, Adam's RMS).
        process_group: ranks over which losses are averaged; every one of them must then call
            :meth:`Watch.step`. None: this process's loss.

    Raises:
        UsageError: if the optimizer is not torch's or the model has nothing to measure.
    """
    inner: Any = optimizer
    while isinstance(getattr(inner, "optimizer", None), Optimizer):
        inner = inner.optimizer
    if not isinstance(inner, Optimizer):
        raise UsageError(
            f"watch takes a torch.optim.Optimizer, got {type(optimizer).__name__}: pass the "
            "optimizer that it wraps"
        )
    meter = Meter(model, inner, sample_every=sample_every, process_group=process_group)
    return Watch(model, inner, meter, LossDetector() if detector is None else detector)


class Watch:
    """Watches a loop; made by :func:`watch`.

    Attributes:
        record: signals of the step judged last, or None.
        verdict: on that step.
        places: for each per-place signal of ``record`` the names of its values, in order.
    """

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, meter: Meter, detector: Detector
    ) -> None:
        self.record: StepRecord | None = None
        self.verdict = Verdict(step=0, status="warming_up")
        self.places: Mapping[str, tuple[str, ...]] = meter.places
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._optimizer = optimizer
        self._meter = meter
        self._detector = detector
        self._step = 0
        self._loss: Tensor | None = None
        self._tokens: Tensor | None = None
        self._updated = False
        self._ever_updated = False
        self._during: dict[str, float | int | Tensor] = {}
        self._scale_back = False
        self._clock: float | None = None
        self._hooks = [
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
        ]

    def loss(self, loss: Tensor | float, tokens: Tensor | int | None = None) -> None:
        """Note the loss of a forward pass; several before one :meth:`step` are averaged.

        Args:
            loss: mean cross-entropy in nats, 0-d: without a loss scale, and not divided by the
                number of accumulated passes.
            tokens: how many tokens the mean is over, so that unequal passes and ranks are weighed
                right. Default: all weigh the same.
        """
        device = self._parameters[0].device
        with torch.no_grad():
            value = loss if isinstance(loss, Tensor) else torch.full((), loss, device=device)
            if value.numel() != 1:
                raise UsageError(
                    f"watch.loss takes one number, got a tensor of shape {tuple(value.shape)}: "
                    "type watch.loss(loss.mean())"
                )
            value = value.detach().reshape(()).to(device, torch.float32, non_blocking=True)
            weight = 1 if tokens is None else tokens
            if not isinstance(weight, Tensor):
                weight = torch.full((), float(weight), device=device)
            value = value * weight
            self._loss = value if self._loss is None else self._loss + value
            self._tokens = weight if self._tokens is None else self._tokens + weight

    def step(self, grad_norm: Tensor | float | None = None) -> Verdict:
        """Close the step: call it after ``optimizer.step()`` and before ``optimizer.zero_grad()``.

        Args:
            grad_norm: what ``clip_grad_norm_`` returned, if the loop clips: what the optimizer is
                given is already clipped. Per-parameter norms are scaled back by the same factor.

        Returns:
            The verdict on the step **before**, whose numbers have arrived by now; ``warming_up``
            with step 0 at the first.

        Raises:
            UsageError: if no ``optimizer.step()`` has been seen.
        """
        if not self._ever_updated:
            self._check_order()
        self._step += 1
        values = dict(self._during)
        if not self._updated:
            # A gradient scaler left the step out: the gradient was not finite.
            values["update_skipped"] = 1
        values["memory"] = peak_memory(self._parameters[0].device)
        now = time.perf_counter()
        if self._clock is not None:
            values["step_time"] = now - self._clock
        self._clock = now
        scaled_back, self._scale_back = self._scale_back, grad_norm is not None
        if grad_norm is not None:
            values["grad_norm"] = grad_norm
        sums = None
        if self._loss is not None and self._tokens is not None:
            sums = {"cross_entropy": self._loss, "tokens": self._tokens}
        record = self._meter.record(self._step, 0, values, sums=sums)
        self._loss = self._tokens = None
        self._updated, self._during = False, {}
        self._judge(record, scaled_back)
        return self.verdict

    def finish(self) -> tuple[Finding, ...]:
        """Judge the last step, stop watching, and tell the findings on it and on open incidents."""
        for hook in self._hooks:
            hook.remove()
        record = self._meter.flush()
        self._judge(record, self._scale_back)
        findings = () if record is None else self.verdict.findings
        return findings + self._detector.finish()

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values. The step in flight is judged first; waits for the device.

        The verdict on it is what the next :meth:`step` returns.
        """
        self._judge(self._meter.flush(), self._scale_back)
        return {"step": self._step, "detector": self._detector.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`."""
        self._meter.flush()
        self._step = int(state["step"])
        self._detector.load_state_dict(state["detector"])
        self.record, self.verdict = None, Verdict(step=self._step, status="warming_up")

    def _judge(self, record: StepRecord | None, scale_back: bool) -> None:
        if record is None:
            return
        self.record = _unclipped(record) if scale_back else record
        self.verdict = self._detector.update(self.record)

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Runs at the beginning of ``optimizer.step()``."""
        self._meter.before_update(self._step + 1)
        found_inf = getattr(optimizer, "found_inf", None)
        self._during = {
            "learning_rate": self._largest([group["lr"] for group in optimizer.param_groups]),
            "update_skipped": 0 if found_inf is None else found_inf.detach().clone().reshape(()),
        }
        if not _has_closure(args, kwargs):
            self._measure(getattr(optimizer, "grad_scale", None))

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Runs at the end of ``optimizer.step()``."""
        if _has_closure(args, kwargs):
            # The gradient was made within the step.
            self._measure(None)
        self._meter.after_update(self._step + 1)

    def _measure(self, unscale: Tensor | None) -> None:
        if any(p.grad is not None for p in self._parameters):
            self._meter.norms(self._step + 1, unscale=unscale)
            self._updated = self._ever_updated = True

    def _largest(self, rates: list[float | Tensor]) -> float | Tensor:
        numbers = [float(rate) for rate in rates if not isinstance(rate, Tensor)]
        tensors = [rate.detach().reshape(()).float() for rate in rates if isinstance(rate, Tensor)]
        if not tensors:
            return max(numbers)
        if numbers:
            tensors.append(torch.full((), max(numbers), device=tensors[0].device))
        return torch.stack(tensors).amax()

    def _check_order(self) -> None:
        """Raise if the loop is wired wrong; a gradient scaler may leave out the first steps."""
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        if not gradients or all(bool(torch.isfinite(g).all()) for g in gradients):
            raise UsageError(
                "watch.step() has seen no optimizer.step() with gradients: call loss.backward(), "
                "optimizer.step(), watch.step() and then optimizer.zero_grad(), with the optimizer "
                "that was given to watch()"
            )


def _has_closure(args: Any, kwargs: Any) -> bool:
    closure = args[1] if len(args) > 1 else kwargs.get("closure")
    return closure is not None


def _unclipped(record: StepRecord) -> StepRecord:
    """The record with per-parameter gradient norms that add up to the global one it was given."""
    norms = record.places.get("grad_norm")
    if norms is None:
        return record
    measured = float(np.sqrt(np.square(norms, dtype=np.float64).sum()))
    with np.errstate(all="ignore"):
        factor = np.float32(np.float64(record.values["grad_norm"]) / measured)
    if not np.isfinite(factor):
        return record
    return replace(record, places={**record.places, "grad_norm": norms * factor})
