"""Creating, appending, flushing, resuming: what is written is what is read, bit for bit."""

import fcntl
import json
import os
import threading

import numpy as np
import polars as pl
import pytest

from surefoot import runs
from surefoot.errors import RunFolderError, StorageError
from surefoot.records import CATALOGUE, StepRecord, TrainSpec
from surefoot.runs import RunWriter
from surefoot.runs.lock import is_held
from surefoot.runs.places import read_places


def keys(*spans):
    return [(attempt, step) for attempt, first, last in spans for step in range(first, last + 1)]


def test_rows_come_back_bit_for_bit_from_journal_and_segments(make, rows):
    writer = make(steps=20, compact_rows=8)
    # 16 rows are in two segments, 4 in the journal; nothing was flushed.
    assert len(list((writer.folder / "signals").glob("*.parquet"))) == 2
    run = runs.open(writer.folder)
    assert rows.frame_bits(run.signals) == rows.expected(keys((0, 1, 20)))
    assert run.problems == ()
    writer.flush()
    run = runs.open(writer.folder)
    assert rows.frame_bits(run.signals) == rows.expected(keys((0, 1, 20)))
    assert run.signals["step"].to_list() == list(range(1, 21))
    assert run.places == {k: tuple(v) for k, v in rows.PLACES.items()}
    assert run.environment == {"python": "3.11"}
    assert run.spec == TrainSpec(name="run")
    assert run.name == "run"
    assert run.problems == ()
    writer.close()


def test_columns_have_the_types_of_the_catalogue_and_only_what_was_measured(make, rows):
    with make(steps=7) as writer:
        writer.flush()
    signals = runs.open(writer.folder).signals
    assert dict(signals.schema) == {
        "step": pl.Int64,
        "attempt": pl.Int32,
        "loss": pl.Float32,
        "log_z": pl.Float32,
        "consumed_samples": pl.Int64,
        "validation_loss": pl.Float32,
        "grad_norm@places": pl.List(pl.Float32),
        "update_rms@places": pl.List(pl.Float32),
    }
    assert signals["validation_loss"].null_count() == 5
    assert signals["update_rms@places"].null_count() == 5


def test_plain_polars_reads_all_segments_though_signals_were_sampled(make, rows):
    writer = make(steps=2)
    writer.flush()  # no validation_loss, no update_rms yet
    for step in range(3, 8):
        writer.append(rows.make(0, step))
    writer.flush()
    writer.append(rows.make(0, 8))  # only in the journal
    assert len(list((writer.folder / "signals").glob("*.parquet"))) == 2
    frame = pl.read_parquet(writer.folder / "signals/*.parquet")
    frame = frame.unique(["attempt", "step"]).sort("step")
    assert frame["step"].to_list() == [1, 2, 3, 4, 5, 6, 7]
    assert set(CATALOGUE) <= set(frame.columns)
    assert frame["validation_loss"].drop_nulls().to_list() == [3000.0, 6000.0]
    writer.close()


def test_uncatalogued_signals_are_float32_and_kept(make):
    with make() as writer:
        writer.append(StepRecord(step=1, values={"mine": 0.1}))
        writer.append(StepRecord(step=2, values={"loss": 2.0, "other": 3}))
    signals = runs.open(writer.folder).signals
    assert signals["mine"].to_list() == [float(np.float32(0.1)), None]
    assert signals["other"].to_list() == [None, 3.0]


def test_a_number_beyond_float32_is_stored_as_infinite(make):
    with make() as writer:
        writer.append(StepRecord(step=1, values={"loss": 1e39, "log_z": -1e300}))
    assert runs.open(writer.folder).signals.select("loss", "log_z").row(0) == (np.inf, -np.inf)


def test_flush_empties_the_journal_and_is_idle_without_rows(make):
    writer = make(steps=3)
    journal = writer.folder / "signals/journal"
    assert journal.stat().st_size > 16
    writer.flush()
    assert journal.stat().st_size == 16
    segments = sorted(writer.folder.glob("signals/*.parquet"))
    writer.flush()
    assert sorted(writer.folder.glob("signals/*.parquet")) == segments
    assert [path.name for path in segments] == ["000000001-000000003.parquet"]
    writer.close()


def test_resume_moves_later_rows_to_attempts_and_numbers_the_attempt(make, rows):
    writer = make(steps=10, compact_rows=4)  # 1-4, 5-8, journal 9-10
    rows.die(writer)
    writer = RunWriter.resume(writer.folder, 6, rows.PLACES)
    assert writer.attempt == 1
    for step in range(7, 10):
        writer.append(rows.make(1, step))
    run = runs.open(writer.folder)
    assert rows.frame_bits(run.signals) == rows.expected(keys((0, 1, 6), (1, 7, 9)))
    assert run.problems == ()
    everything = runs.all_attempts(writer.folder)
    assert rows.frame_bits(everything) == rows.expected(keys((0, 1, 10), (1, 7, 9)))
    assert everything.select("attempt", "step").rows() == keys((0, 1, 10), (1, 7, 9))
    writer.close()
    assert [p.name for p in (writer.folder / "attempts/0").iterdir()] == [
        "000000007-000000010.parquet"
    ]


def test_resume_twice_goes_back_behind_an_earlier_attempt(make, rows):
    writer = make(steps=10)
    writer.close()
    writer = RunWriter.resume(writer.folder, 6, rows.PLACES)
    for step in range(7, 9):
        writer.append(rows.make(1, step))
    writer.close()
    writer = RunWriter.resume(writer.folder, 3, rows.PLACES)
    assert writer.attempt == 2
    writer.append(rows.make(2, 4))
    writer.close()
    run = runs.open(writer.folder)
    assert rows.frame_bits(run.signals) == rows.expected(keys((0, 1, 3), (2, 4, 4)))
    everything = rows.frame_bits(runs.all_attempts(writer.folder))
    assert everything == rows.expected(keys((0, 1, 10), (1, 7, 8), (2, 4, 4)))


def test_resume_at_step_0_and_at_the_last_step(make, rows):
    writer = make(steps=5)
    writer.close()
    writer = RunWriter.resume(writer.folder, 5, rows.PLACES)
    assert not (writer.folder / "attempts").exists()
    writer.close()
    writer = RunWriter.resume(writer.folder, 0, rows.PLACES)
    assert writer.attempt == 2
    assert runs.open(writer.folder).signals.is_empty()
    assert rows.frame_bits(runs.all_attempts(writer.folder)) == rows.expected(keys((0, 1, 5)))
    writer.close()


def test_an_attempt_without_rows_still_counts(make, rows):
    writer = make(steps=5)
    for attempt in (1, 2, 3):
        rows.die(writer)
        writer = RunWriter.resume(writer.folder, 5, rows.PLACES)
        assert writer.attempt == attempt
    events = runs.open(writer.folder).events
    assert [(e.kind, e.attempt, e.step) for e in events] == [
        ("started", 0, 0),
        ("resumed", 1, 5),
        ("resumed", 2, 5),
        ("resumed", 3, 5),
    ]
    writer.close()


def test_attempts_are_numbered_on_when_the_ledger_is_gone(make, rows):
    writer = make(steps=5)
    rows.die(writer)
    writer = RunWriter.resume(writer.folder, 3, rows.PLACES)
    writer.append(rows.make(1, 4))
    rows.die(writer)
    (writer.folder / "events.jsonl").unlink()
    writer = RunWriter.resume(writer.folder, 3, rows.PLACES)
    assert writer.attempt == 2
    writer.close()
    everything = rows.frame_bits(runs.all_attempts(writer.folder))
    assert everything == rows.expected(keys((0, 1, 5), (1, 4, 4)))


def test_resumed_says_what_was_moved_and_cut(make, rows):
    writer = make(steps=5)
    rows.die(writer)
    with (writer.folder / "signals/journal").open("ab") as file:
        file.write(b"\x02torn")
    writer = RunWriter.resume(writer.folder, 3, rows.PLACES)
    event = runs.open(writer.folder).events[-1]
    assert event.kind == "resumed"
    assert event.data["rows_moved"] == 2
    assert event.data["last_row"] == 3
    assert event.data["torn_bytes"] == 5
    assert "torn at byte" in event.data["problems"][0]
    assert (writer.folder / "attempts/0/journal.torn").read_bytes() == b"\x02torn"
    assert runs.open(writer.folder).problems == ()
    writer.close()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (StepRecord(step=3, attempt=0), "expected a step after 3, got 3"),
        (StepRecord(step=4, attempt=1), "expected a record of attempt 0, got 1"),
        (StepRecord(step=4, places={"grad_norm": [1.0]}), "each of 3 places .* got 1"),
        (StepRecord(step=4, places={"adam_rms": [1.0]}), "each of 0 places"),
        (StepRecord(step=4, values={"tokens": 1.5}), "'tokens' is a counter.* got 1.5"),
        (StepRecord(step=4, values={"tokens": float("nan")}), "counter.* got nan"),
        (StepRecord(step=4, values={"tokens": 2**63}), "counter"),
        (StepRecord(step=4, values={"step": 1.0}), "cannot be called 'step'"),
        (StepRecord(step=4, values={"grad_norm@a": 1.0}), "cannot be called"),
        (StepRecord(step=4, places={"grad_norm": np.zeros((3, 1))}), r"shape \(3, 1\)"),
    ],
)
def test_a_record_that_cannot_be_stored_is_refused_and_changes_nothing(make, rows, record, message):
    writer = make(steps=3)
    before = (writer.folder / "signals/journal").read_bytes()
    with pytest.raises(ValueError, match=message):
        writer.append(record)
    assert (writer.folder / "signals/journal").read_bytes() == before
    writer.append(rows.make(0, 4))
    writer.close()
    assert rows.frame_bits(runs.open(writer.folder).signals) == rows.expected(keys((0, 1, 4)))


def test_whole_floats_and_numpy_numbers_are_counters_too(make):
    with make() as writer:
        writer.append(StepRecord(step=1, values={"tokens": 3.0, "batch_size": np.int32(4)}))
        writer.append(StepRecord(step=2, values={"tokens": -(2**62), "loss": np.float32(0.1)}))
    assert runs.open(writer.folder).signals["tokens"].to_list() == [3, -(2**62)]


def test_a_buffer_that_the_caller_reuses_does_not_change_a_row(make):
    writer = make()
    buffer = np.array([1, 2, 3], dtype=np.float32)
    writer.append(StepRecord(step=1, places={"grad_norm": buffer}))
    buffer[:] = 9
    writer.close()
    assert runs.open(writer.folder).signals["grad_norm@places"].to_list() == [[1, 2, 3]]


def test_an_existing_folder_is_not_touched(make, tmp_path):
    writer = make()
    writer.close()
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    expected = "run exists: give --resume to go on with it, or another --name"
    with pytest.raises(RunFolderError, match=expected):
        make()
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="file exists"):
        make("file")
    (tmp_path / "file").unlink()
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before


def test_two_that_create_at_once_get_one_run(make, tmp_path, monkeypatch):
    # The other one finishes between the look and the rename.
    monkeypatch.setattr(
        os.path,
        "lexists",
        lambda path, real=os.path.lexists: False if not (tmp_path / "run").exists() else real(path),
    )
    first = make("other")
    first.close()
    real = os.rename

    def late(source, target, **kwargs):
        if str(target).endswith("run"):
            real(tmp_path / "other", tmp_path / "run")
        return real(source, target, **kwargs)

    monkeypatch.setattr(os, "rename", late)
    with pytest.raises(RunFolderError, match="run exists"):
        make("run")
    assert runs.open(tmp_path / "run").spec.name == "other"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_parents_are_made_and_abandoned_drafts_swept(make, tmp_path):
    draft = tmp_path / "deep/er/.run.0123456789ab.tmp"
    draft.mkdir(parents=True)
    (draft / "lock").touch()
    (draft / "spec.toml").touch()
    young = tmp_path / "deep/er/.run.ba9876543210.tmp"
    young.mkdir()  # its owner has not come to the lock
    with make("deep/er/run"):
        pass
    assert sorted(p.name for p in draft.parent.iterdir()) == [young.name, "run"]


def test_whether_a_trainer_writes_can_be_asked(make, rows, tmp_path):
    assert is_held(tmp_path) is None
    writer = make()
    assert is_held(writer.folder) is True
    writer.close()
    assert is_held(writer.folder) is False
    RunWriter.resume(writer.folder, 0, rows.PLACES).close()


def test_who_asks_whether_a_trainer_writes_does_not_keep_one_from_starting(make, rows):
    writer = make()
    writer.close()
    asking = (writer.folder / "lock").open()
    fcntl.flock(asking, fcntl.LOCK_SH)
    done = threading.Timer(0.03, asking.close)
    done.start()
    RunWriter.resume(writer.folder, 0, rows.PLACES).close()
    done.join()


def test_places_may_grow_at_the_end_and_never_change(make, rows):
    writer = make(steps=2)
    writer.set_places({"grad_norm": ["a", "b", "c", "d"], "adam_rms": ["q"]})
    writer.append(StepRecord(step=3, places={"grad_norm": np.ones(4), "adam_rms": [2.0]}))
    with pytest.raises(
        RunFolderError, match="place 1 of signal 'grad_norm' was 'b', now it is 'z'"
    ):
        writer.set_places({"grad_norm": ["a", "z"]})
    writer.close()
    run = runs.open(writer.folder)
    assert run.places["grad_norm"] == ("a", "b", "c", "d")
    assert run.places["adam_rms"] == ("q",)
    assert run.signals["grad_norm@places"].list.len().to_list() == [3, 3, 4]
    with pytest.raises(RunFolderError, match="the model is another one than the run's"):
        RunWriter.resume(writer.folder, 1, {"grad_norm": ["b"]})
    # The refusal came before anything was moved, and left no lock behind.
    assert runs.open(writer.folder).signals["step"].to_list() == [1, 2, 3]
    RunWriter.resume(writer.folder, 3, rows.PLACES).close()


def test_a_lost_places_file_is_written_anew_and_said(make, rows):
    writer = make(steps=2)
    writer.close()
    (writer.folder / "signals/places.json").write_text("{")
    run = runs.open(writer.folder)
    assert run.places == {}
    assert any("places.json" in problem for problem in run.problems)
    RunWriter.resume(writer.folder, 2, rows.PLACES).close()
    run = runs.open(writer.folder)
    assert run.places["update_rms"] == ("x", "y")
    assert "places.json could not be read" in run.events[-1].data["problems"][0]
    assert run.problems == ()


def test_a_flipped_bit_in_the_places_is_damage_and_no_other_model(make, rows):
    writer = make(steps=2)
    writer.close()
    path = writer.folder / "signals/places.json"
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        try:
            found = read_places(path)
        except ValueError:
            continue
        # White space, or the checksum's own key.
        assert found == {k: tuple(v) for k, v in rows.PLACES.items()}, data
    path.write_bytes(whole.replace(b'"b"', b'"c"'))
    assert runs.open(writer.folder).problems == (
        "signals/places.json cannot be read: it does not match its checksum",
    )
    writer = RunWriter.resume(writer.folder, 2, rows.PLACES)
    writer.close()
    told = "places.json could not be read and was written anew: it does not match its checksum"
    assert writer.problems == (told,)
    assert path.read_bytes() == whole
    assert runs.open(writer.folder).problems == ()


def test_another_model_is_refused_though_it_has_as_many_places(make, rows):
    writer = make(steps=2)
    writer.close()
    with pytest.raises(RunFolderError, match="place 1 of signal 'grad_norm' was 'b'"):
        RunWriter.resume(writer.folder, 2, {**rows.PLACES, "grad_norm": ["a", "c", "b"]})


def test_places_of_before_they_had_a_checksum(make, rows):
    writer = make(steps=2)
    writer.close()
    path = writer.folder / "signals/places.json"
    old = json.dumps({"format": 1, "signals": rows.PLACES})
    path.write_text(old)
    writer = RunWriter.resume(writer.folder, 2, rows.PLACES)
    writer.close()
    assert writer.problems == ()
    assert runs.open(writer.folder).places["grad_norm"] == ("a", "b", "c")
    # As many names, of which one is another: a damaged file. Fewer: another model.
    path.write_text(old.replace('"b"', '"c"'))
    writer = RunWriter.resume(writer.folder, 2, rows.PLACES)
    writer.close()
    assert "its names are not those of the model, but their number is" in writer.problems[0]
    assert runs.open(writer.folder).places["grad_norm"] == ("a", "b", "c")
    path.write_text(old.replace('"b"', '"c", "d"'))
    with pytest.raises(RunFolderError, match="the model is another one than the run's"):
        RunWriter.resume(writer.folder, 2, rows.PLACES)


def test_resume_refuses_what_is_no_run(make, rows, tmp_path):
    with pytest.raises(RunFolderError, match="nothing is not a run folder"):
        RunWriter.resume(tmp_path / "nothing", 0, {})
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunFolderError, match="empty is not a run folder"):
        RunWriter.resume(tmp_path / "empty", 0, {})
    assert list((tmp_path / "empty").iterdir()) == []
    with make(), pytest.raises(ValueError, match="step of 0 or more, got -1"):
        RunWriter.resume(tmp_path / "run", -1, {})


def test_a_damaged_segment_is_set_aside_where_new_rows_come(make, rows):
    writer = make(steps=12, compact_rows=4)
    writer.close()
    damaged = writer.folder / "signals/000000005-000000008.parquet"
    data = bytearray(damaged.read_bytes())
    data[100] ^= 1
    damaged.write_bytes(data)
    writer = RunWriter.resume(writer.folder, 4, rows.PLACES, compact_rows=4)
    for step in range(5, 9):
        writer.append(rows.make(1, step))
    writer.close()
    run = runs.open(writer.folder)
    assert rows.frame_bits(run.signals) == rows.expected(keys((0, 1, 4), (1, 5, 8)))
    assert (writer.folder / "attempts/0/000000005-000000008.parquet.damaged").read_bytes() == data
    everything = rows.frame_bits(runs.all_attempts(writer.folder))
    assert everything == rows.expected(keys((0, 1, 4), (0, 9, 12), (1, 5, 8)))
    assert any("damaged" in problem for problem in run.events[-1].data["problems"])


def test_a_damaged_segment_does_not_take_the_place_of_the_rows_it_held(make, rows, monkeypatch):
    # Killed between the commit of a segment and the reset of the journal: the rows are in both.
    writer = make(steps=8)
    monkeypatch.setattr(writer._journal, "reset", lambda: None)
    writer.flush()
    rows.die(writer)
    (writer.folder / "signals/000000001-000000008.parquet").write_bytes(b"damaged")
    assert rows.frame_bits(runs.open(writer.folder).signals) == rows.expected(keys((0, 1, 8)))
    for step in (4, 0):
        RunWriter.resume(writer.folder, step, rows.PLACES).close()
        found = rows.frame_bits(runs.all_attempts(writer.folder))
        assert found == rows.expected(keys((0, 1, 8)))
    assert runs.open(writer.folder).problems == ()


def test_a_failure_at_the_very_end_of_resume_lets_the_next_writer_in(
    make, rows, full_disk, monkeypatch
):
    writer = make(steps=2)
    writer.close()
    full_disk()
    monkeypatch.setattr(os, "pwrite", lambda *args: 0)
    with pytest.raises(StorageError, match=r"events\.jsonl"):
        RunWriter.resume(writer.folder, 2, rows.PLACES)
    full_disk.stop()
    writer = RunWriter.resume(writer.folder, 2, rows.PLACES)
    assert writer.attempt == 1
    writer.close()


def test_steps_may_have_gaps_and_merges_keep_every_row(make, rows, monkeypatch):
    # What another loop records every third step.
    writer = make(compact_rows=2)
    steps = list(range(3, 150, 3))
    for step in steps:
        writer.append(rows.make(0, step))
    # A leftover of a merge: it is within the range of another, which has no row of every step.
    monkeypatch.setattr("surefoot.runs.segments.discard", lambda folder, segments: None)
    for step in range(150, 201, 3):
        writer.append(rows.make(0, step))
        steps.append(step)
    rows.die(writer)
    monkeypatch.undo()
    expected = rows.expected([(0, step) for step in steps])
    assert rows.frame_bits(runs.open(writer.folder).signals) == expected
    writer = RunWriter.resume(writer.folder, 160, rows.PLACES)
    writer.close()
    assert rows.frame_bits(runs.all_attempts(writer.folder)) == expected
    run = runs.open(writer.folder)
    assert run.signals["step"].to_list() == [step for step in steps if step <= 160]
    assert run.problems == ()


def test_closing_twice_and_in_an_error(make):
    writer = make(steps=2)
    with pytest.raises(ZeroDivisionError), writer:
        raise ZeroDivisionError
    writer.close()
    assert runs.open(writer.folder).signals["step"].to_list() == [1, 2]


def test_the_files_are_as_documented(make):
    with make(steps=3) as writer:
        writer.ledger.append("checkpoint", step=3, path="x")
    names = {str(p.relative_to(writer.folder)) for p in writer.folder.rglob("*") if p.is_file()}
    assert names == {
        "spec.toml",
        "environment.json",
        "events.jsonl",
        "lock",
        "signals/journal",
        "signals/places.json",
        "signals/000000001-000000003.parquet",
    }
    assert (writer.folder / "spec.toml").read_text().startswith("format = 1\n")
    line = json.loads((writer.folder / "events.jsonl").read_text().splitlines()[-1])
    assert line.pop("time").endswith("+00:00")
    assert line == {"kind": "checkpoint", "step": 3, "attempt": 0, "data": {"path": "x"}}
