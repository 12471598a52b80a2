"""The coordinate check: do activations and their updates keep their size as the width grows?"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surefoot.errors import UsageError

OUTPUT = "output"
"""Name of what the whole model gives, its logits."""

Table = tuple[tuple[float, ...], ...]
"""[step][width]; row 0 is before the first update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateCheck:
    """Mean absolute activations by width and step, and whether they depend on the width.

    Attributes:
        widths: those compared, ascending.
        sizes: mean |x| of each activation, by the name of its module; ``output`` is the model's.
        changes: mean |x - x before the first update| of each; row 0 is zero.
        tolerance: slopes of log size against log width up to this count as flat.
    """

    widths: tuple[int, ...]
    sizes: Mapping[str, Table]
    changes: Mapping[str, Table]
    tolerance: float

    def slope(self, row: Sequence[float]) -> float:
        """Least-squares slope of log size against log width; nan unless all are positive."""
        if not all(0 < size < math.inf for size in row):
            return math.nan
        logs = [math.log(width) for width in self.widths]
        values = [math.log(size) for size in row]
        centre, mean = sum(logs) / len(logs), sum(values) / len(values)
        above = sum((x - centre) * (y - mean) for x, y in zip(logs, values, strict=True))
        return above / sum((x - centre) ** 2 for x in logs)

    @property
    def failures(self) -> tuple[str, ...]:
        """What depends on the width, a sentence each, by step.

        Neither sizes nor changes may grow with the width. They may shrink as 1/sqrt(width), which
        is what averages of the random start do: the logits before the first update are of that
        kind. Faster means that a part stands still in wide models. What is not finite fails.
        """
        found: list[tuple[int, str]] = []
        for what, table in (("size", self.sizes), ("change", self.changes)):
            for name, rows in table.items():
                for step, row in enumerate(rows):
                    verb = self._verdict(row)
                    if verb:
                        listed = ", ".join(f"{size:.3g}" for size in row)
                        widths = ", ".join(map(str, self.widths))
                        found.append(
                            (step, f"step {step}, {what} of {name}: {verb} ({listed} at {widths})")
                        )
        return tuple(sentence for _, sentence in sorted(found, key=lambda entry: entry[0]))

    @property
    def passed(self) -> bool:
        """Whether nothing depends on the width."""
        return not self.failures

    def _verdict(self, row: Sequence[float]) -> str:
        if not all(map(math.isfinite, row)):
            return "not finite"
        slope = self.slope(row)
        if slope > self.tolerance:
            return f"grows with the width to the power {slope:.2f}"
        if slope < -0.5 - self.tolerance:
            return f"shrinks with the width to the power {slope:.2f}"
        return ""


def coordinate_check(
    make_model: Callable[[int], tuple[nn.Module, Mapping[str, float]]],
    widths: Sequence[int],
    *,
    steps: int = 4,
    rate: float = 1e-2,
    data: Sequence[Tensor],
    tolerance: float = 0.25,
) -> CoordinateCheck:
    """Train briefly at several widths and compare the size of every activation.

    Under muP neither the size of an activation nor its change by the updates depends on the width;
    standard parametrisation lets changes grow, and a muP done by half the logits (Yang et al. 2022,
    2203.03466). The repository microsoft/mup looks at sizes after some steps at a large rate; the
    changes show the same at any rate.

    Args:
        make_model: width to an initialised model and the factors on its learning rates
            (:func:`surefoot.init.rate_factors`; {} for none). The model gives logits (B, T, V), or
            an object with ``logits``, for tokens (B, T).
        widths: at least two, say 64 to 512.
        steps: updates by Adam.
        rate: learning rate, before the factors.
        data: token batches (B, T + 1), used in turn; activations are those of the first one.
        tolerance: slopes of log size against log width up to this count as flat.

    Raises:
        UsageError: if there are fewer than two widths, no data, or models differ in their modules.
    """
    widths = sorted(set(widths))
    if len(widths) < 2 or not data or steps < 1:
        raise UsageError(
            "a coordinate check needs two different widths, a batch and a step: got widths "
            f"{widths}, {len(data)} batches, {steps} steps"
        )
    runs = [_run(*make_model(width), steps, rate, data) for width in widths]
    names = list(runs[0][0])
    if any(list(measured) != names for run in runs for measured in run):
        raise UsageError("the models of a coordinate check must have the same modules at any width")

    def table(name: str, which: int) -> Table:
        return tuple(tuple(run[step][name][which] for run in runs) for step in range(steps + 1))

    return CoordinateCheck(
        widths=tuple(widths),
        sizes={name: table(name, 0) for name in names},
        changes={name: table(name, 1) for name in names},
        tolerance=tolerance,
    )


def _run(
    model: nn.Module,
    factors: Mapping[str, float],
    steps: int,
    rate: float,
    data: Sequence[Tensor],
) -> list[dict[str, tuple[float, float]]]:
    """Size and change of each activation before each update and after the last."""
    groups = [
        {"params": [parameter], "lr": rate * factors.get(name, 1.0)}
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    ]
    # eps far below any gradient: the size of Adam's step must not depend on the gradient's.
    optimizer = torch.optim.Adam(groups, betas=(0.9, 0.95), eps=1e-20)
    first = _activations(model, data[0])
    history = []
    for step in range(steps + 1):
        now = _activations(model, data[0])
        if list(now) != list(first):
            raise UsageError("the model calls other modules after an update than before it")
        history.append({name: _measured(x, first[name]) for name, x in now.items()})
        if step < steps:
            tokens = data[step % len(data)]
            model.train()
            logits = _logits(model(tokens[:, :-1])).float()
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return history


@torch.no_grad()
def _activations(model: nn.Module, tokens: Tensor) -> dict[str, Tensor]:
    """The output of every module, blocks with the residual stream among them, and of the model."""
    model.eval()
    seen: dict[str, Tensor] = {}
    with _recorded(model, seen):
        seen[OUTPUT] = _logits(model(tokens[:, :-1]))
    return seen


@contextmanager
def _recorded(model: nn.Module, seen: dict[str, Tensor]) -> Iterator[None]:
    def hook_for(name: str) -> Callable[[nn.Module, object, object], None]:
        def hook(module: nn.Module, args: object, output: object) -> None:
            if isinstance(output, Tensor) and output.is_floating_point():
                seen[name] = output

        return hook

    handles = [
        module.register_forward_hook(hook_for(name))
        for name, module in model.named_modules()
        if name
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _measured(now: Tensor, first: Tensor) -> tuple[float, float]:
    if now.shape != first.shape:  # as with experts, which read now more tokens, now fewer
        return now.abs().mean().item(), 0.0
    return now.abs().mean().item(), (now - first).abs().mean().item()


def _logits(output: object) -> Tensor:
    logits = getattr(output, "logits", output)
    if not isinstance(logits, Tensor):
        raise UsageError(f"expected a model that gives logits, got {type(output).__name__}")
    return logits
