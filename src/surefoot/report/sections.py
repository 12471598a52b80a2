"""The parts of the HTML page that say how a run went; every text of a run is escaped here."""

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from surefoot.records import Finding, Run
from surefoot.report.facts import Facts, Point, flat
from surefoot.report.tables import table, value_text
from surefoot.report.text import by_weight, cause_lines, count, number, place_text, plain, tally

if TYPE_CHECKING:
    from surefoot.report.figures import Figure
    from surefoot.report.panels import Panel

MOST_FINDINGS = 200
"""Findings and problems shown; of more, the rest is counted."""


def header(run: Run, known: Facts, findings: Sequence[Finding]) -> str:
    """Name, status and the numbers to know first."""
    if run.reading:  # another trainer's log has no ledger that could tell how it stands
        word, detail = "log", str(run.reading.get("title", ""))
    else:
        word, detail = known.status.word, known.status.detail
    shown = f" <span class='muted'>&ensp;{_text(detail)}</span>"
    path = f"<p class='muted wrap'>{_text(run.path)}</p>" if run.path else ""
    return (
        "<header><div class='title'>"
        f"<h1>{_text(run.name)}</h1>"
        f"<span class='chip {word}'>{word}</span>"
        f"{shown if detail else ''}</div>{path}"
        f"<dl class='facts'>{_facts(run, known, findings)}</dl></header>"
    )


def _facts(run: Run, known: Facts, findings: Sequence[Finding]) -> str:
    steps = known.span() if run.reading else known.progress()
    cards = [("Steps", steps, "; ".join(filter(None, (known.gaps, _restarts(known)))))]
    if known.loss_last is None:
        cards.append(("Loss", "not recorded", ""))
    else:
        notes = [_at("first", known.loss_first), _at("lowest", known.loss_best)]
        if known.not_finite:
            notes.append(f"not finite at {count(known.not_finite, 'step')}")
        cards.append(("Loss (nats)", number(known.loss_last.value), "; ".join(filter(None, notes))))
    if known.validation_last is not None:
        note = _at("lowest", known.validation_best)
        cards.append(("Validation loss (nats)", number(known.validation_last.value), note))
    if known.tokens_per_second is not None:
        tokens = known.consumed_tokens
        note = "median" + (f"; {number(tokens)} tokens so far" if tokens else "")
        cards.append(("Tokens per second", number(known.tokens_per_second), note))
    cards.append(("Findings", str(len(findings)), tally(findings) if findings else "none"))
    return "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(value)}<small>{_text(note)}</small></dd></div>"
        for name, value, note in cards
    )


def _restarts(known: Facts) -> str:
    return f"{count(len(known.restarts), 'restart')}" if known.restarts else ""


def _at(word: str, point: Point | None) -> str:
    return "" if point is None else f"{word} {number(point.value)} at step {point.step:,}"


def findings(found: Iterable[Finding]) -> str:
    """The findings in words, gravest first."""
    ordered = by_weight(found)
    if not ordered:
        content = "<p>None: the detectors that ran found nothing to report.</p>"
    else:
        content = "".join(_finding(finding) for finding in ordered[:MOST_FINDINGS])
    if len(ordered) > MOST_FINDINGS:
        content += f"<p>And {count(len(ordered) - MOST_FINDINGS, 'more finding')}.</p>"
    return f"<section id='findings'><h2>Findings</h2>{content}</section>"


def _finding(finding: Finding) -> str:
    severity = finding.severity
    where = place_text(finding.place)
    parts = [
        f"<h3><span class='severity {severity}'>{severity}</span> "
        f"<code>{_text(finding.code)}</code> {_text(finding.name)}</h3>"
    ]
    if where:
        parts.append(f"<p class='muted'>{_text(where)} {_show_button(finding)}</p>")
    if finding.message:
        parts.append(f"<p>{_text(finding.message)}</p>")
    causes = cause_lines(finding)
    if causes:
        terms = "".join(f"<dt>{_text(m)}</dt><dd>{_text(w)}</dd>" for m, w in causes)
        parts.append(f"<dl class='causes'>{terms}</dl>")
    if finding.actions:
        items = "".join(f"<li>{_text(action)}</li>" for action in finding.actions)
        parts.append(f"<ol>{items}</ol>")
    if finding.evidence:
        rested = {key: value for key, value in finding.evidence.items() if key != "causes"}
        rows = [(key, value_text(value)) for key, value in flat(rested).items()]
        numbers = table("The numbers it rests on", ("number", "value"), rows)
        parts.append(f"<details><summary>Evidence</summary>{numbers}</details>")
    if finding.references:
        known = "; ".join(_text(reference) for reference in finding.references)
        parts.append(f"<p class='muted'>Source: {known}</p>")
    return f"<article class='finding {severity}'>{''.join(parts)}</article>"


def _show_button(finding: Finding) -> str:
    """A button that zooms the charts to the steps of the finding, with room around them."""
    if finding.place.steps is None:
        return ""
    first, last = finding.place.steps
    room = max(20, last - first)
    steps = json.dumps([max(0, first - room), last + room])
    label = f"Show steps around {first} in the charts"
    return f"<button type='button' data-steps='{steps}' aria-label='{label}'>show</button>"


def problems(run: Run) -> str:
    """Files or lines that could not be used; "" if there are none."""
    if not run.problems:
        return ""
    shown = "".join(f"<li>{_text(problem)}</li>" for problem in run.problems[:MOST_FINDINGS])
    if len(run.problems) > MOST_FINDINGS:
        shown += f"<li>and {len(run.problems) - MOST_FINDINGS:,} more</li>"
    return (
        "<section id='problems'><h2>Problems while reading</h2>"
        f"<div class='problems'><ul>{shown}</ul></div></section>"
    )


def charts(known: Facts, drawn: Sequence["Figure"], missing: Sequence["Panel"]) -> str:
    """The charts, each with a heading, what it shows and the curve in words."""
    parts = ["<section id='charts'><h2>Charts</h2>"]
    if drawn:
        parts.append(_zoom(known))
        parts.append(
            "<noscript><p>The charts need JavaScript; their captions do not.</p></noscript>"
        )
    parts += [_figure(figure) for figure in drawn]
    if missing:
        names = ", ".join(panel.title for panel in missing)
        parts.append(f"<p class='muted'>Not recorded in this run: {_text(names)}.</p>")
    return "".join(parts) + "</section>"


def _zoom(known: Facts) -> str:
    first, last = known.first_step, known.last_step
    ends = f"min='{first}' max='{last}'"
    return (
        "<form class='zoom' id='zoom'>"
        f"<label>Steps <input type='number' name='first' {ends} value='{first}'></label>"
        f"<label>to <input type='number' name='last' {ends} value='{last}'></label>"
        "<button type='submit'>Zoom</button><button type='button' name='reset'>All steps</button>"
        "<span class='muted'>All charts move together. Drag to zoom, double-click for all.</span>"
        "</form>"
    )


def _figure(figure: "Figure") -> str:
    key = figure.panel.key
    return (
        f"<figure aria-labelledby='title-{key}'><h3 id='title-{key}'>{_text(figure.panel.title)}"
        f"</h3><p>{_text(figure.panel.about)}</p>"
        f"<div class='chart' id='chart-{key}' role='img' aria-labelledby='title-{key}' "
        f"aria-describedby='caption-{key}' style='min-height:{figure.height}px'></div>"
        f"<figcaption id='caption-{key}'>{_text(figure.caption)}</figcaption></figure>"
    )


def _text(value: object) -> str:
    return escape(plain(value))
