import fcntl
import os
import threading

import polars as pl
import pytest

from surefoot.records import CheckpointInfo, Event, Run
from surefoot.report.facts import QUIET_AFTER, Point, facts, flat, standing, status
from surefoot.runs.lock import Lock, is_held


def _run(*events, path=None, **columns):
    return Run(name="r", signals=pl.DataFrame(columns), events=events, path=path)


@pytest.mark.parametrize(
    ("events", "word", "detail"),
    [
        ((), "unknown", "no ledger says how it ended"),
        ((Event(kind="started", step=0),), "killed", "the ledger has no end"),
        (
            (Event(kind="started"), Event(kind="finished", step=1500)),
            "finished",
            "at step 1,500",
        ),
        (
            (Event(kind="halted", step=12, data={"postmortem": "post\x1bmortem.md"}),),
            "halted",
            r"at step 12, see post\x1bmortem.md",
        ),
        (
            (Event(kind="interrupted", step=12, data={"signal": 15}),),
            "interrupted",
            "stopped on request (SIGTERM) at step 12; go on with --resume",
        ),
        (
            (Event(kind="interrupted", step=1200, data={"signal": 2}),),
            "interrupted",
            "stopped on request (SIGINT) at step 1,200; go on with --resume",
        ),
        (
            (Event(kind="interrupted", data={"signal": ["\x1b"]}),),
            "interrupted",
            "stopped on request; go on with --resume",
        ),
        # The newest start or end counts, whatever other events follow.
        (
            (Event(kind="interrupted", step=12), Event(kind="resumed", step=12)),
            "killed",
            "the ledger has no end",
        ),
        (
            (Event(kind="finished", step=9), Event(kind="checkpoint", step=9)),
            "finished",
            "at step 9",
        ),
    ],
)
def test_status_is_the_ledgers(events, word, detail):
    found = status(_run(*events))
    assert (found.word, found.detail) == (word, detail)


@pytest.mark.parametrize("newest", ["events.jsonl", "signals/journal"])
def test_without_an_end_or_a_lock_the_last_write_tells_running_from_killed(tmp_path, newest):
    (tmp_path / "signals").mkdir()
    for name in ("events.jsonl", "signals/journal"):
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (1000, 1000))
    os.utime(tmp_path / "signals", (1000, 1000))
    os.utime(tmp_path / newest, (50_000, 50_000))
    run = _run(Event(kind="started"), path=str(tmp_path))
    assert status(run, now=50_000 + QUIET_AFTER).word == "running"
    dead = status(run, now=50_001 + QUIET_AFTER)
    assert dead.word == "killed"
    assert dead.detail == "the ledger has no end; last written 1970-01-01 13:53:20 UTC"


def test_the_lock_tells_a_run_that_was_just_killed_from_one_that_is_slow(tmp_path):
    (tmp_path / "events.jsonl").write_bytes(b"")
    run = _run(Event(kind="started"), path=str(tmp_path))
    lock = Lock(tmp_path)
    assert is_held(tmp_path) is True
    assert status(run, now=2e9 + 1e6).word == "running"  # hours in one step: no write since
    lock.release()
    assert is_held(tmp_path) is False
    assert status(run).word == "killed"  # written a moment ago


def test_looking_at_the_lock_keeps_no_trainer_out(tmp_path):
    Lock(tmp_path).release()
    look = os.open(tmp_path / "lock", os.O_RDONLY)
    fcntl.flock(look, fcntl.LOCK_SH)
    threading.Timer(0.03, os.close, [look]).start()
    Lock(tmp_path).release()


def test_numbers_skip_what_is_not_finite_but_count_it():
    nan = float("nan")
    run = _run(
        Event(kind="resumed", step=2),
        step=[1, 2, 3, 4, 5],
        loss=[nan, 5.0, 3.0, 4.0, nan],
        validation_loss=[None, None, 3.5, None, None],
        tokens_per_second=[10.0, 100.0, 120.0, nan, None],
        consumed_tokens=[1, 2, 3, 4, 50],
    )
    known = facts(run)
    assert known.loss_first == Point(step=2, value=5.0)
    assert known.loss_best == Point(step=3, value=3.0)
    assert known.loss_last.step == 5
    assert known.loss_last.value != known.loss_last.value
    assert known.not_finite == 2
    assert known.validation_last == known.validation_best == Point(step=3, value=3.5)
    assert known.tokens_per_second == 100.0
    assert known.consumed_tokens == 50
    assert known.restarts == (2,)
    assert (known.first_step, known.last_step, known.rows) == (1, 5, 5)
    assert known.progress() == "5"


def test_the_sentence_on_gaps_is_found_among_the_problems():
    problems = ("signals/journal torn", "rows of steps 5 to 8 are missing", "else")
    run = Run(name="r", signals=pl.DataFrame(), problems=problems)
    assert facts(run).gaps == "rows of steps 5 to 8 are missing"
    assert facts(Run(name="r", signals=pl.DataFrame(), problems=problems[:1])).gaps == ""


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        ("confirmed", None, "confirmed"),
        ("quarantined", "incident", "quarantined: incident"),
        ("quarantined", "signal", "resumable: saved when the run was stopped on request"),
        ("provisional", "signal", "provisional: signal"),
    ],
)
def test_a_checkpoint_of_a_stop_on_request_is_no_failure(status, reason, words):
    info = CheckpointInfo(step=1, path="c", status=status, reason=reason)
    assert str(standing(info)) == words


def test_a_run_without_rows_has_no_numbers():
    known = facts(Run(name="r", signals=pl.DataFrame()))
    assert (known.loss_first, known.loss_last, known.tokens_per_second) == (None, None, None)
    assert known.progress() == "0"


def test_flat_names_nested_values_by_path():
    nested = {"a": {"b": {"c": 1}}, "d": {}, "e": [1]}
    assert flat(nested) == {"a.b.c": 1, "d": {}, "e": [1]}
