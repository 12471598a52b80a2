"""What a run amounts to as JSON: the ``summary`` of ``surefoot report --format json``."""

from typing import Any

from surefoot.records import Run
from surefoot.report.facts import Point, facts


def overview(run: Run) -> dict[str, Any]:
    """The numbers of a run to name first, for :func:`surefoot.report.to_json`.

    ::

        to_json("report", ["runs/a"], findings, summary=overview(run))

    Args:
        run: any run, also an empty one.

    Returns:
        ``name``, ``status`` and ``status_detail``; ``step`` (of the newest row) and
        ``planned_steps``; ``loss`` with ``first``, ``last`` and ``best``, ``validation_loss`` with
        ``last`` and ``best``, each null or ``{"step", "value"}``, in nats; ``tokens`` consumed,
        ``tokens_per_second`` (median over the steps); ``checkpoints`` by step as
        ``{"step", "status", "reason"}``; ``problems``, a sentence each; ``reading``, how another
        trainer's log was read. What the run does not have is null.
    """
    known = facts(run)
    return {
        "name": run.name,
        "status": known.status.word,
        "status_detail": known.status.detail,
        "step": known.last_step,
        "planned_steps": known.planned_steps,
        "loss": {
            "first": _point(known.loss_first),
            "last": _point(known.loss_last),
            "best": _point(known.loss_best),
        },
        "validation_loss": {
            "last": _point(known.validation_last),
            "best": _point(known.validation_best),
        },
        "tokens": known.consumed_tokens,
        "tokens_per_second": known.tokens_per_second,
        "checkpoints": [
            {"step": info.step, "status": info.status, "reason": info.reason}
            for info in sorted(run.checkpoints, key=lambda info: info.step)
        ],
        "problems": list(run.problems),
        **({"reading": dict(run.reading)} if run.reading else {}),
    }


def _point(point: Point | None) -> dict[str, float] | None:
    return None if point is None else {"step": point.step, "value": point.value}
