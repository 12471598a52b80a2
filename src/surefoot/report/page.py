"""One HTML file that holds everything it shows: opens from ``file://``, offline, light and dark.

The page's Content-Security-Policy forbids every request and every script but the two embedded
here, by their hashes. So nothing that a run's texts might smuggle in can run or call home.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

from surefoot.records import Finding, Run
from surefoot.report import sections, tables
from surefoot.report.facts import facts
from surefoot.report.text import plain


def write_html(run: Run, findings: Iterable[Finding], path: str | PathLike[str]) -> None:
    """Write the report of ``run`` to ``path``, whole or not at all.

    Args:
        run: any run, also an empty one.
        findings: what is told of it, in any order.
        path: the file; an older one is replaced.

    Raises:
        StorageError: the disk is full or refuses; an older file is untouched.
    """
    from surefoot.runs.durable import way_on, write_atomic

    with way_on(f"or write it elsewhere: surefoot report {run.path or 'RUN'} --out PATH"):
        write_atomic(Path(path), render_html(run, findings).encode("utf-8"))


def render_html(run: Run, findings: Iterable[Finding]) -> str:
    """The report of ``run`` as one HTML document. A run of 10^5 steps stays under 6 MB."""
    from surefoot.report.figures import figures

    findings = list(findings)
    known = facts(run)
    drawn, missing = figures(run, findings)
    body = [
        sections.findings(findings),
        sections.problems(run),
        sections.charts(known, drawn, missing),
        tables.reading(run),
        tables.checkpoints(run),
        tables.recipe(run),
        tables.environment(run),
        tables.ledger(run),
    ]
    return document(
        title=plain(run.name),
        header=sections.header(run, known, findings),
        body=body,
        figures={figure.panel.key: {**figure.spec, "height": figure.height} for figure in drawn},
    )


def document(
    *, title: str, header: str, body: Iterable[str], figures: Mapping[str, Mapping[str, Any]]
) -> str:
    """A whole page: markup that is escaped already, within the frame and the policy of all pages.

    Args:
        title: of the window, not yet escaped.
        header: markup of its head.
        body: markup of each section; empty ones are left out.
        figures: key of a chart to its ``data``, ``layout`` and ``height``.
    """
    from surefoot import __version__

    bundle, script = _asset("plotly-cartesian.min.js"), _asset("page.js")
    return Template(_asset("page.html")).substitute(
        policy=escape(_policy(bundle, script)),
        version=escape(__version__),
        title=f"{escape(title)}: surefoot report",
        style=_asset("page.css"),
        header=header,
        body="\n".join(part for part in body if part),
        figures=_embedded(figures),
        bundle=bundle,
        script=script,
    )


def _embedded(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """The figures as strict JSON that cannot end its script element."""
    text = json.dumps(figures, allow_nan=False, separators=(",", ":"))
    # In JSON, "<" stands in strings only; escaped there, no "</script" or "<!--" is left.
    return text.replace("<", "\\u003c")


def _policy(*scripts: str) -> str:
    hashes = " ".join(
        f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return files("surefoot.report").joinpath("assets", name).read_text("utf-8")
