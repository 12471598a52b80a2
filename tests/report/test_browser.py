"""The page in a real browser: it draws, and its policy stops nothing that it needs."""

import html as entities
import re
import shutil
import subprocess

import pytest

from surefoot.report import write_html

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
]


def _open(path, tmp_path):
    command = [
        BROWSER,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=15000",
        "--dump-dom",
        path.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, complaints


def test_every_chart_is_drawn_and_the_console_is_quiet(make_run, finding, tmp_path):
    path = tmp_path / "report.html"
    write_html(make_run(), [finding], path)
    dom, complaints = _open(path, tmp_path)
    assert complaints == []
    assert 'data-drawn="true"' in dom
    assert len(re.findall(r'class="chart js-plotly-plot"', dom)) == 8
    # No button that sends the chart away, as plotly's own bar has one.
    assert set(re.findall(r'data-title="([^"]*)"', dom)) == {
        "Zoom",
        "Pan",
        "Zoom in",
        "Zoom out",
        "Reset axes",
        "Download plot as a PNG",
    }


@pytest.mark.parametrize(
    "odd_run",
    ["no rows", "one row of NaN", "only zeros", "broken places", "huge"],
    indirect=True,
)
def test_odd_runs_are_drawn(odd_run, finding, tmp_path):
    path = tmp_path / "report.html"
    write_html(odd_run, [finding], path)
    dom, complaints = _open(path, tmp_path)
    assert complaints == []
    assert 'data-drawn="true"' in dom


def test_markup_in_names_is_shown_as_text(make_run, tmp_path):
    hostile = "<img src=x onerror=document.title='owned'>"
    run = make_run(60, 1, name=hostile, places={"grad_norm": (hostile,) * 12})
    path = tmp_path / "report.html"
    write_html(run, [], path)
    dom, complaints = _open(path, tmp_path)
    assert complaints == []
    assert entities.unescape(re.search(r"<title>(.*?)</title>", dom)[1]).startswith(hostile)
    assert "<img" not in dom.split("<script")[0]
