"""A model before its first step as one self-contained HTML file: its profile over the layers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite, log10
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.records import Finding
from surefoot.report import sections, tables
from surefoot.report.init_profile import about_findings, headline, shape_text, shown_columns
from surefoot.report.page import document
from surefoot.report.text import number, plain, tally

if TYPE_CHECKING:
    from surefoot.probe import InitProfile

Json = dict[str, Any]
_COLOURS = ("@series1", "@series2", "@series3")
_HEIGHT = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chart:
    """A chart over the layers.

    Attributes:
        key: its id in the page.
        title: its heading.
        about: what it shows.
        lines: field of a layer and label of each line.
        end: field of the profile that continues the first line behind the last layer.
        log: whether the axis is logarithmic where the values spread.
        level: value and label of a horizontal line.
    """

    key: str
    title: str
    about: str
    lines: tuple[tuple[str, str], ...]
    end: str | None = None
    log: bool = True
    level: tuple[float, str] | None = None


_CHARTS = (
    _Chart(
        key="stream",
        title="Residual stream",
        about="RMS of the stream that enters each layer, and of what its sub-layers add; near 1 "
        "and slowly growing is wanted",
        lines=(
            ("stream_rms", "stream"),
            ("attention_rms", "added by attention"),
            ("feed_forward_rms", "added by feed-forward"),
        ),
        end="stream_rms",
    ),
    _Chart(
        key="gradient",
        title="Gradient",
        about="norm of the loss's gradient with respect to the stream, and to the parameters of "
        "each layer; flat is wanted",
        lines=(("stream_gradient", "stream"), ("parameter_gradient", "parameters")),
        end="stream_gradient",
    ),
    _Chart(
        key="bounds",
        title="Upper bounds of the Jacobians",
        about="by how much the gradient may grow over each sub-layer at most (Takase et al. 2023, "
        "2312.16903); near 1 is wanted",
        lines=(("attention_bound", "attention"), ("feed_forward_bound", "feed-forward")),
        level=(1.0, "no growth"),
    ),
    _Chart(
        key="logits",
        title="Attention logits",
        about="standard deviation and largest magnitude of q·k as it enters the softmax",
        lines=(("logit_std", "standard deviation"), ("logit_max", "largest")),
    ),
    _Chart(
        key="entropy",
        title="Attention entropy",
        about="entropy over that of uniform attention, mean of the heads and the least of them; 1 "
        "is uniform, near 0 one token is looked at",
        lines=(("entropy", "mean"), ("entropy_min", "least head")),
        log=False,
    ),
)


def write_init_html(
    profile: "InitProfile",
    findings: Iterable[Finding],
    path: str | PathLike[str],
    not_checked: Iterable[Mapping[str, str]] = (),
) -> None:
    """Write :func:`render_init_html` to ``path``, whole or not at all.

    Raises:
        StorageError: the disk is full or refuses; an older file is untouched.
    """
    from surefoot.runs.durable import way_on, write_atomic

    with way_on("or write it elsewhere: --out PATH"):
        text = render_init_html(profile, findings, not_checked)
        write_atomic(Path(path), text.encode("utf-8"))


def render_init_html(
    profile: "InitProfile",
    findings: Iterable[Finding],
    not_checked: Iterable[Mapping[str, str]] = (),
) -> str:
    """A start as one HTML document: findings, charts over the layers, the table.

    Args:
        profile: what was measured.
        findings: what is told of it, in any order.
        not_checked: what could not be judged: ``code`` and what it ``needs``.
    """
    found = list(findings)
    drawn = {chart.key: spec for chart in _CHARTS if (spec := _figure(chart, profile)) is not None}
    charts = "".join(_markup(chart, profile) for chart in _CHARTS if chart.key in drawn)
    unchecked = [(entry["code"], entry["needs"]) for entry in not_checked]
    body = [
        sections.findings(found),
        *(f"<p class='muted'>{_text(line)}</p>" for line in about_findings(profile, found)),
        f"<section id='charts'><h2>Profile</h2>{charts}</section>",
        _table(profile),
        ""
        if not unchecked
        else "<section id='not-checked'><h2>Not checked</h2>"
        + tables.table("Rules that could not be applied", ("code", "needs"), unchecked)
        + "</section>",
    ]
    return document(
        title=f"start of {plain(profile.target)}",
        header=_header(profile, found),
        body=body,
        figures=drawn,
    )


def _header(profile: "InitProfile", findings: Sequence[Finding]) -> str:
    cards = [
        ("First loss (nats)", number(profile.loss), f"ln V {number(profile.ln_vocab)}"),
        ("Gradient growth", number(profile.gradient_growth, 3), "first layer over last"),
        ("Shortcut", number(profile.layers[0].stream_rms, 3), "RMS that enters the first layer"),
        ("Findings", str(len(findings)), tally(findings) if findings else "none"),
    ]
    facts = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(value)}<small>{_text(note)}</small></dd></div>"
        for name, value, note in cards
    )
    said = [profile.model, shape_text(profile), *profile.notes]
    notes = "".join(f"<p class='muted wrap'>{_text(line)}</p>" for line in said)
    return (
        f"<header><div class='title'><h1>{_text(profile.target)}</h1>"
        f"<span class='chip log'>before the first step</span></div>{notes}"
        f"<dl class='facts'>{facts}</dl></header>"
    )


def _table(profile: "InitProfile") -> str:
    columns = shown_columns(profile)
    rows = [
        (layer.layer, *(number(getattr(layer, field), 4) for field, _, _ in columns))
        for layer in profile.layers
    ]
    heads = ("layer", *(heading for _, heading, _ in columns))
    made = tables.table("Every layer, before the first step", heads, rows)
    meanings = tables.table("What the columns are", ("column", ""), [(h, m) for _, h, m in columns])
    whole = "".join(f"<li>{_text(line)}</li>" for line in headline(profile))
    return (
        f"<section id='layers'><h2>Layers</h2><ul>{whole}</ul>{made}<details><summary>Columns"
        f"</summary>{meanings}</details></section>"
    )


def _figure(chart: _Chart, profile: "InitProfile") -> Json | None:
    lines = [(label, _values(chart, field, profile)) for field, label in chart.lines]
    lines = [(label, values) for label, values in lines if any(y is not None for _, y in values)]
    if not lines:
        return None
    known = [y for _, values in lines for _, y in values if y is not None]
    positive = all(y > 0 for y in known)
    log = chart.log and positive and log10(max(known)) - log10(min(known)) > log10(4)
    data: list[Json] = [
        {
            "type": "scatter",
            "mode": "lines+markers" if len(values) <= 60 else "lines",
            "name": label,
            "x": [x for x, _ in values],
            "y": [y for _, y in values],
            "line": {"color": colour, "width": 1.5},
            "marker": {"color": colour, "size": 5},
            "hovertemplate": "%{y:.4~g}",
        }
        for (label, values), colour in zip(lines, _COLOURS, strict=False)
    ]
    last = len(profile.layers)
    if chart.level is not None:
        value, label = chart.level
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": label,
                "x": [0, last],
                "y": [value, value],
                "line": {"color": "@muted", "width": 1, "dash": "dash"},
                "hoverinfo": "skip",
            }
        )
    yaxis: Json = {"type": "log" if log else "linear"}
    if chart.key == "entropy":
        yaxis["range"] = [0, 1.05]
    return {
        "data": data,
        "layout": {
            "yaxis": yaxis,
            "xaxis": {
                "over": "layer",
                "range": [-0.5, last + 0.5],
                "unifiedhovertitle": {"text": "layer %{x}"},
            },
            "hovermode": "x unified",
            "showlegend": len(data) > 1,
            "shapes": [],
        },
        "height": _HEIGHT,
    }


def _values(chart: _Chart, field: str, profile: "InitProfile") -> list[tuple[int, float | None]]:
    """(layer, value) with None where there is none or it is not finite, and the end if there is."""
    found = [(layer.layer, getattr(layer, field)) for layer in profile.layers]
    if chart.end == field:
        found.append((len(profile.layers), getattr(profile, field)))
    return [(x, float(f"{y:.6g}") if y is not None and isfinite(y) else None) for x, y in found]


def _markup(chart: _Chart, profile: "InitProfile") -> str:
    words = []
    for field, label in chart.lines:
        values = [(x, y) for x, y in _values(chart, field, profile) if y is not None]
        if values:
            words.append(
                f"{label}: {number(values[0][1], 3)} first, {number(values[-1][1], 3)} last"
            )
    return (
        f"<figure aria-labelledby='title-{chart.key}'><h3 id='title-{chart.key}'>"
        f"{_text(chart.title)}</h3><p>{_text(chart.about)}</p>"
        f"<div class='chart' id='chart-{chart.key}' role='img' aria-labelledby='title-{chart.key}' "
        f"aria-describedby='caption-{chart.key}' style='min-height:{_HEIGHT}px'></div>"
        f"<figcaption id='caption-{chart.key}'>{_text('; '.join(words).capitalize())}.</figcaption>"
        "</figure>"
    )


def _text(value: object) -> str:
    return escape(plain(value))
