"""Blocks say the same as points, however the rows are cut into them, and long tables stay small."""

import math
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from surefoot.readers import table as table_module
from surefoot.readers.attempts import overlaps, winning
from surefoot.readers.blocks import Block
from surefoot.readers.gather import Gathered, Gatherer, gather
from surefoot.readers.names import Names
from surefoot.readers.points import Note, Point
from surefoot.readers.table import Table

KEYS = ("lm loss", "grad norm", "loss", "elapsed time per iteration (ms)", "own field")


def block_of(points: list[Point]) -> Block:
    """The points as one block; independent of how the reader takes one apart."""
    values, rows = {}, {}
    for row, point in enumerate(points):
        for key, value in point.values.items():
            values.setdefault(key, []).append(value)
            rows.setdefault(key, []).append(row)
    full = {key for key, at in rows.items() if len(at) == len(points)}
    times = [math.nan if point.time is None else point.time for point in points]
    return Block(
        np.array([point.step for point in points], np.int64),
        {key: np.array(told, np.float64) for key, told in values.items()},
        {key: np.array(at, np.int64) for key, at in rows.items() if key not in full},
        rank=points[0].rank if points else None,
        times=None if all(map(math.isnan, times)) else np.array(times),
    )


def plain(gathered: Gathered) -> tuple:
    frame = gathered.frame.sort("attempt", "step", maintain_order=True)
    names = {column: (n.key, n.factor, n.known) for column, n in gathered.names.items()}
    return frame.select(sorted(frame.columns)), names, gathered.conflicts, gathered.events


def same(first: Gathered, second: Gathered) -> None:
    (a, *others), (b, *expected) = plain(first), plain(second)
    assert_frame_equal(a, b, check_exact=True)
    assert others == expected


@st.composite
def rows(draw) -> list[Point]:
    """Rows as logs have them: long rises, restarts far and near, repeats, gaps in columns."""
    points: list[Point] = []
    step = draw(st.integers(-3, 1000))
    for _ in range(draw(st.integers(1, 6))):
        length = draw(st.integers(1, 70))
        stride = draw(st.integers(1, 10))
        told = draw(st.sets(st.sampled_from(KEYS), min_size=1))
        odd = draw(st.sampled_from([0, 0, 0.1, 0.5]))
        random = draw(st.randoms(use_true_random=False))
        for _ in range(length):
            keys = [key for key in KEYS if key in told and random.random() >= odd]
            values = {
                key: random.choice([0.5, 1.0, -1.0, math.nan, step / 3, step / 7]) for key in keys
            }
            time = random.choice([None, 1e9 + step]) if odd else None
            points.append(Point(step, values, time=time))
            if odd and random.random() < 0.1:  # a second rank's line, or half of a record
                points.append(Point(step - random.choice([0, 0, 0, 1, 2]), {"loss": step / 3}))
            step += stride
        step -= draw(st.sampled_from([0, 1, 2, 3, 20, 300])) + stride
    return points


@settings(max_examples=100, deadline=None)
@given(points=rows(), data=st.data())
def test_blocks_however_cut_equal_points(points, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(points)), max_size=3)))
    ends = [0, *cuts, len(points)]
    blocks = [block_of(points[a:b]) for a, b in pairwise(ends)]
    same(gather(blocks, Names()), gather(points, Names()))


@settings(max_examples=100, deadline=None)
@given(points=rows(), data=st.data())
def test_blocks_between_points_and_notes_equal_points(points, data):
    at = data.draw(st.integers(0, len(points)))
    step = points[at - 1].step
    between = data.draw(
        st.lists(
            st.sampled_from(
                [
                    Note("resumed", step),
                    Note("update_skipped"),
                    Point(None, {"time/forward (ms)": 3.0}),
                    Point(step, {"validation loss": 1.5}, evaluation=True),
                    Point(step + 30, {"validation loss": 1.5}, evaluation=True),
                ]
            ),
            max_size=3,
        )
    )
    head, tail = points[:at], points[at:]
    same(
        gather([block_of(head), *between, block_of(tail)], Names()),
        gather([*head, *between, *tail], Names()),
    )


def test_blocks_of_two_ranks_that_tell_other_quantities_are_joined():
    steps = np.array([*range(0, 100), *range(60, 160)])
    first = Block(steps, {"loss": steps / 8}, rank=0)
    second = Block(steps, {"grad norm": steps / 4}, rank=5)
    points = [
        Point(int(step), {key: step / over}, rank=rank)
        for rank, key, over in ((0, "loss", 8), (5, "grad norm", 4))
        for step in steps
    ]
    same(gather([first, second], Names()), gather(points, Names()))


@pytest.fixture
def small_table(monkeypatch):
    monkeypatch.setattr(table_module, "MOST_ROWS", 50)


@settings(max_examples=60, deadline=None)
@given(points=rows())
def test_a_table_put_into_files_is_the_same(points):
    whole = gather(points, Names())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "MOST_ROWS", 20)
        same(gather([block_of(points)], Names()), whole)
        same(gather(points, Names()), whole)


def test_counters_of_a_spilled_table_keep_one_type(small_table):
    steps = np.arange(200, dtype=np.int64)
    whole = steps.astype(np.float64) * 4
    broken = whole.copy()
    broken[150] = np.nan
    values = {"consumed samples": whole, "batch_size": broken}
    frame = gather(
        [
            Block(steps[:100], {k: v[:100] for k, v in values.items()}),
            Block(steps[100:], {k: v[100:] for k, v in values.items()}),
        ],
        Names(),
    ).frame
    assert frame.schema["consumed_samples"] == pl.Int64
    assert frame["consumed_samples"].to_list() == [4 * n for n in range(200)]
    assert frame.schema["batch_size"] == pl.Float64
    assert frame["batch_size"][149] == 596.0
    assert math.isnan(frame["batch_size"][150])
    assert frame.n_chunks() > 1


def test_without_room_for_files_the_table_stays_in_memory(small_table, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("surefoot.readers.spill.tempfile.NamedTemporaryFile", full)
    steps = np.arange(300, dtype=np.int64)
    frame = gather([Block(steps, {"loss": steps / 7})], Names()).frame
    assert frame["loss"].to_list() == [n / 7 for n in range(300)]


def test_no_temporary_file_is_left(small_table, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    steps = np.arange(301, dtype=np.int64)
    frame = gather([Block(steps, {"loss": steps / 7, "lr": steps / 9})], Names()).frame
    assert list(tmp_path.iterdir()) == []
    assert frame["learning_rate"].to_list() == [n / 9 for n in range(301)]


def test_a_long_table_is_gathered_in_little_memory():
    resource = pytest.importorskip("resource")
    import os
    import subprocess
    import sys

    code = """
import resource
import numpy as np
from surefoot.readers.gather import Gatherer
from surefoot.readers.names import Names
from surefoot.readers.blocks import Block
from surefoot.readers.attempts import winning
def anonymous():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("RssAnon"))
gatherer = Gatherer(Names())
keys = [f"field {n}" for n in range(10)]
most = before = 0
for begin in range(0, 4_000_000, 100_000):
    steps = np.arange(begin, begin + 100_000)
    gatherer.take(Block(steps, {key: steps * 0.5 for key in keys}))
    before = before or anonymous()
    most = max(most, anonymous())
frame = gatherer.gathered().frame
kept, lost = winning(frame)
most = max(most, anonymous())
assert len(kept) == 4_000_000 and kept["field_3"][3_999_999] == 3_999_999 * 0.5
print((most - before) // 1024)
"""
    if not os.path.exists("/proc/self/status"):
        pytest.skip("memory is only told on Linux")
    del resource
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(out.stdout) < 330  # MiB; 4 million rows of 11 columns are 352


def test_a_block_whose_columns_do_not_fit_is_refused():
    with pytest.raises(ValueError, match="loss: expected 3 numbers, got 2"):
        Block(np.arange(3), {"loss": np.zeros(2)})
    with pytest.raises(ValueError, match="loss: expected 1 numbers, got 2"):
        Block(np.arange(3), {"loss": np.zeros(2)}, {"loss": np.array([1])})


def test_an_empty_block_tells_nothing():
    assert Gatherer(Names()).take(Block(np.array([], np.int64), {})) is None


def test_a_block_is_told_where_its_last_row_went():
    gatherer = Gatherer(Names())
    steps = np.array([*range(100), *range(50, 120)])
    assert gatherer.take(Block(steps, {"loss": steps * 1.0})) == (1, 119)


def frame_of(*attempts: range) -> pl.DataFrame:
    rows = [(s, n, n + s / 8) for n, steps in enumerate(attempts) for s in steps]
    schema = {"step": pl.Int64, "attempt": pl.Int32, "loss": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def by_hand(frame: pl.DataFrame) -> tuple[list, list]:
    """Winning rows by the rule itself: a row wins unless a later attempt began at or before it."""
    all_rows = frame.rows()
    kept, lost = [], []
    for row in all_rows:
        later = [other[0] for other in all_rows if other[1] > row[1]]
        (lost if later and min(later) <= row[0] else kept).append(row)
    return sorted(kept), sorted(lost, key=lambda row: (row[1], row[0]))


@settings(max_examples=100, deadline=None)
@given(
    attempts=st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(1, 4)), min_size=1, max_size=5
    ),
    shuffled=st.randoms(use_true_random=False),
    mixed=st.booleans(),
)
def test_winning_rows_are_those_no_later_attempt_went_over(attempts, shuffled, mixed):
    frame = frame_of(*(range(a, a + n * by, by) for a, n, by in attempts))
    if mixed:
        order = list(range(len(frame)))
        shuffled.shuffle(order)
        frame = frame[order]
    kept, lost = winning(frame)
    expected, over = by_hand(frame)
    assert kept.rows() == expected
    assert lost.rows() == over


def test_overlaps_compare_an_attempt_with_the_newest_of_the_earlier_ones():
    frame = frame_of(range(0, 10), range(5, 12), range(8, 9), range(20, 21))
    frame = frame.with_columns(loss=pl.col("step") / 4 + (pl.col("attempt") == 2) * 0.5)
    assert overlaps(frame) == [
        {"attempts": [0, 1], "steps": [5, 9], "count": 5, "equal": True, "first_different": None,
         "largest": 0.0},
        {"attempts": [1, 2], "steps": [8, 8], "count": 1, "equal": False, "first_different": 8,
         "largest": 0.5},
    ]  # fmt: skip


def test_a_row_opened_twice_is_one_row_and_the_first_value_stays():
    table = Table()
    table.add_block(0, np.arange(0, 5), [])
    table.add(0, 7, {"loss": 1.0})
    table.add_block(0, np.arange(8, 12), [])  # closes step 7
    table.add(0, 7, {"loss": 2.0, "lr": 0.5})
    table.add(0, 9, {"lr": 0.25})
    frame = table.frame().sort("step")
    assert frame["step"].to_list() == [0, 1, 2, 3, 4, 7, 8, 9, 10, 11]
    assert frame.row(5, named=True) == {"step": 7, "attempt": 0, "loss": 1.0, "lr": 0.5}
    assert frame["lr"][7] == 0.25
