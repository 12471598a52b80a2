"""What happened when: findings, restarts and checkpoints as marks on the step axis."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from surefoot.records import CheckpointInfo, Finding, Run
from surefoot.report.facts import standing
from surefoot.report.text import by_weight, heading, plain

MOST = 300
"""Marks of one kind that are drawn; of more, the first and last and an even choice between."""

Json = dict[str, Any]

_SEVERITY_SYMBOLS = {"error": "x", "warning": "triangle-up", "info": "circle"}
# By how it stands; any other is provisional. Only what went wrong is red.
_CHECKPOINT_SYMBOLS = {
    "confirmed": "diamond",
    "quarantined": "x-thin",
    "resumable": "square-open",
}
_CHECKPOINT_COLOURS = {"confirmed": "@ok", "quarantined": "@error"}


def shapes(run: Run, findings: Iterable[Finding]) -> list[Json]:
    """Bands and lines behind every chart: the steps of findings, and restarts."""
    drawn: list[Json] = []
    # The gravest come first in the list and are drawn last, on top.
    for finding in reversed(chosen(by_weight(findings))):
        if finding.place.steps is not None:
            first, last = finding.place.steps
            colour = f"@{finding.severity}"
            drawn.append(_shape("rect", first - 0.5, last + 0.5, fillcolor=colour, opacity=0.12))
            drawn.append(_shape("line", first, first, line={"color": colour, "width": 1}))
    for step in _steps_of(run, "resumed"):
        line = {"color": "@muted", "width": 1, "dash": "dot"}
        drawn.append(_shape("line", step + 0.5, step + 0.5, line=line))
    return drawn


def lanes(run: Run, findings: Iterable[Finding]) -> list[tuple[str, Json]]:
    """Rows of symbols above the loss, from the top: name of the row, and its trace."""
    rows: list[tuple[str, Json]] = []
    located = [f for f in by_weight(findings) if f.place.steps is not None]
    if located:
        rows.append(("findings", _finding_marks(chosen(located))))
    if run.checkpoints:
        rows.append(("checkpoints", _checkpoint_marks(chosen(run.checkpoints))))
    if restarts := _steps_of(run, "resumed"):
        text = [f"resumed after step {step}" for step in restarts]
        rows.append(("restarts", _trace(restarts, text, "triangle-right", "@ink")))
    if skipped := _steps_of(run, "update_skipped"):
        text = [f"update {step} skipped" for step in skipped]
        rows.append(("skipped", _trace(skipped, text, "x-thin", "@error")))
    return rows


def chosen(items: Sequence[Any]) -> list[Any]:
    """All of ``items``, or an even choice of :data:`MOST` of them with both ends."""
    if len(items) <= MOST:
        return list(items)
    return [items[i * (len(items) - 1) // (MOST - 1)] for i in range(MOST)]


def _finding_marks(findings: Sequence[Finding]) -> Json:
    return _trace(
        [f.place.steps[0] for f in findings if f.place.steps],
        [_label(heading(f), f.message) for f in findings],
        [_SEVERITY_SYMBOLS[f.severity] for f in findings],
        [f"@{f.severity}" for f in findings],
    )


def _checkpoint_marks(infos: Sequence[CheckpointInfo]) -> Json:
    how = [standing(info) for info in infos]
    return _trace(
        [info.step for info in infos],
        [
            _label(f"checkpoint at step {info.step}: {stands.word}", stands.reason)
            for info, stands in zip(infos, how, strict=True)
        ],
        [_CHECKPOINT_SYMBOLS.get(stands.word, "diamond-open") for stands in how],
        [_CHECKPOINT_COLOURS.get(stands.word, "@muted") for stands in how],
    )


def _steps_of(run: Run, kind: str) -> list[int]:
    return chosen([e.step for e in run.events if e.kind == kind and e.step is not None])


def _label(head: str, body: str | None) -> str:
    """Hover text: plotly reads a little HTML in it, so what comes from a run is escaped."""
    head = escape(plain(head))
    return f"<b>{head}</b><br>{_broken(body)}" if body else f"<b>{head}</b>"


def _broken(text: str, width: int = 70) -> str:
    """``text`` escaped, in lines of about ``width`` characters, ten at most."""
    from textwrap import wrap

    lines = wrap(plain(text), width)
    shown = lines[:10] + (["…"] if len(lines) > 10 else [])
    return "<br>".join(escape(line) for line in shown)


def _trace(x: list[int], text: list[str], symbol: str | list[str], colour: str | list[str]) -> Json:
    line = {"width": 1.5, "color": colour}
    return {
        "type": "scatter",
        "mode": "markers",
        "x": x,
        "text": text,
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"symbol": symbol, "color": colour, "size": 9, "line": line},
        "showlegend": False,
        "cliponaxis": False,
    }


def _shape(kind: str, x0: float, x1: float, **style: Any) -> Json:
    place = {"xref": "x", "yref": "paper", "x0": x0, "x1": x1, "y0": 0, "y1": 1}
    return {"type": kind, "layer": "below", "line": {"width": 0}, **place, **style}
