"""Findings and numbers as words: stable plain text for terminals, logs and diffs.

Whatever comes from a run (names, messages, paths) goes through :func:`plain` first, so that no
escape sequence in a log can steer the terminal of the person who reads about it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any

from surefoot.records import SEVERITIES, Finding, Place

_CAUSES, _CLAUSES = 3, 4
"""Causes of a finding that are named, and clauses for and against the first of them."""


def plain(value: object) -> str:
    r"""``value`` as one line of printable text.

    White space is collapsed; control characters, text-direction marks and lone surrogates are shown
    as escapes (``\x1b``), never sent.
    """
    text = " ".join(str(value).split())
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def number(value: float | int | None, digits: int = 4) -> str:
    """A number for people: ``51,234``, ``3.142``, ``1.2e-05``, ``nan``; ``-`` for None."""
    if value is None:
        return "-"
    if math.isfinite(value) and (isinstance(value, int) or 1000 <= abs(value) < 1e15):
        return f"{round(value):,}"
    return f"{value:.{digits}g}"


def count(number_of: int, noun: str) -> str:
    """``1 step``, ``2 steps``, ``1,200 steps``."""
    return f"{number_of:,} {noun}" if number_of == 1 else f"{number_of:,} {noun}s"


def place_text(place: Place) -> str:
    """Where a finding is, e.g. ``steps 310 to 340 of attempt 1, signal loss``; "" if nowhere."""
    parts = []
    if place.steps is not None:
        first, last = place.steps
        steps = f"step {first}" if first == last else f"steps {first} to {last}"
        parts.append(steps + (f" of attempt {place.attempt}" if place.attempt else ""))
    if place.signal:
        parts.append(f"signal {plain(place.signal)}")
    if place.layer:
        parts.append(f"layer {plain(place.layer)}")
    if place.field:
        parts.append(f"field {plain(place.field)}")
    if place.file:
        parts.append(plain(place.file) + (f":{place.line}" if place.line is not None else ""))
    return ", ".join(parts)


def by_weight(findings: Iterable[Finding]) -> list[Finding]:
    """Errors first, then warnings, then the rest; within one severity by first step."""

    def key(finding: Finding) -> tuple[int, float]:
        steps = finding.place.steps
        return -SEVERITIES.index(finding.severity), steps[0] if steps else math.inf

    return sorted(findings, key=key)


def tally(findings: Iterable[Finding]) -> str:
    """``1 error, 2 warnings``, gravest first; ``no findings`` if there are none."""
    severities = [finding.severity for finding in findings]
    # "info" is short for "information", which has no plural.
    parts = [
        f"{severities.count(s)} info" if s == "info" else count(severities.count(s), s)
        for s in reversed(SEVERITIES)
        if s in severities
    ]
    return ", ".join(parts) or "no findings"


def heading(finding: Finding) -> str:
    """The first line of a finding: ``error SPK003 divergence: steps 310 to 340, signal loss``."""
    where = place_text(finding.place)
    run = f"run {plain(finding.place.run)}" if finding.place.run else ""
    places = ", ".join(part for part in (run, where) if part)
    head = f"{finding.severity} {plain(finding.code)} {plain(finding.name)}"
    return f"{head}: {places}" if places else head


def cause_lines(finding: Finding) -> list[tuple[str, str]]:
    """(mark, words) of the ranked causes of a finding, most likely first; [] if none were ranked.

    ::

        cause    data-batch 0.55, unknown 0.30, rate 0.15
        for      the loss rose by 2.1 nat in one record
        against  the gradient norm was normal
        decide   rerun the step with other samples from the same state
    """
    ranked = _ranked(finding.evidence.get("causes"))
    if not ranked:
        return []
    named = [f"{plain(item['cause'])} {float(item['share']):.2f}" for item in ranked[:_CAUSES]]
    first = ranked[0]
    lines = [("cause", ", ".join(named))]
    speaks = "missing" if first["cause"] == "unknown" else "for"
    for mark, key in ((speaks, "supports"), ("against", "contradicts")):
        told = [text for text in first.get(key) or () if text != finding.message]
        clauses = [plain(text) for text in told][:_CLAUSES]
        if clauses:
            lines.append((mark, "; ".join(clauses)))
    if first.get("experiment"):
        lines.append(("decide", plain(first["experiment"])))
    return lines


def _ranked(value: Any) -> list[Mapping[str, Any]]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [item for item in value if isinstance(item, Mapping) and {"cause", "share"} <= {*item}]


def render_findings(findings: Iterable[Finding], width: int = 80) -> str:
    """Findings as plain text: severity, code, place; message; what to do; sources.

    Args:
        findings: in any order; the gravest come first.
        width: columns to wrap at; a longer word (a path) is left whole, to be copied.

    Returns:
        Lines that end with a newline; ``no findings`` if there are none.
    """
    blocks = []
    for finding in by_weight(findings):
        lines = [_wrap(heading(finding), "", "    ", width)]
        if finding.message:
            lines.append(_wrap(plain(finding.message), "  ", "  ", width))
        for word, words in cause_lines(finding):
            mark = f"  {word:<8} "
            lines.append(_wrap(words, mark, " " * len(mark), width))
        for index, action in enumerate(finding.actions, 1):
            mark = f"  {index}. "
            lines.append(_wrap(plain(action), mark, " " * len(mark), width))
        if finding.references:
            known = "; ".join(plain(reference) for reference in finding.references)
            lines.append(_wrap(f"source: {known}", "  ", "    ", width))
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n" if blocks else "no findings\n"


def _wrap(text: str, first: str, rest: str, width: int) -> str:
    return fill(
        text,
        width=max(width, 20),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
