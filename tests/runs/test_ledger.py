"""The ledger: whole lines only, torn ends cut and recorded, bad lines skipped and reported."""

import json
import math

import pytest

from surefoot import protocols, runs
from surefoot.errors import StorageError
from surefoot.records import Event, Finding, Place, to_json
from surefoot.runs.ledger import Ledger, encode, read_ledger, repair


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.jsonl"


@pytest.fixture
def written(path):
    ledger = Ledger(path, attempt=2)
    ledger.append("started", step=0)
    ledger.append("finding", step=7, excess=math.inf, name='a "b"\n é', finding=to_json(FINDING))
    ledger.append("halted")
    ledger.close()
    return path.read_bytes()


FINDING = Finding(
    code="SPK004", name="non-finite", severity="error", place=Place(run="x", steps=(3, 7))
)


def test_it_is_the_ledger_of_the_protocols(path):
    ledger = Ledger(path, attempt=0)
    assert isinstance(ledger, protocols.Ledger)
    ledger.close()


def test_events_come_back(path, written):
    contents = read_ledger(path)
    assert [(e.kind, e.step, e.attempt) for e in contents.events] == [
        ("started", 0, 2),
        ("finding", 7, 2),
        ("halted", None, 2),
    ]
    data = contents.events[1].data
    assert data["excess"] == "inf"
    assert data["name"] == 'a "b"\n é'
    assert data["finding"]["place"]["steps"] == [3, 7]
    assert contents.problems == ()
    assert contents.torn == b""
    assert contents.good_bytes == len(written)


def test_each_line_is_strict_json_with_the_time_in_utc(written):
    def refuse(word):
        raise AssertionError(word)

    for line in written.decode("ascii").splitlines():
        event = json.loads(line, parse_constant=refuse)
        assert set(event) == {"kind", "step", "attempt", "time", "data"}
        assert event["time"].endswith("+00:00")


def test_cut_off_at_every_byte_only_whole_lines_are_events(path, written):
    ends = [i + 1 for i, byte in enumerate(written) if byte == ord("\n")]
    for size in range(len(written) + 1):
        path.write_bytes(written[:size])
        contents = read_ledger(path)
        whole = [end for end in ends if end <= size]
        assert len(contents.events) == len(whole)
        good = whole[-1] if whole else 0
        assert contents.good_bytes == good
        assert contents.torn == written[good:size]
        assert len(contents.problems) == (good < size)
        if good < size:
            assert f"{size - good} bytes at byte {good}" in contents.problems[0]


def test_repair_cuts_the_torn_end_and_records_it(path, written):
    whole = written.index(b"\n") + 1
    path.write_bytes(written[: whole + 30])
    repair(path, attempt=2)
    contents = read_ledger(path)
    assert path.read_bytes().startswith(written[:whole])
    assert [event.kind for event in contents.events] == ["started", "repaired"]
    assert contents.events[1].attempt == 2
    assert contents.events[1].data == {
        "file": "events.jsonl",
        "at_byte": whole,
        "bytes": 30,
        "cut_off": written[whole : whole + 30].decode(),
    }
    assert contents.problems == ()
    before = path.read_bytes()
    repair(path, attempt=3)
    assert path.read_bytes() == before, "a whole ledger was repaired"


def test_a_torn_end_that_is_no_text_is_recorded_too(path, written):
    path.write_bytes(written + b"\xff\x00\xfe{" * 1000)
    repair(path, attempt=0)
    event = read_ledger(path).events[-1]
    assert event.data["bytes"] == 4000
    assert event.data["cut_off"].startswith("\\xff\x00\\xfe{")
    assert len(event.data["cut_off"]) < 3000


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[1, 2]",
        b"{}",
        b'{"kind": 3}',
        b'{"kind": "x", "data": {"a": NaN}}',
        b'{"kind": "x", "attempt": "1"}',
        b"\xff\xfe",
        b"",
        b"[" * 100_000,
    ],
)
def test_a_bad_line_is_skipped_and_reported(path, written, line):
    end = written.index(b"\n") + 1
    path.write_bytes(written[:end] + line + b"\n" + written[end:])
    contents = read_ledger(path)
    assert [event.kind for event in contents.events] == ["started", "finding", "halted"]
    (problem,) = contents.problems
    assert problem.startswith("events.jsonl line 2 is no event (")
    assert problem.endswith("; skipped")


def test_a_lost_ledger_is_a_problem_and_no_error(make):
    writer = make(steps=1)
    writer.close()
    (writer.folder / "events.jsonl").unlink()
    run = runs.open(writer.folder)
    assert run.events == ()
    assert run.problems == ("events.jsonl cannot be read: No such file or directory",)


def test_what_is_no_json_is_refused_before_anything_is_written(path, written):
    ledger = Ledger(path, attempt=2)
    with pytest.raises(TypeError, match="cannot write a object as JSON"):
        ledger.append("action", value=object())
    ledger.close()
    assert path.read_bytes() == written


def test_two_writers_do_not_cut_each_other_off(path, full_disk):
    # A supervising process may write to the ledger of a running trainer.
    one, two = Ledger(path, attempt=0), Ledger(path, attempt=1)
    one.append("started")
    two.append("action")
    full_disk(5)
    with pytest.raises(StorageError):
        one.append("finding")
    full_disk.stop()
    one.append("halted")
    one.close()
    two.close()
    assert [event.kind for event in read_ledger(path).events] == ["started", "action", "halted"]


def test_encode_is_one_line():
    line = encode(Event(kind="x", data={"text": "a\nb\u2028c"}))
    assert line.count(b"\n") == 1
    assert line.isascii()
