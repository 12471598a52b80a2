"""Reading a run folder in any state: going on, killed, read-only, with foreign files in it."""

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from surefoot import runs
from surefoot.errors import RunFolderError
from surefoot.records import CheckpointInfo, Finding, to_json
from surefoot.runs import RunWriter


def span(rows, first, last, attempt=0):
    return rows.expected([(attempt, step) for step in range(first, last + 1)])


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: None, "no run folder at .*: expected a folder with spec.toml in it"),
        (lambda path: path.touch(), "no run folder at"),
        (lambda path: path.mkdir(), "is not a run folder: it has no spec.toml"),
    ],
)
def test_what_is_no_run_folder_is_refused(tmp_path, prepare, message):
    prepare(tmp_path / "run")
    for read in (runs.open, runs.all_attempts):
        with pytest.raises(RunFolderError, match=message):
            read(tmp_path / "run")
        with pytest.raises(RunFolderError, match=message):
            read(str(tmp_path / "run"))


def test_a_run_without_a_row_has_an_empty_table(make):
    make().close()
    writer = make("other")
    run = runs.open(writer.folder)
    assert run.signals.is_empty()
    assert run.signals.columns == ["step", "attempt"]
    assert run.problems == ()
    writer.close()


def test_nothing_is_written_by_reading(make, rows):
    writer = make(steps=9, compact_rows=4)
    rows.die(writer)
    with (writer.folder / "signals/journal").open("ab") as file:
        file.write(b"torn")
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in writer.folder.rglob("*")}
    with rows.killed_before(0) as done:
        run = runs.open(writer.folder)
        runs.all_attempts(writer.folder)
    assert done.operations == []
    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in writer.folder.rglob("*")} == before
    assert run.signals.height == 9


def test_a_read_only_folder_opens(make, rows):
    writer = make(steps=9, compact_rows=4)
    rows.die(writer)
    paths = [writer.folder, *writer.folder.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        run = runs.open(writer.folder)
    finally:
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert rows.frame_bits(run.signals) == span(rows, 1, 9)
    assert run.problems == ()


def test_each_file_may_be_lost_or_foreign_and_the_rest_is_read(make, rows, tmp_path):
    writer = make(steps=9, compact_rows=4)
    writer.close()
    for path in sorted(p for p in writer.folder.rglob("*") if p.is_file()):
        for harm in ("lost", "empty", "foreign", "folder"):
            folder = tmp_path / "harmed"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(writer.folder, folder)
            harmed = folder / path.relative_to(writer.folder)
            harmed.unlink()
            if harm == "empty":
                harmed.touch()
            elif harm == "foreign":
                harmed.write_bytes(os.urandom(300))
            elif harm == "folder":
                harmed.mkdir()
            run = runs.open(folder)
            found = rows.frame_bits(run.signals)
            everything = span(rows, 1, 9)
            if harmed.suffix == ".parquet":
                first, last = map(int, harmed.stem.split("-"))
                everything = {k: v for k, v in everything.items() if not first <= k[1] <= last}
            assert found == everything, (harmed, harm)
            told = harmed.name != "lock" and not (harmed.suffix == ".parquet" and harm == "lost")
            if harmed.suffix == ".parquet" and last < 9:  # no row behind it: nobody can know
                assert f"rows of steps {first} to {last} are missing" in run.problems
            if not (harmed.name == "events.jsonl" and harm == "empty"):
                assert any(harmed.name in text for text in run.problems) == told, (harmed, harm)


def test_a_whole_folder_lost(make, rows):
    writer = make(steps=3)
    writer.close()
    shutil.rmtree(writer.folder / "signals")
    run = runs.open(writer.folder)
    assert run.signals.is_empty()
    assert run.spec.name == "run"
    assert len(run.problems) == 2  # journal and places


def test_checkpoints_are_listed_with_their_status(make):
    writer = make()
    writer.close()
    root = writer.folder / "checkpoints"
    for step in (0, 100, 200, 1_234_567_890):
        (root / f"step-{step:09d}").mkdir(parents=True)
        (root / f"step-{step:09d}/manifest.json").touch()
    # Its own manifest prevails over an index that does not know of it.
    (root / "step-000000000/manifest.json").write_text('{"quarantine": "signal"}')
    (root / "step-000000300").mkdir()
    (root / ".step-000000400.tmp").mkdir()
    (root / "step-7").mkdir()
    entries = [
        {"step": 100, "path": "step-000000100", "status": "confirmed", "reason": None},
        {"step": 200, "path": "step-000000200", "status": "quarantined", "reason": "incident"},
        {"step": 300, "path": "step-000000300", "status": "confirmed", "reason": None},
    ]
    (root / "index.json").write_text(json.dumps({"format": 1, "checkpoints": entries}))
    run = runs.open(writer.folder)
    assert run.checkpoints == (
        CheckpointInfo(
            step=0, path=str(root / "step-000000000"), status="quarantined", reason="signal"
        ),
        CheckpointInfo(step=100, path=str(root / "step-000000100"), status="confirmed"),
        CheckpointInfo(
            step=200,
            path=str(root / "step-000000200"),
            status="quarantined",
            reason="incident",
        ),
        CheckpointInfo(step=1_234_567_890, path=str(root / "step-1234567890")),
    )
    assert set(run.problems) == {
        "checkpoints/step-000000300 has no manifest.json; ignored",
        "checkpoints/step-7 is no committed checkpoint; ignored",
    }


@pytest.mark.parametrize("text", ["{", "[]", '{"checkpoints": 3}', '{"checkpoints": [{}]}'])
def test_a_torn_index_leaves_checkpoints_provisional(make, text):
    writer = make()
    writer.close()
    (writer.folder / "checkpoints/step-000000100").mkdir(parents=True)
    (writer.folder / "checkpoints/step-000000100/manifest.json").touch()
    (writer.folder / "checkpoints/index.json").write_text(text)
    run = runs.open(writer.folder)
    assert [info.status for info in run.checkpoints] == ["provisional"]
    assert "checkpoints/index.json cannot be read" in run.problems[0]


def test_newer_places_are_refused_by_name(make):
    writer = make()
    writer.close()
    (writer.folder / "signals/places.json").write_text('{"format": 2, "signals": {}}')
    with pytest.raises(RunFolderError, match=r"places\.json: written by a newer surefoot"):
        runs.open(writer.folder)


def test_foreign_things_in_attempts_do_no_harm(make, rows):
    writer = make(steps=5)
    writer.close()
    RunWriter.resume(writer.folder, 3, rows.PLACES).close()
    (writer.folder / "attempts/notes").mkdir()
    (writer.folder / "attempts/0/000000009-000000010.parquet").write_bytes(b"PAR1")
    (writer.folder / "attempts/file").touch()
    assert rows.frame_bits(runs.all_attempts(writer.folder)) == span(rows, 1, 5)
    assert runs.open(writer.folder).problems == ()


def test_attempts_that_no_run_has_are_foreign(make, rows):
    writer = make(steps=5)
    writer.close()
    for name in ("99999999999", "2147483647", "007", "٣"):
        (writer.folder / "attempts" / name).mkdir(parents=True)
    with (writer.folder / "events.jsonl").open("a") as file:
        for attempt in (5_000_000_000, -1):
            file.write(json.dumps({"kind": "action", "step": 3, "attempt": attempt}) + "\n")
    told = (
        "attempts/2147483647: no run has that attempt; ignored",
        "attempts/99999999999: no run has that attempt; ignored",
        "events.jsonl line 2 is no event (no run has an attempt 5000000000); skipped",
        "events.jsonl line 3 is no event (no run has an attempt -1); skipped",
    )
    assert runs.open(writer.folder).problems == told
    assert rows.frame_bits(runs.all_attempts(writer.folder)) == span(rows, 1, 5)
    writer = RunWriter.resume(writer.folder, 3, rows.PLACES)
    assert writer.attempt == 1
    assert writer.problems == told
    writer.append(rows.make(1, 4))
    writer.close()
    assert runs.open(writer.folder).signals["attempt"].to_list() == [0, 0, 0, 1]


def test_a_file_in_the_place_of_attempts(make, rows):
    writer = make(steps=5)
    writer.close()
    (writer.folder / "attempts").touch()
    assert runs.open(writer.folder).problems == ("attempts is no folder; ignored",)
    with pytest.raises(RunFolderError, match=r"run/attempts is no folder.* move it away"):
        RunWriter.resume(writer.folder, 3, rows.PLACES)
    assert rows.frame_bits(runs.open(writer.folder).signals) == span(rows, 1, 5)
    writer = RunWriter.resume(writer.folder, 5, rows.PLACES)  # nothing is to be moved
    assert writer.problems == ("attempts is no folder; ignored",)
    writer.close()


def test_an_event_without_the_finding_it_should_hold_is_reported(make):
    writer = make()
    good = to_json(Finding(code="SPK001", name="x", severity="info"))
    for found in (good, 5, {"code": "SPK001"}, {**good, "severity": "fatal"}, None):
        writer.ledger.append("finding", step=7, finding=found)
    writer.ledger.append("finding", text="of another writer")
    writer.close()
    run = runs.open(writer.folder)
    assert len(run.events) == 7
    assert len(run.problems) == 4
    expected = "events.jsonl: the event of step 7 holds no finding (Finding: expected a table, got"
    assert run.problems[0] == f"{expected} 5); left out"


def test_readers_beside_a_writer_always_see_a_whole_history(make, rows, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    writer = make(compact_rows=3)
    last_done = [0]
    stop = threading.Event()
    failures: list[str] = []

    def read():
        while not stop.is_set():
            least = last_done[0]
            run = runs.open(writer.folder)
            steps = run.signals["step"].to_list()
            if steps != list(range(1, len(steps) + 1)) or len(steps) < least:
                failures.append(f"{least} rows were there, {steps} were read")
            if [p for p in run.problems if "torn" not in p and "cut short" not in p]:
                failures.append(str(run.problems))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for step in range(1, 130):
            writer.append(rows.make(0, step))
            last_done[0] = step
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    writer.close()
    assert failures == []
    assert rows.frame_bits(runs.open(writer.folder).signals) == span(rows, 1, 129)


def test_the_sketch_in_the_docstring_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = runs.__doc__
    code = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    scope: dict[str, object] = {}
    exec("\n".join(code[:-1]), scope)
    assert scope["run"].signals.row(0, named=True)["step"] == 1
    frame = eval(code[-1], {"polars": __import__("polars")})
    assert frame["step"].to_list() == [1]


def test_importing_it_loads_neither_polars_nor_torch(child):
    done = child("""
        import sys
        import surefoot.runs
        print([name for name in ("polars", "torch", "pydantic") if name in sys.modules])
    """)
    assert done.stdout == "[]\n", done.stderr


def test_names_of_the_package():
    assert len(set(runs.__all__)) == len(runs.__all__)
    assert all(hasattr(runs, name) for name in runs.__all__)
    assert Path(runs.__file__).is_file()
