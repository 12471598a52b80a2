"""A full disk: what was committed stays, the error is one line, and with space it goes on."""

import os
import subprocess

import pytest

from surefoot import runs
from surefoot.errors import StorageError
from surefoot.records import TrainSpec
from surefoot.runs import RunWriter


def keys(first, last, attempt=0):
    return [(attempt, step) for step in range(first, last + 1)]


@pytest.mark.parametrize("allowed", [0, 1, 12, 40])
def test_a_full_disk_in_append_leaves_the_journal_whole(make, rows, full_disk, allowed):
    writer = make(steps=3)
    full_disk(allowed)
    for _ in range(2):
        with pytest.raises(StorageError, match="signals/journal: the disk is full"):
            writer.append(rows.make(0, 4))
    run = runs.open(writer.folder)
    assert run.problems == ()
    assert rows.frame_bits(run.signals) == rows.expected(keys(1, 3))
    full_disk.stop()
    writer.append(rows.make(0, 4))  # the same step: nothing was counted
    writer.close()
    assert rows.frame_bits(runs.open(writer.folder).signals) == rows.expected(keys(1, 4))


def test_a_torn_row_that_could_not_be_cut_at_once_is_cut_before_the_next(
    make, rows, full_disk, monkeypatch
):
    writer = make(steps=3)
    full_disk(20)
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", lambda fd, size: (_ for _ in ()).throw(OSError(5, "EIO")))
        with pytest.raises(StorageError):
            writer.append(rows.make(0, 4))
        assert "torn at byte" in runs.open(writer.folder).problems[0]
        full_disk.stop()
        with pytest.raises(StorageError):  # still cannot cut: nothing may be written behind it
            writer.append(rows.make(0, 4))
    writer.append(rows.make(0, 4))
    rows.die(writer)
    run = runs.open(writer.folder)
    assert run.problems == ()
    assert rows.frame_bits(run.signals) == rows.expected(keys(1, 4))


def test_a_new_layout_that_did_not_fit_is_written_with_the_next_row(make, rows, full_disk):
    writer = make(steps=2)
    full_disk(30)
    with pytest.raises(StorageError):
        writer.append(rows.make(0, 3))  # the first with update_rms: its layout is cut off too
    full_disk.stop()
    writer.append(rows.make(0, 3))
    rows.die(writer)
    assert rows.frame_bits(runs.open(writer.folder).signals) == rows.expected(keys(1, 3))


@pytest.mark.parametrize("allowed", [0, 100, 2000])
def test_a_full_disk_in_flush_leaves_the_rows_in_the_journal(make, rows, full_disk, allowed):
    writer = make(steps=5)
    full_disk(allowed)
    with pytest.raises(StorageError, match=r"000000001-000000005\.parquet: the disk is full"):
        writer.flush()
    run = runs.open(writer.folder)
    assert run.problems == ()
    assert rows.frame_bits(run.signals) == rows.expected(keys(1, 5))
    full_disk.stop()
    writer.append(rows.make(0, 6))
    writer.flush()
    writer.close()
    assert rows.frame_bits(runs.open(writer.folder).signals) == rows.expected(keys(1, 6))


def test_a_full_disk_when_closing_still_lets_the_next_writer_in(make, rows, full_disk):
    writer = make(steps=5)
    full_disk()
    with pytest.raises(StorageError):
        writer.close()
    full_disk.stop()
    RunWriter.resume(writer.folder, 5, rows.PLACES).close()


def test_a_full_disk_in_an_error_does_not_hide_it(make, rows, full_disk):
    def work():
        with make(steps=2):
            full_disk()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()


@pytest.mark.parametrize("allowed", [0, 10, 60])
def test_a_full_disk_in_the_ledger_leaves_it_whole(make, full_disk, allowed):
    writer = make()
    before = (writer.folder / "events.jsonl").read_bytes()
    full_disk(allowed)
    with pytest.raises(StorageError, match=r"events\.jsonl: the disk is full"):
        writer.ledger.append("action", step=1, text="x" * 100)
    assert (writer.folder / "events.jsonl").read_bytes() == before
    full_disk.stop()
    writer.ledger.append("action", step=2)
    writer.close()
    run = runs.open(writer.folder)
    assert [(event.kind, event.step) for event in run.events] == [("started", 0), ("action", 2)]
    assert run.problems == ()


@pytest.mark.parametrize("allowed", [0, 10, 300])
def test_a_full_disk_in_create_leaves_nothing(rows, tmp_path, full_disk, monkeypatch, allowed):
    monkeypatch.setattr(os, "pwrite", lambda *args: 0)
    full_disk(allowed)
    with pytest.raises(StorageError, match="the disk is full"):
        RunWriter.create(tmp_path / "run", TrainSpec(name="x"), {"a": "b" * 900}, rows.PLACES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("allowed", [0, 1000, 6000, 12000, 18000])
def test_a_full_disk_in_resume_loses_nothing(make, rows, full_disk, allowed):
    writer = make(steps=10, compact_rows=4)
    rows.die(writer)
    full_disk(allowed)
    with pytest.raises(StorageError, match="the disk is full"):
        RunWriter.resume(writer.folder, 6, rows.PLACES)
    full_disk.stop()
    everything = rows.frame_bits(runs.all_attempts(writer.folder))
    assert everything == rows.expected(keys(1, 10))
    writer = RunWriter.resume(writer.folder, 6, rows.PLACES)
    assert writer.attempt == 1
    writer.close()
    run = runs.open(writer.folder)
    assert rows.frame_bits(run.signals) == rows.expected(keys(1, 6))
    assert rows.frame_bits(runs.all_attempts(writer.folder)) == rows.expected(keys(1, 10))


def test_the_limit_on_file_sizes_is_told_as_such(child, tmp_path):
    # Real, and without special rights: the kernel refuses to let a file grow beyond 20 kB.
    done = child(
        """
        import resource, sys
        from pathlib import Path
        from conftest import PLACES, make_record
        from surefoot.errors import StorageError
        from surefoot.records import TrainSpec
        from surefoot.runs import RunWriter
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        writer = RunWriter.create(Path(sys.argv[1]), TrainSpec(), {}, PLACES, compact_rows=10**6)
        try:
            for step in range(1, 10**6):
                writer.append(make_record(0, step))
        except StorageError as error:
            print(step, error)
        """,
        str(tmp_path / "run"),
    )
    step, _, message = done.stdout.partition(" ")
    assert "journal: it would exceed the limit on file sizes" in message, done.stderr
    run = runs.open(tmp_path / "run")
    assert run.signals["step"].to_list() == list(range(1, int(step)))
    assert run.problems == ()


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 256 kB."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(mounted)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"cannot mount a tmpfs: {done.stderr.strip()}")
    yield mounted
    subprocess.run(["umount", "-l", str(mounted)], check=True)


def test_a_disk_that_really_fills_up(rows, small_disk):
    folder = small_disk / "run"
    writer = RunWriter.create(folder, TrainSpec(name="x"), {}, rows.PLACES)
    filler = small_disk / "filler"
    flushed = 0

    def work():
        nonlocal flushed
        for step in range(1, 10_000):
            writer.append(rows.make(0, step))
            if step == 200:
                filler.write_bytes(b"x" * 130_000)
            if step % 100 == 0:
                writer.flush()
                flushed = step

    with pytest.raises(StorageError, match=r"the disk is full \("):
        work()
    step = writer.last_step
    rows.die(writer)
    run = runs.open(folder)
    assert run.problems == ()
    assert flushed >= 200
    assert rows.frame_bits(run.signals) == rows.expected(keys(1, step))
    filler.unlink()
    writer = RunWriter.resume(folder, flushed, rows.PLACES)
    writer.append(rows.make(1, flushed + 1))
    writer.close()
    run = runs.open(folder)
    winning = keys(1, flushed) + keys(flushed + 1, flushed + 1, attempt=1)
    assert rows.frame_bits(run.signals) == rows.expected(winning)
