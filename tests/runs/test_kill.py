"""Real kills: a process dies by SIGKILL at each crash point that this part owns, and goes on."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from surefoot import runs
from surefoot.runs import RunWriter

# Rows 1 to 40: `flush` every 4 steps as before a checkpoint, merges from 8 segments on.
WRITE = """
    import sys
    from pathlib import Path
    from conftest import PLACES, make_record
    from surefoot.records import TrainSpec
    from surefoot.runs import RunWriter

    folder = Path(sys.argv[1])
    if folder.exists():
        at = int(sys.argv[2])
        writer = RunWriter.resume(folder, at, PLACES)
    else:
        at = 0
        writer = RunWriter.create(folder, TrainSpec(name="run"), {}, PLACES)
    for step in range(at + 1, 41):
        writer.append(make_record(writer.attempt, step))
        if step % 4 == 0:
            writer.flush()
            writer.ledger.append("checkpoint", step=step)
    writer.close()
"""


def keys(*spans):
    return {(attempt, step) for attempt, first, last in spans for step in range(first, last + 1)}


@pytest.mark.parametrize(
    ("point", "rows_there", "checkpoint", "problem"),
    [
        ("segment.before_rename", 4, 0, "cut short"),
        ("segment.before_rename:3", 12, 8, "cut short"),
        ("segment.after_rename:2", 8, 4, None),
        ("ledger.write:3", 12, 8, "torn line"),
        ("merge", 32, 28, "cut short"),
        ("merge:2", 32, 28, None),
    ],
)
def test_killed_at_a_crash_point(
    child, assert_killed, rows, tmp_path, point, rows_there, checkpoint, problem
):
    folder = tmp_path / "run"
    assert_killed(child(WRITE, str(folder), crash=point), point.partition(":")[0])
    run = runs.open(folder)
    assert rows.frame_bits(run.signals) == rows.expected(keys((0, 1, rows_there)))
    saved = [event.step for event in run.events if event.kind == "checkpoint"]
    assert max(saved, default=0) == checkpoint
    assert [problem in text for text in run.problems] == ([] if problem is None else [True])

    done = child(WRITE, str(folder), str(checkpoint))
    assert done.returncode == 0, done.stderr
    run = runs.open(folder)
    winning = keys((0, 1, checkpoint), (1, checkpoint + 1, 40))
    assert rows.frame_bits(run.signals) == rows.expected(winning)
    everything = winning | keys((0, 1, rows_there))
    assert rows.frame_bits(runs.all_attempts(folder)) == rows.expected(everything)
    assert run.problems == ()
    assert not list(folder.rglob("*.tmp"))


def test_killed_again_and_again_no_row_is_lost(child, assert_killed, rows, tmp_path):
    folder = tmp_path / "run"
    everything = set()
    kept = set()
    at = 0
    for attempt in range(4):
        done = child(WRITE, str(folder), str(at), crash="segment.after_rename:2")
        assert_killed(done, "segment.after_rename")
        made = keys((attempt, at + 1, at + 8))
        everything |= made
        at += 4  # the checkpoint of the second flush was not committed
        kept |= {key for key in made if key[1] <= at}
        kept |= {key for key in made if key[1] > at}
        run = runs.open(folder)
        assert rows.frame_bits(run.signals) == rows.expected(kept)
        assert rows.frame_bits(runs.all_attempts(folder)) == rows.expected(everything)
        kept = {key for key in kept if key[1] <= at}


@pytest.mark.slow
def test_killed_at_random_times(child, rows, tmp_path):
    code = textwrap.dedent(WRITE).replace("range(at + 1, 41)", "range(at + 1, 10**9)")
    folder = tmp_path / "run"
    everything = set()
    at = 0
    generator = random.Random(5)
    for _ in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(folder), str(at)],
            env=rows.child_environment(),
        )
        time.sleep(1 + generator.random() * 1.5)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if not folder.exists():
            continue
        run = runs.open(folder)
        found = rows.frame_bits(run.signals)
        assert found == rows.expected(found)
        assert run.signals["step"].to_list() == list(range(1, len(found) + 1))
        seen = rows.frame_bits(runs.all_attempts(folder))
        assert seen == rows.expected(seen)
        assert everything <= set(seen), "a row is lost"
        everything = set(seen)
        saved = [e.step for e in run.events if e.kind == "checkpoint" and e.step <= len(found)]
        at = max(saved, default=0)
    writer = RunWriter.resume(folder, at, rows.PLACES)
    writer.close()
    assert runs.open(folder).problems == ()
    assert len(everything) > 20


def test_a_writer_locks_its_run_until_it_dies(child, assert_killed, make, rows):
    code = """
        import sys
        from pathlib import Path
        from conftest import PLACES
        from surefoot.errors import RunFolderError
        from surefoot.runs import RunWriter
        try:
            RunWriter.resume(Path(sys.argv[1]), 0, PLACES)
        except RunFolderError as error:
            print(error)
    """
    writer = make(steps=2)
    done = child(code, str(writer.folder))
    assert f"being written by another trainer (process {os.getpid()}): wait" in done.stdout
    assert runs.open(writer.folder).signals["step"].to_list() == [1, 2]
    writer.close()
    assert child(code, str(writer.folder)).stdout == ""


def test_a_forked_worker_that_lives_on_does_not_keep_the_lock(child, rows, tmp_path):
    # A data-loading worker outlives its killed parent: the next trainer must not wait for it.
    code = """
        import os, signal, sys, time
        from pathlib import Path
        from conftest import PLACES
        from surefoot.records import TrainSpec
        from surefoot.runs import RunWriter
        writer = RunWriter.create(Path(sys.argv[1]), TrainSpec(), {}, PLACES)
        if os.fork() == 0:
            os.close(1), os.close(2)
            time.sleep(20)
            os._exit(0)
        print("forked", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = child(code, str(tmp_path / "run"))
    assert "forked" in done.stdout
    RunWriter.resume(tmp_path / "run", 0, rows.PLACES).close()
