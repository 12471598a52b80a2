import base64
import errno
import hashlib
import json
import os
import re
import time
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from surefoot.errors import StorageError
from surefoot.records import CheckpointInfo, Event, Finding, Place, Source, TrainSpec
from surefoot.report import render_html, write_html

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&{}${title}\x1b[31m\udcff"


class _Page(HTMLParser):
    """What a browser would find: elements, text, scripts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.scripts, self.words, self.in_script = [], [], [], False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
            self.in_script = True

    def handle_endtag(self, tag):
        self.in_script = False

    def handle_data(self, data):
        if self.in_script:
            self.scripts[-1] += data
        else:
            self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).split())

    @property
    def figures(self):
        return json.loads(self.scripts[0], parse_constant=pytest.fail)

    @property
    def policy(self):
        return next(a["content"] for t, a in self.elements if "http-equiv" in a)


@pytest.fixture(scope="module")
def evil_findings():
    place = Place(run=EVIL, steps=(441, 500), signal=EVIL, layer=EVIL, field=EVIL, file=EVIL)
    return [
        Finding(
            code=EVIL,
            name=EVIL,
            severity="error",
            place=place,
            evidence={EVIL: EVIL, "n": float("nan"), "list": [EVIL]},
            message=EVIL,
            actions=(EVIL,),
            references=(EVIL,),
        )
    ]


def _evil(make_run):
    return make_run(
        60,
        2,
        name=EVIL,
        path=EVIL,
        spec=TrainSpec(
            name=EVIL,
            options={EVIL: {EVIL: EVIL}},
            sources={"name": Source(kind="recipe", file=EVIL, line=3, flag=EVIL)},
        ),
        environment={EVIL: EVIL, "nested": {EVIL: [EVIL]}},
        events=(Event(kind=EVIL, time=EVIL, data={EVIL: EVIL}),),
        checkpoints=(CheckpointInfo(step=1, path=EVIL, status=EVIL, reason=EVIL),),
        problems=(EVIL,),
        places={"grad_norm": (EVIL,) * 21, "adam_rms": (EVIL,) * 21},
    )


def test_says_what_matters_first_in_words(make_run, finding):
    page = _Page(render_html(make_run(path="runs/trial"), [finding]))
    text = page.text
    for words in (
        "trial",
        "finished",
        "at step 500",
        "500 of 500",
        finding.message,
        *finding.actions,
        *finding.references,
        "steps 310 to 340 of attempt 1, signal loss",
        "optimizer.learning_rate",
        "--set",
        "recipe recipes/stdlib-1m.toml:7",
        "evaluation.every",
        "torch",
        "2.13.0",
        "cpu.threads",
        "Not recorded in this run: Update to weight ratio.",
    ):
        assert words in text, words
    assert text.index("SPK003") < text.index("Charts") < text.index("Recipe")


def test_a_stop_on_request_and_gaps_are_said_in_words(make_run):
    run = make_run(
        events=(Event(kind="interrupted", step=500, data={"signal": 2}),),
        checkpoints=(CheckpointInfo(step=500, path="c", status="quarantined", reason="signal"),),
        problems=("rows of steps 5 to 8 are missing",),
    )
    text = _Page(render_html(run, [])).text
    assert "stopped on request (SIGINT) at step 500; go on with --resume" in text
    assert "resumable: saved when the run was stopped on request" in text
    assert "quarantined:" not in text
    assert "500 of 500rows of steps 5 to 8 are missing" in text  # on the card
    assert text.count("rows of steps 5 to 8 are missing") == 2


def test_every_chart_has_its_figure_heading_and_words(make_run):
    page = _Page(render_html(make_run(), []))
    charts = [a for t, a in page.elements if a.get("class") == "chart"]
    ids = {a["id"] for _, a in page.elements if "id" in a}
    assert [a["id"] for a in charts] == [f"chart-{key}" for key in page.figures]
    assert len(charts) == 8
    for chart in charts:
        assert {chart["aria-labelledby"], chart["aria-describedby"]} <= ids
    assert len(ids) == sum("id" in a for _, a in page.elements), "an id is used twice"


def test_requests_nothing(make_run, finding):
    text = render_html(make_run(), [finding])
    page = _Page(text)
    for tag, attributes in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "video", "audio")
        for name in ("src", "data", "action", "poster", "background", "srcset"):
            assert name not in attributes, (tag, name)
        assert attributes.get("href", "#").startswith("#")
    style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
    assert "url(" not in style
    assert "@import" not in style
    own = page.scripts[2]
    assert not re.search(r"https?:|fetch\(|XMLHttp|import\(|WebSocket|sendBeacon", own)
    # And the browser is told to refuse whatever might try, also from within the bundle.
    assert "default-src 'none'" in page.policy
    assert not re.search(r"connect-src|https?:|\*|unsafe-eval", page.policy)


def test_the_policy_admits_the_two_scripts_of_the_page_only(make_run):
    page = _Page(render_html(make_run(), []))
    figures, *scripts = page.scripts
    assert json.loads(figures)
    admitted = re.search(r"script-src ([^;]*)", page.policy)[1].split()
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert admitted == [f"'sha256-{digest}'" for digest in hashes]
    assert not any(name.startswith("on") for _, a in page.elements for name in a)


def test_hostile_texts_are_shown_and_do_nothing(make_run, evil_findings):
    text = render_html(_evil(make_run), evil_findings)
    page, tame = _Page(text), _Page(render_html(make_run(60, 2), []))
    assert len(page.scripts) == 3
    assert page.scripts[1:] == tame.scripts[1:]
    assert "<" not in page.scripts[0]
    assert not any(name.startswith("on") for _, a in page.elements for name in a)
    assert {t for t, _ in page.elements} - {"article", "ol", "ul", "li", "p"} <= {
        t for t, _ in tame.elements
    }
    assert "img" not in {t for t, _ in page.elements}
    assert page.text.count("alert(1)") > 20
    assert "${title}" in page.text  # a placeholder in a value is a value
    assert "\x1b" not in text
    text.encode("utf-8")
    names = page.figures["grad_norm_places"]["data"][0]["y"]
    assert names[0].startswith("&lt;/script&gt;")


def test_odd_runs_have_a_page(odd_run, finding):
    page = _Page(render_html(odd_run, [finding]))
    assert "SPK003" in page.text
    assert page.figures is not None


def test_a_run_of_which_nothing_is_known(make_run):
    run = make_run(1, 1, events=(), checkpoints=(), environment={}, spec=TrainSpec())
    text = _Page(render_html(run, [])).text
    assert "Not known for this run." in text
    assert "Not recorded." in text
    assert "None: the detectors that ran found nothing to report." in text


def test_many_findings_and_events_are_counted_not_poured_out(make_run, finding):
    events = tuple(Event(kind="update_skipped", step=k) for k in range(5000))
    text = render_html(make_run(events=events, problems=("p",) * 1000), [finding] * 1000)
    assert "And 800 more findings." in text
    assert "the last 400 of 5,000 events" in text
    assert "and 800 more" in text
    assert len(text) < 3e6


def test_the_same_run_gives_the_same_page(make_run, finding):
    assert render_html(make_run(), [finding]) == render_html(make_run(), [finding])


def test_100000_steps_and_60_places_are_small_and_quick(make_run, finding, tmp_path):
    run = make_run(100_000, 7)
    assert len(run.places["grad_norm"]) >= 60
    path = tmp_path / "report.html"
    began = time.process_time()
    write_html(run, [finding], path)
    assert time.process_time() - began < 5
    assert path.stat().st_size < 6e6


def test_a_full_disk_leaves_the_older_report(make_run, finding, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    write_html(make_run(20, 1), [], path)
    older = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError, match="disk is full"):
        write_html(make_run(20, 1), [finding], path)
    assert path.read_bytes() == older
    assert os.listdir(tmp_path) == ["report.html"]


def test_the_bundle_is_the_one_described_beside_it():
    assets = files("surefoot.report").joinpath("assets")
    bundle = assets.joinpath("plotly-cartesian.min.js").read_bytes()
    readme = assets.joinpath("README.md").read_text("utf-8")
    version = re.search(rb"plotly.js \(cartesian - minified\) v([\d.]+)", bundle[:200])[1].decode()
    assert f"plotly.js {version}," in readme
    assert hashlib.sha256(bundle).hexdigest() in readme
    assert "MIT License" in assets.joinpath("plotly-cartesian.LICENSE.txt").read_text("utf-8")
    # What a script element cannot hold, and what the parser would change under the hash.
    assert b"</script" not in bundle.lower()
    assert b"<!--" not in bundle
    assert b"\r" not in bundle
