"""Reports: records in; terminal text, JSON or one self-contained HTML file out. Computes nothing.

::

    from rich.console import Console
    from surefoot.report import summary, to_json, write_html
    Console().print(summary(run, findings))            # terminal
    write_html(run, findings, "report.html")           # opens from file://, offline
    to_json("report", ["runs/a"], findings, summary=overview(run))   # of --format json
"""

from surefoot.report.asked import asked, asked_json
from surefoot.report.contract import json_schema, to_json
from surefoot.report.init_page import render_init_html, write_init_html
from surefoot.report.init_profile import init_json, init_summary
from surefoot.report.overview import overview
from surefoot.report.page import render_html, write_html
from surefoot.report.terminal import summary
from surefoot.report.text import plain, render_findings

__all__ = [
    "asked",
    "asked_json",
    "init_json",
    "init_summary",
    "json_schema",
    "overview",
    "plain",
    "render_findings",
    "render_html",
    "render_init_html",
    "summary",
    "to_json",
    "write_html",
    "write_init_html",
]
