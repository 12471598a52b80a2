"""The tables of the HTML page: checkpoints, recipe, environment, ledger."""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from surefoot.records import Run, Source, to_json
from surefoot.report.facts import flat, standing
from surefoot.report.reading import reading_rows
from surefoot.report.text import count, plain

MOST_EVENTS = 400
"""Events shown; of more, the rest is counted."""


def checkpoints(run: Run) -> str:
    """The checkpoints by step, newest first; "" if there are none."""
    if not run.checkpoints:
        return ""
    rows = [
        (f"{info.step:,}", standing(info), info.path)
        for info in sorted(run.checkpoints, key=lambda info: info.step, reverse=True)
    ]
    made = table("Newest first", ("step", "status", "folder"), rows)
    return f"<section id='checkpoints'><h2>Checkpoints</h2>{made}</section>"


def reading(run: Run) -> str:
    """How another trainer's log was read; "" for a run folder of surefoot."""
    rows = reading_rows(run)
    if not rows:
        return ""
    made = table("What the log was taken for, and what of it was used", ("what", ""), rows)
    return f"<section id='reading'><h2>How it was read</h2>{made}</section>"


def recipe(run: Run) -> str:
    """What the run was asked to do, and who said so, by section."""
    stated = dict(run.spec.stated())
    for path, value in flat(run.spec.options).items():
        stated.setdefault(path, value)
    if not stated:
        return "<section id='recipe'><h2>Recipe</h2><p>Not known for this run.</p></section>"
    bodies = []
    groups: dict[str, list[str]] = {}
    for path in stated:
        section = path.partition(".")[0] if "." in path else "run"
        groups.setdefault(section, []).append(path)
    for section, paths in groups.items():
        rows = "".join(
            _recipe_row(path, stated[path], run.spec.sources.get(path)) for path in paths
        )
        bodies.append(
            "<tbody class='section'>"
            f"<tr><th colspan='3' scope='rowgroup'>{_text(section)}</th></tr>{rows}</tbody>"
        )
    return (
        "<section id='recipe'><h2>Recipe</h2><div class='scroll'><table>"
        "<caption>Every resolved value; bold: stated by the recipe or a flag</caption>"
        "<thead><tr><th scope='col'>field</th><th scope='col'>value</th><th scope='col'>from</th>"
        f"</tr></thead>{''.join(bodies)}</table></div></section>"
    )


def _recipe_row(path: str, value: Any, source: Source | None) -> str:
    mark = " class='stated'" if source is not None and source.kind != "default" else ""
    return (
        f"<tr{mark}><th scope='row'><code>{_text(path)}</code></th>"
        f"<td>{_text(value_text(value))}</td><td class='muted'>{_text(_source(source))}</td></tr>"
    )


def _source(source: Source | None) -> str:
    if source is None:
        return "derived"
    if source.flag is not None:
        return source.flag
    where = source.file or ""
    if source.file and source.line is not None:
        where = f"{source.file}:{source.line}"
    return f"{source.kind} {where}".strip()


def environment(run: Run) -> str:
    """Versions, devices and flags as found at run time."""
    rows = [(key, value_text(value)) for key, value in flat(run.environment).items()]
    if not rows:
        return "<section id='environment'><h2>Environment</h2><p>Not recorded.</p></section>"
    made = table("As found when the run started", ("what", "value"), rows)
    return f"<section id='environment'><h2>Environment</h2>{made}</section>"


def ledger(run: Run) -> str:
    """The events, folded away; "" if there are none."""
    if not run.events:
        return ""
    shown = run.events[-MOST_EVENTS:]
    rows = [
        (
            "" if event.step is None else f"{event.step:,}",
            event.kind,
            event.time or "",
            value_text(event.data) if event.data else "",
        )
        for event in shown
    ]
    total = count(len(run.events), "event")
    named = total if len(shown) == len(run.events) else f"the last {len(shown)} of {total}"
    made = table(named, ("step", "event", "time", "data"), rows)
    return (
        f"<section id='ledger'><h2>Ledger</h2><details><summary>{named}</summary>{made}"
        "</details></section>"
    )


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table whose first column names its rows; cells are escaped."""
    top = "".join(f"<th scope='col'>{_text(head)}</th>" for head in heads)
    body = "".join(
        f"<tr><th scope='row'>{_text(first)}</th>"
        + "".join(f"<td>{_text(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f"<div class='scroll'><table><caption>{_text(caption)}</caption>"
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def value_text(value: object) -> str:
    """A value as people write it; lists and tables as JSON."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple | Mapping):
        return json.dumps(to_json(value), ensure_ascii=False)
    return str(value)


def _text(value: object) -> str:
    return escape(plain(value))
