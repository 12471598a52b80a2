"""Missing rows are named, in what was read and at a resume; sparse records are no gaps."""

import polars as pl
import pytest

from surefoot import runs
from surefoot.records import Event
from surefoot.runs import RunWriter
from surefoot.runs.gaps import MOST_SPANS, TOLD, missing, reached, tell

LOST = "rows of steps 5 to 8 are missing"


def lose(writer, *names):
    for name in names:
        (writer.folder / "signals" / name).unlink()


@pytest.fixture
def vouched(make):
    """A run of 8 rows in two segments, with a checkpoint at step 8."""
    writer = make(steps=8, compact_rows=4)
    writer.flush()
    writer.ledger.append("checkpoint", step=8)
    writer.close()
    return writer


def test_a_deleted_segment_is_noticed_by_reading_and_by_a_resume(make, rows):
    writer = make(steps=12, compact_rows=4)
    writer.close()
    lose(writer, "000000005-000000008.parquet")
    assert runs.open(writer.folder).problems == (LOST,)
    writer = RunWriter.resume(writer.folder, 8, rows.PLACES, problems=["step-9 is torn"])
    assert writer.problems == (LOST, "step-9 is torn")
    assert writer.rows_moved == 4
    for step in range(9, 13):
        writer.append(rows.make(1, step))
    writer.close()
    run = runs.open(writer.folder)
    assert run.events[-1].data["problems"] == [LOST, "step-9 is torn"]
    assert run.problems == (LOST,)
    # Going back before the gap heals it.
    writer = RunWriter.resume(writer.folder, 4, rows.PLACES)
    assert (writer.problems, writer.rows_moved) == ((), 4)
    writer.append(rows.make(2, 5))
    writer.close()
    assert runs.open(writer.folder).problems == ()


def test_rows_that_a_checkpoint_vouches_for_are_missed_at_the_end_too(vouched, rows):
    assert runs.open(vouched.folder).problems == ()
    lose(vouched, "000000005-000000008.parquet")
    assert runs.open(vouched.folder).problems == (LOST,)
    writer = RunWriter.resume(vouched.folder, 8, rows.PLACES)
    assert writer.problems == (LOST,)
    writer.close()


def test_all_rows_lost(vouched, rows):
    lose(vouched, "000000001-000000004.parquet", "000000005-000000008.parquet")
    assert runs.open(vouched.folder).problems == ("rows of steps 1 to 8 are missing",)


def test_a_damaged_segment_is_a_gap_too(vouched):
    path = vouched.folder / "signals/000000001-000000004.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    damaged, gap = runs.open(vouched.folder).problems
    assert path.name in damaged
    assert gap == "rows of steps 1 to 4 are missing"


def test_a_resume_back_is_no_gap(vouched, rows):
    RunWriter.resume(vouched.folder, 3, rows.PLACES).close()
    # Its ledger still knows of the checkpoint at step 8, of a history that was given up.
    assert runs.open(vouched.folder).problems == ()


def test_a_resume_that_was_killed_half_way_is_no_gap(vouched, rows):
    deaths = 0
    for number in range(1, 40):
        with rows.killed_before(number) as done:
            RunWriter.resume(vouched.folder, 3, rows.PLACES).close()
        assert runs.open(vouched.folder).problems == () or _only_temporary(vouched.folder)
        deaths += len(done.operations) == number
    assert deaths > 10


def _only_temporary(folder):
    return all("cut short" in problem for problem in runs.open(folder).problems)


def test_a_new_run_has_no_problems_and_moved_nothing(make):
    writer = make(steps=3)
    assert (writer.problems, writer.rows_moved) == ((), 0)
    writer.close()


def test_what_was_torn_is_in_the_writers_problems(make, rows):
    writer = make(steps=3)
    rows.die(writer)
    for name in ("signals/journal", "events.jsonl"):
        with (writer.folder / name).open("ab") as file:
            file.write(b"\x02torn")
    writer = RunWriter.resume(writer.folder, 3, rows.PLACES)
    writer.close()
    assert ["torn" in problem for problem in writer.problems] == [True, True]
    assert runs.open(writer.folder).events[-1].data["problems"] == list(writer.problems)


@pytest.mark.parametrize(
    ("steps", "end", "spans"),
    [
        ([], 0, []),
        ([], 7, [(1, 7)]),
        ([1], 0, []),
        ([1], 1, []),
        ([1], 3, [(2, 3)]),
        ([1, 2, 3, 4, 6, 7, 8, 9, 10], 0, [(5, 5)]),
        ([3, 4, 5, 6, 7, 8, 9, 10], 0, [(1, 2)]),
        ([*range(1, 9), 12, *range(20, 30)], 31, [(9, 11), (13, 19), (30, 31)]),
        ([10, 20, 30], 35, []),  # every tenth step
        ([1, 10, 20, 30, 40], 40, []),  # the first one too
        ([10, 20, 21, 22, 30, 40], 0, []),  # more where it was interesting
    ],
)
def test_which_jumps_are_gaps(steps, end, spans):
    assert missing(pl.Series(steps, dtype=pl.Int64), end) == spans


@pytest.mark.parametrize(
    ("spans", "told"),
    [
        ([], ()),
        ([(5, 5)], ("rows of step 5 are missing",)),
        ([(5, 8)], (LOST,)),
        ([(5, 8), (13, 13)], ("rows of steps 5 to 8 and 13 are missing",)),
        ([(2, 2), (5, 8), (13, 20)], ("rows of steps 2, 5 to 8 and 13 to 20 are missing",)),
    ],
)
def test_gaps_in_words(spans, told):
    assert tell(spans) == told
    assert all(sentence.startswith(TOLD) for sentence in told)


def test_many_gaps_are_counted():
    (told,) = tell([(n, n) for n in range(2, 2 + 2 * (MOST_SPANS + 1200), 2)])
    assert told.endswith("14, 16 and 1,200 more stretches are missing")
    assert len(told) < 100


def test_only_the_newest_attempt_vouches_for_rows():
    events = [
        Event(kind="checkpoint", step=90),
        Event(kind="resumed", step=40, attempt=1),
        Event(kind="checkpoint", step=50, attempt=1),
        Event(kind="action", step=70, attempt=1),
        Event(kind="checkpoint", attempt=1),
    ]
    assert reached(events, 1) == 50
    assert reached(events[:2], 1) == 40
    assert reached(events, 2) == 0
