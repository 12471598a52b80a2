"""Watch: what a loop calls."""

import os
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from surefoot.errors import StorageError, UsageError, nearest
from surefoot.records import CATALOGUE, Finding, StepRecord, Verdict
from surefoot.signals import peak_memory
from surefoot.watching.folder import RunFolder
from surefoot.watching.hooks import AttentionHook, bare_model
from surefoot.watching.listener import Listener
from surefoot.watching.losses import Losses, signal_value
from surefoot.watching.recorder import Recorder
from surefoot.watching.wiring import Wiring

FORMAT = 1
"""Format of the state."""

_CHECKPOINTS = 64
"""Steps of checkpoints that are remembered, the newest."""


class Watch:
    """Watches a loop; made by :func:`surefoot.watching.watch`, also as a context manager.

    Attributes:
        steps: taken so far.
        record: signals of the step judged last, or None.
        verdict: on that step.
        findings: everything found so far.
        places: for each per-place signal of ``record`` the names of its values, in order.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        recorder: Recorder,
        *,
        folder: RunFolder | None = None,
        step: int | None = None,
        attention: bool = False,
        several: bool = False,
    ) -> None:
        self.findings: list[Finding] = []
        self.places: Mapping[str, tuple[str, ...]] = recorder.meter.places
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._device = self._parameters[0].device
        self._recorder = recorder
        self._folder = folder
        self._several = several
        self._losses = Losses(self._device)
        self._checkpoints: list[int] = []
        self._step = step or 0
        self._finished = False
        self._ever_loss = False
        self._wiring = Wiring(model)
        self._clock: float | None = None
        # Before any hook: what cannot be written leaves the loop as it was.
        if step is not None:
            recorder.restart(attempt=0, step=step)
        if folder is not None:
            if not folder.exists():
                recorder.writer = folder.create(self.places)
            elif step is not None:
                recorder.writer = folder.resume(step, self.places)
        bare = bare_model(model)
        can = attention and hasattr(bare, "measure_attention_logits")
        listener = Listener(recorder.meter, optimizer, self._parameters, self._step)
        self._listener = listener
        self._attention = AttentionHook(bare, lambda: listener.due) if can else None
        recorder.checkpoints = self._checkpoints.copy
        # What was measured of the last step is written down even if the loop fails.
        hooks = listener.hooks + ([] if self._attention is None else self._attention.hooks)
        self._end = weakref.finalize(self, _close, recorder, hooks, os.getpid())
        self._returned = recorder.verdict

    @property
    def steps(self) -> int:
        """Steps taken, those before a resume included."""
        return self._step

    @property
    def record(self) -> StepRecord | None:
        """Signals of the step judged last."""
        return self._recorder.record

    @property
    def verdict(self) -> Verdict:
        """On the step judged last."""
        return self._recorder.verdict

    # ---- what the loop says ---------------------------------------------------------------------

    def loss(self, loss: Tensor | float, tokens: Tensor | int | None = None) -> None:
        """Note the loss of a forward pass; several before one :meth:`step` are averaged.

        Args:
            loss: mean cross-entropy in nats, 0-d: without a loss scale, and not divided by the
                number of accumulated passes.
            tokens: how many tokens the mean is over, so that unequal passes and ranks are weighed
                right; a pass over 0 tokens does not count. Default: all weigh the same.
        """
        self._require_open()
        self._recorder.collect()  # the step before has left the device by now, most likely
        self._losses.add(loss, tokens)
        self._ever_loss = True

    def logits(
        self, logits: Tensor, targets: Tensor | None = None, ignore_index: int = -100
    ) -> None:
        """Note the output logits of a forward pass, for ``log_z``, ``z_loss``, ``log_z_abs_max``.

        At steps that are not sampled, and at level ``light``, this costs and does nothing.

        Args:
            logits: (..., V), of any floating dtype.
            targets: (...), only to leave out tokens that do not count. Default: all count.
            ignore_index: target of those that do not.
        """
        self._require_open()
        if self._listener.due:
            self._losses.add_logits(logits, targets, ignore_index)

    def step(
        self, grad_norm: Tensor | float | None = None, **signals: Tensor | float | int | None
    ) -> Verdict:
        """Close the step: call it after ``optimizer.step()``, before or after ``zero_grad()``.

        Args:
            grad_norm: what ``clip_grad_norm_`` returned, if the loop clips: what the optimizer is
                given is already clipped. Per-parameter norms are scaled back by the same factor.
            **signals: further scalars by their catalogue names, the same on every rank:
                ``batch_size``, ``data_phase`` (number of the planned data mixture),
                ``consumed_samples``, ``validation_loss``, ``loss_scale``...

        Returns:
            The verdict on the step **before**, whose numbers have arrived by now; ``warming_up``
            with step 0 at the first.

        Raises:
            UsageError: if no ``optimizer.step()`` has been seen, or a signal is not known.
        """
        self._require_open()
        told = self._told(signals)
        self._wiring.check(
            self._step,
            began=self._listener.began,
            updated=self._listener.updated,
            idle=self._ever_loss and not self._losses.told,
        )
        sums, tokens = self._losses.take()
        values = self._values(grad_norm, tokens) | told
        self._step += 1
        attention = None if self._attention is None else self._attention.take()
        self._listener.begin(self._step + 1)
        self._heed(self._recorder.step(self._step, values, sums=sums, attention=attention))
        self._returned = self.verdict
        return self.verdict

    def saved(self) -> None:
        """Say that a checkpoint of the state after the last :meth:`step` is on the disk.

        Findings then name it as the step to go back to. The order is: ``watch.state_dict()``, save
        it with the model, and this.
        """
        self._require_open()
        self._checkpoints.append(self._step)
        del self._checkpoints[:-_CHECKPOINTS]
        if self._recorder.writer is not None:
            self._recorder.writer.ledger.append("checkpoint", step=self._step, quarantine=None)

    def finish(self) -> tuple[Finding, ...]:
        """Judge the last step, stop watching, and tell the findings on it and on open incidents."""
        if self._finished:
            return ()
        self._heed(self._recorder.settle())
        last = () if self.verdict is self._returned else self.verdict.findings
        still = self._recorder.finish()
        self.findings += still
        if self._recorder.writer is not None:
            self._recorder.writer.ledger.append("finished", step=self._step)
        self._leave()
        return last + still

    def __enter__(self) -> "Watch":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.finish()
            return
        writer = self._recorder.writer
        if writer is not None:
            told = f"{type(error).__name__}: {error}"[:500]
            kind_of_end = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            # A disk that is full is not to hide the error that ended the loop.
            with suppress(StorageError):
                writer.ledger.append(kind_of_end, step=self._step, error=told)
        self._leave()

    # ---- state ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values: save it with the model and the optimizer.

        The step in flight is judged first, its verdict is what the next :meth:`step` returns; rows
        of the run folder are durable when this returns. Waits for the device.
        """
        self._require_open()
        self._heed(self._recorder.settle())
        if self._recorder.writer is not None:
            self._recorder.writer.flush()
        return {
            "format": FORMAT,
            "step": self._step,
            "attempt": self._recorder.attempt,
            "checkpoints": list(self._checkpoints),
            "detector": self._recorder.detector.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of :meth:`state_dict`, as a new attempt of the run.

        Also in a loop that goes on, to go back: rows behind that step move to ``attempts/`` of the
        run folder.

        Raises:
            UsageError: if it is not such a state, or one of another detector.
            RunFolderError: if the run folder cannot be gone on with.
        """
        self._require_open(begun=False)
        if not isinstance(state, Mapping) or state.get("format") != FORMAT:
            raise UsageError(
                "watch.load_state_dict takes what watch.state_dict() gave, of format "
                f"{FORMAT}, got {_kind(state)}"
            )
        step = int(state["step"])
        self._heed(self._recorder.settle())
        try:
            self._recorder.detector.load_state_dict(state["detector"])
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(
                f"the state of step {step} is of another detector ({error}): without it, type "
                f"surefoot.watch(..., resume_at={step})"
            ) from None
        self._recorder.restart(attempt=int(state["attempt"]) + 1, step=step)
        if self._folder is not None:
            self._go_on(self._folder, step)
        self._step = step
        self._checkpoints[:] = [int(k) for k in state["checkpoints"]]
        self._losses.clear()
        self._listener.begin(step + 1)
        self._clock = None
        self._returned = self.verdict

    def __getstate__(self) -> Any:
        raise TypeError(
            "a Watch is not copied or pickled, as it holds hooks and a run folder: save "
            "watch.state_dict() and call surefoot.watch on the copy"
        )

    def _go_on(self, folder: RunFolder, step: int) -> None:
        """Write on after ``step``; a folder that was made just now has nothing to go back to."""
        writer = self._recorder.writer
        if writer is None or writer.last_step > 0:
            self._recorder.writer = None
            if writer is not None:
                writer.close()
            self._recorder.writer = folder.resume(step, self.places)

    # ---- the step -------------------------------------------------------------------------------

    def _values(
        self, grad_norm: Tensor | float | None, tokens: Tensor | None
    ) -> dict[str, float | int | Tensor]:
        """Scalars that the hooks and the clock give."""
        values = dict(self._listener.values)
        if not self._listener.updated:
            # A gradient scaler left the step out: the gradient was not finite.
            values["update_skipped"] = 1
        values["memory"] = peak_memory(self._device)
        now = time.perf_counter()
        if self._clock is not None:
            values["step_time"] = now - self._clock
        self._clock = now
        if grad_norm is not None:
            values["grad_norm"] = signal_value("grad_norm", grad_norm, self._device)
        if tokens is not None and not self._several:
            values["tokens"] = tokens
        return values

    def _told(
        self, signals: Mapping[str, Tensor | float | int | None]
    ) -> dict[str, float | int | Tensor]:
        """What the loop itself says of a step; None says nothing."""
        values: dict[str, float | int | Tensor] = {}
        for name, value in signals.items():
            if name not in CATALOGUE:
                raise UsageError(
                    f"watch.step({name}=...): no signal {name!r}{nearest(name, list(CATALOGUE))}"
                )
            if value is not None:
                values[name] = signal_value(name, value, self._device)
        return values

    def _heed(self, verdict: Verdict | None) -> None:
        if verdict is not None:
            self.findings += verdict.findings

    def _require_open(self, begun: bool = True) -> None:
        if self._finished:
            raise UsageError("watch.finish() was called: call surefoot.watch again to go on")
        if begun and self._folder is not None and self._recorder.writer is None:
            raise self._folder.refuse()

    def _leave(self) -> None:
        """Let go of the loop, the model and the run folder."""
        self._finished = True
        self._end()


def _close(recorder: Recorder, hooks: list[RemovableHandle], process: int) -> None:
    # A forked child has a copy of all this, and the run is its parent's.
    if os.getpid() == process:
        for hook in hooks:
            hook.remove()
        recorder.close()


def _kind(state: Any) -> str:
    if isinstance(state, Mapping):
        return f"one with the keys {sorted(map(str, state))[:6]}"
    return type(state).__name__
