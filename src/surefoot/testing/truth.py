"""What is known of a run with a planted fault: when, what, how much it hurt, how far to rewind."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from surefoot.errors import UsageError

FORMAT = 1
"""Of the file of :func:`write_truths`; a newer one is refused by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The truth of one case of SpikeBench.

    Attributes:
        case: name, unique in its set.
        set: ``dev`` (for tuning) or ``test`` (other seeds and shapes).
        kind: what was planted, e.g. ``bit-flip-weight``; ``clean`` and look-alikes included.
        group: group of kinds, e.g. ``rate``; ``clean`` and ``look-alike`` for healthy runs.
        cause: name of the right hypothesis (:data:`surefoot.detect.evidence.CAUSES`); ``""`` for a
            run with nothing planted.
        accepted: further causes that count as right, e.g. the parent of a held-out kind.
        strength: ``weak``, ``medium`` or ``strong``; ``""`` where there is only one.
        seed: of weights and data order.
        shape: model and batch, e.g. ``L2-d32-h2-V512-T32-B8``.
        optimizer: optimizer, schedule and switches in words.
        twin: case of the clean run that is the same up to the injection; its own name if it is one.
        healthy: nothing to report: clean, look-alike, or planted without any effect (harmless).
        point: the fault is a point in time, so that an error of the onset means something.
        held_out: of a kind that nobody may tune to.
        injection_step: first faulty step; None for clean runs. Look-alikes have the step of their
            planned change.
        last_injection_step: last step at which the fault acts from outside.
        manifest_step: first step at which a signal leaves the spread of clean runs; None if none.
        manifest_signal: that signal, ``name`` or ``name@place``.
        loss_manifest_step: the same for the loss alone.
        harm_nats: mean loss above the twin's over the last 50 common steps.
        peak_nats: largest loss above the twin's.
        recovered: whether the loss came back into the clean spread for good; None if it never left.
        recovered_step: first step of that.
        checkpoint_every: steps between checkpoints.
        latest_good_checkpoint: newest checkpoint (of the faulty run) from which the remedy holds,
            found by rerun; None if it was not searched for, or none holds.
        steps: records of the case, the prefix that it shares with its twin included.
    """

    case: str
    set: str
    kind: str
    group: str
    cause: str
    accepted: tuple[str, ...] = ()
    strength: str = ""
    seed: int = 0
    shape: str = ""
    optimizer: str = ""
    twin: str = ""
    healthy: bool = False
    point: bool = False
    held_out: bool = False
    injection_step: int | None = None
    last_injection_step: int | None = None
    manifest_step: int | None = None
    manifest_signal: str | None = None
    loss_manifest_step: int | None = None
    harm_nats: float = 0.0
    peak_nats: float = 0.0
    recovered: bool | None = None
    recovered_step: int | None = None
    checkpoint_every: int = 25
    latest_good_checkpoint: int | None = None
    steps: int = 0

    @property
    def faulty(self) -> bool:
        """Whether there is something to detect."""
        return not self.healthy


def write_truths(path: Path, truths: Iterable[Truth]) -> None:
    """Write truths as one JSON file, a case a line; the file is replaced as a whole."""
    lines = [json.dumps(_plain(truth), allow_nan=False) for truth in truths]
    text = f'{{"format": {FORMAT}, "truths": [\n' + ",\n".join(lines) + "\n]}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".tmp")
    part.write_text(text, "utf-8")
    part.replace(path)


def read_truths(path: Path) -> list[Truth]:
    """Read the file of :func:`write_truths`; keys it does not know are passed over.

    Raises:
        UsageError: if the file is missing, no such file, or of a newer format.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
        version, entries = found["format"], found["truths"]
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path}: no file of truths, expected the keys format, truths") from None
    if version > FORMAT:
        raise UsageError(f"{path}: format {version}, this version of surefoot reads {FORMAT}")
    return [truth_of(entry) for entry in entries]


def truth_of(entry: dict[str, object]) -> Truth:
    """A truth from its JSON object; non-finite numbers are strings there."""
    known = {f.name: f for f in fields(Truth)}
    values: dict[str, object] = {}
    for name, value in entry.items():
        if name in known:
            values[name] = (
                tuple(value) if isinstance(value, Sequence) and name == "accepted" else value
            )
    for name in ("harm_nats", "peak_nats"):
        values[name] = float(values.get(name, 0.0))  # type: ignore[arg-type]
    return Truth(**values)  # type: ignore[arg-type]


def _plain(truth: Truth) -> dict[str, object]:
    values = asdict(truth)
    for name in ("harm_nats", "peak_nats"):
        number = values[name]
        values[name] = round(number, 5) if abs(number) < float("inf") else str(number)
    return values
