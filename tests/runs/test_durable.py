"""Atomic and durable: the order of flushes, what a full disk leaves, what people are told."""

import errno
import os

import pytest

from surefoot import runs
from surefoot.errors import StorageError
from surefoot.runs import RunWriter
from surefoot.runs.durable import (
    fsync_dir,
    fsync_file,
    make_dir,
    way_on,
    write_all,
    write_atomic,
)


def test_write_atomic_replaces_the_whole_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a longer old content")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def flush_order(rows, act):
    """The changes of the file system that ``act`` makes."""
    with rows.killed_before(0) as done:
        act()
    return done.operations


def assert_renames_are_durable(operations):
    unflushed = set()
    for number, operation in enumerate(operations):
        if operation[0] == "write":
            unflushed.add(operation[1])
        elif operation[0] == "fsync":
            unflushed.discard(operation[1])
        elif operation[0] in ("replace", "rename"):
            source, target = operation[1:3]
            assert source not in unflushed, f"{source} was renamed before it was flushed"
            folder = os.path.dirname(target)
            later = operations[number + 1 :]
            assert ("fsync", folder) in [o[:2] for o in later], f"{folder} was never flushed"
            following = next(o for o in later if o[0] != "write")
            assert following[:2] == ("fsync", folder), "something came before the flush"


def test_every_rename_is_flushed_before_and_after(make, rows, tmp_path):
    writer = None

    def life():
        nonlocal writer
        writer = make(steps=9, compact_rows=4)
        writer.flush()
        writer.close()
        writer = RunWriter.resume(writer.folder, 6, rows.PLACES)
        writer.close()

    operations = flush_order(rows, life)
    renamed = [operation for operation in operations if operation[0] in ("replace", "rename")]
    assert len(renamed) > 12
    assert_renames_are_durable(operations)


def test_the_order_is_segment_then_journal(make, rows):
    writer = make(steps=3)
    writer_fd = writer._journal._fd
    operations = flush_order(rows, writer.flush)
    writer.close()
    journal = str(writer.folder / "signals/journal")
    segment = str(writer.folder / "signals/000000001-000000003.parquet")
    folder = str(writer.folder / "signals")
    kept = [o[:3] if o[0] == "replace" else o[:2] for o in operations if o[0] != "write"]
    assert kept == [
        ("fsync", writer_fd),
        ("fsync", segment + ".tmp"),
        ("replace", segment + ".tmp", segment),
        ("fsync", folder),
        ("fsync", journal + ".tmp"),
        ("replace", journal + ".tmp", journal),
        ("fsync", folder),
    ]


def test_an_event_is_flushed_before_append_returns(make, rows):
    writer = make()
    operations = flush_order(rows, lambda: writer.ledger.append("action", step=1))
    assert [operation[0] for operation in operations] == ["write", "fsync"]
    writer.close()


def test_a_row_takes_one_write_and_no_flush(make, rows):
    writer = make(steps=3)
    operations = flush_order(rows, lambda: writer.append(rows.make(0, 4)))
    assert [operation[0] for operation in operations] == ["write"]
    writer.close()


def test_short_writes_are_made_good(make, rows, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:7]))
    writer = make(steps=9, compact_rows=4)
    writer.ledger.append("finding", text="x" * 100)
    writer.close()
    monkeypatch.undo()
    run = runs.open(writer.folder)
    assert rows.frame_bits(run.signals) == rows.expected([(0, step) for step in range(1, 10)])
    assert run.problems == ()
    assert run.events[-1].data == {"text": "x" * 100}


def test_write_all_writes_everything(tmp_path):
    fd = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    write_all(fd, b"")
    write_all(fd, bytearray(b"abc"))
    os.close(fd)
    assert (tmp_path / "file").read_bytes() == b"abc"


@pytest.mark.parametrize(
    ("number", "words", "space"),
    [
        (errno.ENOSPC, "the disk is full", True),
        (errno.EDQUOT, "the disk quota is used up", True),
        (errno.EROFS, "the file system is read-only; remount it writable, ", False),
        (errno.EFBIG, "ulimit -f", False),
        (errno.EIO, "input/output error; check the disk, ", False),
        (errno.EACCES, "permission is denied", False),
    ],
)
def test_a_refusal_says_which_file_how_much_is_free_and_what_to_do(
    tmp_path, full_disk, number, words, space
):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    full_disk(1, number)
    with pytest.raises(StorageError) as caught:
        write_atomic(path, b"new")
    message = str(caught.value)
    assert message.startswith(f"cannot write {path}: ")
    assert words in message
    assert ("B free there)" in message) == space
    assert "--resume; what was committed before is intact" in message
    assert "\n" not in message
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path], "the half-written file keeps the space"


def test_other_errors_are_not_dressed_up(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "no/file", b"x")
    with pytest.raises(FileNotFoundError):
        fsync_file(tmp_path / "no")
    with pytest.raises(FileNotFoundError):
        fsync_dir(tmp_path / "no")


def test_a_refusal_ends_in_the_way_on_that_the_caller_knows(tmp_path, full_disk):
    full_disk()
    with pytest.raises(StorageError) as caught, way_on("then repeat the command"):
        write_atomic(tmp_path / "file", b"new")
    assert str(caught.value).endswith("free some space there, then repeat the command")
    with pytest.raises(StorageError, match="go on with --resume"):
        write_atomic(tmp_path / "file", b"new")


def test_a_run_that_could_not_be_made_is_not_to_be_resumed(make, full_disk, tmp_path):
    full_disk()
    with pytest.raises(StorageError, match="then repeat the command, or keep runs elsewhere"):
        make()
    assert list(tmp_path.iterdir()) == []


def test_what_stands_in_the_place_of_a_file_or_folder_is_named(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match=r"cannot write .*/folder: a folder is in its place"):
        write_atomic(tmp_path / "folder", b"x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    for path in (tmp_path / "file", tmp_path / "file/inner", tmp_path / "file/inner/most"):
        with pytest.raises(StorageError, match=r"cannot write .*/file.*: a file is in the place"):
            make_dir(path)
