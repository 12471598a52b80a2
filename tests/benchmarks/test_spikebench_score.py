"""SpikeBench's command: runs, resumes, renders; and what lies around it (logs, packages, plot)."""

import itertools
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from surefoot.records import StepRecord
from surefoot.testing.match import Alarm
from surefoot.testing.truth import Truth

SPIKEBENCH = Path(__file__).parents[2] / "benchmarks" / "spikebench"
NAMES = ("contestants", "corpus", "peers", "plot", "render", "runner", "synthetic")


@pytest.fixture(scope="module")
def bench():
    """The modules beside the command, by name."""
    sys.path.insert(0, str(SPIKEBENCH))
    try:
        yield {name: __import__(name) for name in NAMES}
    finally:
        sys.path.remove(str(SPIKEBENCH))


def truth(**changes):
    values = {
        "case": "c", "set": "dev", "kind": "bit-flip", "group": "hardware", "cause": "hardware",
        "injection_step": 300, "manifest_step": 300, "loss_manifest_step": 300, "steps": 400,
        **changes,
    }  # fmt: skip
    return Truth(**values)


# ------------------------------------------------------------------------------------- contestants


class Spike:
    """Two hundred healthy steps, then one record at 9 nats with a large gradient."""

    truth = truth()
    vocab_size = 512
    places = {"grad_norm": ("a", "b")}  # noqa: RUF012

    def records(self):
        for step in range(1, 401):
            wave = 0.01 * math.sin(7 * step)
            loss = 3.0 + wave + (6.0 if step == 300 else 0.0)
            norm = 1.0 + wave + (40.0 if step == 300 else 0.0)
            values = {"loss": loss, "grad_norm": norm, "learning_rate": 1e-3}
            yield StepRecord(step=step, values=values)


def test_online_and_offline_agree_on_a_plain_spike(bench):
    case = Spike()
    records = list(case.records())
    online = bench["contestants"].online(case, records)
    offline = bench["contestants"].offline(case, records)
    assert [alarm.step for alarm in online.alarms] == [300]
    assert [alarm.step for alarm in offline.alarms] == [300]
    assert offline.alarms[0].recovered is True


def test_a_run_made_of_a_case_holds_its_numbers(bench):
    import numpy as np

    row = np.array([1.0, math.nan], np.float32)
    records = [
        StepRecord(step=1, values={"loss": 3.0}),
        StepRecord(step=2, attempt=1, values={"grad_norm": math.nan}, places={"grad_norm": row}),
    ]
    run = bench["contestants"].as_run(Spike(), records)
    assert run.signals["loss"].to_list() == [3.0, None]
    assert run.signals["attempt"].to_list() == [0, 1]
    assert run.signals["grad_norm@places"].to_list()[0] is None
    assert run.places == {"grad_norm": ("a", "b")}


def test_a_baseline_that_watches_nothing_recorded_is_not_able(bench):
    rows = {row.name: row for row in bench["contestants"].all_contestants()}
    records = list(Spike().records())
    assert not rows["Levanter update-norm"].run(Spike(), records).able
    found = rows["OLMo-core skip-step"].run(Spike(), records)
    assert found.able
    assert [alarm.step for alarm in found.alarms] == [300]


def test_what_is_done_is_not_done_again_unless_code_or_case_changed(bench, tmp_path, monkeypatch):
    runner = bench["runner"]
    calls = []

    def row(digest):
        def run(case, records):
            calls.append(digest)
            return bench["contestants"].Raised([Alarm(step=3, causes=("rate",))], 0.5)

        return bench["contestants"].Contestant("mine", run, digest)

    (tmp_path / "s").mkdir()
    loss = 1.0

    def load(name, index):
        return Spike(), [StepRecord(step=1, values={"loss": loss})]

    def once(digest):
        monkeypatch.setattr(runner, "all_contestants", lambda: [row(digest)])
        return runner.run_case(load, "s", 0, tmp_path, ("mine",))

    first, again = once("a"), once("a")
    assert calls == ["a"]
    assert again.raised == first.raised
    assert once("b").raised["mine"].alarms[0].causes == ("rate",)
    loss = 2.0
    once("b")
    assert calls == ["a", "b", "b"]
    (kept,) = (tmp_path / "s").iterdir()
    kept.write_text("torn")
    once("b")
    assert calls == ["a", "b", "b", "b"]
    assert json.loads(kept.read_text())["rows"]["mine"]["digest"] == "b"


# --------------------------------------------------------------------------------------- the tables


def test_a_table_shows_what_was_measured_and_a_dash_for_what_was_not(bench):
    from surefoot.testing.match import judge

    found = judge(truth(), [Alarm(step=302, onset=301, causes=("hardware",))])
    rows = [
        bench["render"].Row("own", [found], micros=12.34, has_causes=True, has_ends=True),
        bench["render"].Row("blind", [judge(truth(), [])]),
    ]
    head, _, own, blind = bench["render"].main_table(rows, {})
    cells = [cell.strip() for cell in own.strip("|").split("|")]
    assert len(cells) == len(head.strip("|").split("|"))
    assert cells[:2] == ["own", "1.000 (0.02 to 1.00)"]
    assert cells[6] == "2 (2 to 2)"
    assert cells[-1] == "12.3"
    assert "| 0.00 | – | 0.00 (" in blind  # no alarm at all has no precision
    group = bench["render"].group_table(rows)
    assert group[2] == "| own | **1.00** |"
    assert group[3] == "| blind | 0.00 |"
    assert "hardware / bit-flip | 1/1 | 0/1" in bench["render"].kind_table(rows)[2]


def test_the_picture_is_well_formed_and_holds_every_detector(bench):
    from xml.etree import ElementTree

    points = [
        bench["plot"].Point("own <1>", 0.0, 0.97, (0.9, 1.0), own=True),
        bench["plot"].Point("loud & often", 730.0, 0.4, (0.3, 0.5)),
        bench["plot"].Point("not scored", math.nan, 0.4, (0.3, 0.5)),
    ]
    root = ElementTree.fromstring(bench["plot"].recall_plot(points, "title", (0.5, 0.97)))
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert {"own <1>", "loud & often"} <= set(texts)
    assert "not scored" not in texts
    circles = [node for node in root.iter() if node.tag.endswith("circle")]
    assert float(circles[0].get("cy")) < float(circles[1].get("cy"))  # the higher recall is above
    assert all(0 < float(node.get("cx")) < bench["plot"].WIDTH for node in circles)


# ------------------------------------------------------------------------------------- public logs


def log(bench, **changes):
    values = {"path": "x", "events": ((100, 110),), "unsure": ((300, 300),), **changes}
    return bench["corpus"].Label(**values)


@pytest.mark.parametrize(
    ("alarm", "found", "false"),
    [
        (Alarm(step=104), 1, ()),
        (Alarm(step=95), 1, ()),  # one record of 5 steps before
        (Alarm(step=90), 0, (90,)),
        (Alarm(step=90, last=101), 1, (90,)),  # it cried too early, and was still crying
        (Alarm(step=110 + 20 * 5), 1, ()),
        (Alarm(step=115 + 20 * 5), 0, (215,)),
        (Alarm(step=305), 0, ()),
        (Alarm(step=500, whole_run=True), 1, ()),
    ],
)
def test_alarms_on_a_log_are_matched_with_its_events(bench, alarm, found, false):
    tally = bench["corpus"].tally(log(bench), [alarm], range(5, 505, 5))
    assert (tally.found, tally.events, tally.false) == (found, 1, false)
    assert tally.records == 100 - 3


def test_labels_are_complete_and_of_sense(bench):
    labels = bench["corpus"].labels()
    assert len({label.path for label in labels}) == len(labels) >= 40
    for label in labels:
        spans = [*label.events, *label.unsure]
        assert all(first <= last for first, last in spans), label.path
        events = sorted(label.events)
        assert all(a[1] < b[0] for a, b in itertools.pairwise(events)), label.path


def test_the_logs_have_the_steps_of_their_labels(bench, monkeypatch):
    folder = Path(__file__).parents[3] / "shared" / "corpus"
    if not folder.is_dir():
        pytest.skip("the public logs are not beside this checkout")
    corpus = bench["corpus"]
    monkeypatch.setenv(corpus.VARIABLE, str(folder))
    corpus.present.cache_clear()
    short = [index for index, label in enumerate(corpus.present()) if "bigscience" in label.path]
    assert short
    for index in short:
        case, rows = corpus.load("corpus", index)
        steps = {record.step for record in rows}
        assert all(first in steps for first, _ in case.label.events), case.label.path
    corpus.present.cache_clear()


# ---------------------------------------------------------------------------------------- packages


def test_reports_of_the_packages_become_alarms(bench):
    reports = [
        {"check": "loss_spike", "severity": "warning", "steps": [310, 311, 250]},
        {"check": "divergence", "severity": "error", "steps": []},
        {"check": "stagnation", "severity": "warning", "steps": []},
    ]
    alarms = bench["peers"].alarms(reports, truth())
    assert [(alarm.step, alarm.whole_run) for alarm in alarms] == [
        (250, False),
        (310, False),
        (400, True),
    ]


def test_the_export_has_the_columns_that_they_read(bench, tmp_path):
    records = [
        StepRecord(step=1, values={"loss": 3.0, "log_z": 1.0}),
        StepRecord(step=2, values={"loss": math.nan, "grad_norm": 0.5}),
    ]
    bench["peers"].export(tmp_path / "run.csv", records)
    assert (tmp_path / "run.csv").read_text().splitlines() == [
        "step,loss,grad_norm",
        "1,3.0,",
        "2,nan,0.5",
    ]


def test_without_an_environment_of_theirs_the_packages_have_no_row(bench, monkeypatch):
    monkeypatch.delenv(bench["peers"].VARIABLE, raising=False)
    assert bench["contestants"].peer_contestants() == []
    monkeypatch.setenv(bench["peers"].VARIABLE, "/no/such/python")
    assert bench["contestants"].peer_contestants() == []


# ------------------------------------------------------------------------------------ the command


def command(*arguments):
    return subprocess.run(
        [sys.executable, str(SPIKEBENCH / "score.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_quick_form_writes_a_table_of_every_row(tmp_path):
    done = command(
        "--set", "synthetic", "--quick", "--jobs", "1", "--work", str(tmp_path / "work"),
        "--only", "surefoot, loss and norm only", "--only", "FlagScale",
        "--out", str(tmp_path / "R.md"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "R.md").read_text("utf-8")
    assert text == done.stdout.rstrip("\n") + "\n" or text in done.stdout
    assert "| surefoot, loss and norm only |" in text
    assert "| spike / spike +1 | 1/1 | 1/1 |" in text
    assert "| non-finite / one NaN | 1/1 | 0/1 |" in text


def test_a_set_that_is_not_there_is_one_line_that_says_how_to_make_it(tmp_path):
    done = command("--set", "nosuch", "--no-synthetic", "--work", str(tmp_path))
    assert done.returncode == 2
    assert "generate.py --set nosuch" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_figures_of_surefoot_are_never_those_of_another_row(bench):
    # With --only FlagScale there are no figures of surefoot, and none may be shown under its name.
    sys.path.insert(0, str(SPIKEBENCH))
    try:
        import sections
    finally:
        sys.path.remove(str(SPIKEBENCH))
    raised = {"FlagScale": bench["contestants"].Raised([Alarm(step=300)], 0.1)}
    done = [bench["runner"].Done(truth(), list(range(1, 401)), raised)]
    text = "\n".join(sections.stored_sections(done, {}))
    assert "| FlagScale | 1.000 (0.02 to 1.00) |" in text
    assert "figure of surefoot online" not in text
    assert "surefoot online |" not in text
