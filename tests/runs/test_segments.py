"""Segments: checked before they are parsed, merged without losing a row, wider ones preferred."""

import time

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot import runs
from surefoot.runs import segments
from surefoot.runs.layout import Layout, Row
from surefoot.runs.segments import Segment, commit, load, mergeable, read_segments
from surefoot.runs.tables import to_frame, unite, winning

pytestmark = pytest.mark.usefixtures("no_fsync")


@pytest.fixture
def table(rows):
    """Makes the table of the rows of these steps of an attempt."""

    def call(first, last, attempt=0):
        made = [rows.make(attempt, step) for step in range(first, last + 1)]
        layouts = [Layout.of(record) for record in made]
        return to_frame(
            [Row(layout, layout.pack(r)) for layout, r in zip(layouts, made, strict=True)]
        )

    return call


def span(rows, first, last, attempt=0):
    return rows.expected([(attempt, step) for step in range(first, last + 1)])


def test_a_segment_comes_back_bit_for_bit(table, rows, tmp_path):
    segment = commit(tmp_path, table(5, 30))
    assert segment.path.name == "000000005-000000030.parquet"
    assert rows.frame_bits(load(segment)) == span(rows, 5, 30)


def test_odd_floats_survive_in_scalars_and_lists(rows, tmp_path):
    frame = pl.DataFrame(
        [
            pl.Series("step", range(1, len(rows.ODD) + 1), dtype=pl.Int64),
            pl.Series("attempt", [0] * len(rows.ODD), dtype=pl.Int32),
            pl.Series("loss", rows.ODD),
            pl.Series("grad_norm@places", rows.ODD.reshape(-1, 1)).arr.to_list(),
        ]
    )
    found = rows.frame_bits(load(commit(tmp_path, frame)))
    bits = rows.ODD.view("uint32").tolist()
    assert [found[0, i + 1] for i in range(len(bits))] == [
        {"loss": b, "grad_norm@places": (b,)} for b in bits
    ]


def test_lists_without_places_differ_from_no_list(tmp_path):
    frame = pl.DataFrame(
        {"step": [1, 2], "attempt": [0, 0], "grad_norm@places": [[], None]},
        schema={"step": pl.Int64, "attempt": pl.Int32, "grad_norm@places": pl.List(pl.Float32)},
    )
    assert load(commit(tmp_path, frame))["grad_norm@places"].to_list() == [[], None]


def test_any_flipped_bit_or_cut_is_found_before_parsing(table, tmp_path, monkeypatch):
    segment = commit(tmp_path, table(1, 5))
    data = segment.path.read_bytes()
    monkeypatch.setattr(pl, "read_parquet", lambda *args, **kwargs: pytest.fail("was parsed"))
    for byte in range(0, len(data), 41):
        altered = bytearray(data)
        altered[byte] ^= 1 << byte % 8
        segment.path.write_bytes(altered)
        with pytest.raises(ValueError, match="torn"):
            load(segment)
    for size in range(0, len(data), 397):
        segment.path.write_bytes(data[:size])
        with pytest.raises(ValueError, match="torn"):
            load(segment)


def test_what_is_foreign_torn_or_misnamed_is_reported_and_left_out(table, rows, tmp_path):
    good = commit(tmp_path, table(1, 4))
    data = good.path.read_bytes()
    pl.DataFrame({"step": [5]}).write_parquet(tmp_path / "000000005-000000005.parquet")
    (tmp_path / "000000006-000000007.parquet").write_bytes(b"")
    (tmp_path / "000000008-000000009.parquet").write_bytes(data)
    (tmp_path / "000000010-000000011.parquet").mkdir()
    (tmp_path / "000000012-000000013.parquet").symlink_to(tmp_path / "nowhere")
    (tmp_path / "000000014-000000015.parquet.tmp").write_bytes(b"half")
    (tmp_path / "1-2.parquet").write_bytes(data)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "000000016-000000017.parquet.damaged").touch()  # known: a resume set it aside
    (tmp_path / "journal").touch()
    found = read_segments(tmp_path, ("journal",))
    assert [segment for segment, _ in found.good] == [good]
    assert rows.frame_bits(unite(found.frames)) == span(rows, 1, 4)
    problems = "\n".join(found.problems)
    for part in (
        "000000005-000000005.parquet is torn or foreign: it has no checksum of surefoot",
        "000000006-000000007.parquet is torn or foreign",
        "000000008-000000009.parquet does not hold the steps of its name, but 1 to 4",
        "000000010-000000011.parquet cannot be read (Is a directory)",
        "000000012-000000013.parquet cannot be read (No such file or directory)",
        "000000014-000000015.parquet.tmp is what a write that was cut short left; ignored",
        "1-2.parquet does not belong here; ignored",
        "notes.txt does not belong here; ignored",
    ):
        assert part in problems
    assert len(found.problems) == 8


def test_a_missing_folder_is_empty(tmp_path):
    assert read_segments(tmp_path / "no") == segments.Segments()


def test_the_wider_is_preferred_and_the_parts_are_used_where_it_is_damaged(table, rows, tmp_path):
    parts = [commit(tmp_path, table(1, 4)), commit(tmp_path, table(5, 8))]
    wide = commit(tmp_path, table(1, 8))
    found = read_segments(tmp_path)
    assert [segment for segment, _ in found.good] == [wide]
    assert sorted(found.covered) == parts
    assert found.problems == ()
    wide.path.write_bytes(wide.path.read_bytes()[:-1])
    found = read_segments(tmp_path)
    assert [segment for segment, _ in found.good] == parts
    assert rows.frame_bits(unite(found.frames)) == span(rows, 1, 8)


def test_a_part_merged_away_while_reading_is_found_in_the_merged_one(
    table, rows, tmp_path, monkeypatch
):
    parts = [commit(tmp_path, table(1, 4)), commit(tmp_path, table(5, 8))]
    real = segments.load

    def load_late(segment):
        if segment == parts[1] and segment.path.exists():
            commit(tmp_path, table(1, 8))
            for part in parts:
                part.path.unlink()
        return real(segment)

    monkeypatch.setattr(segments, "load", load_late)
    found = read_segments(tmp_path)
    assert rows.frame_bits(unite(found.frames)) == span(rows, 1, 8)
    assert found.problems == ()


def test_merging_reads_as_before_and_leaves_few_files(table, rows, tmp_path):
    for step in range(1, 65):
        commit(tmp_path, table(step, step))
        segments.merge_newest(tmp_path)
    assert len(list(tmp_path.iterdir())) < 16
    found = read_segments(tmp_path)
    assert found.problems == ()
    assert found.covered == ()
    assert rows.frame_bits(unite(found.frames)) == span(rows, 1, 64)


def test_a_damaged_part_is_not_merged_over(table, rows, tmp_path):
    listed = [commit(tmp_path, table(step, step)) for step in range(1, 12)]
    damaged = listed[2].path
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    before = damaged.read_bytes()
    segments.merge_newest(tmp_path)
    assert damaged.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(segment.path.name for segment in listed[:3]),
        "000000004-000000011.parquet",
    ]
    found = read_segments(tmp_path)
    assert rows.frame_bits(unite(found.frames)) == span(rows, 1, 2) | span(rows, 4, 11)
    assert len(found.problems) == 1


def test_a_merge_that_takes_the_name_of_a_part_keeps_it(table, rows, tmp_path):
    commit(tmp_path, unite([table(1, 1), table(20, 20)]))  # a leftover, with gaps
    for step in range(2, 11):
        commit(tmp_path, table(step, step))
    segments.merge_newest(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["000000001-000000020.parquet"]
    found = rows.frame_bits(unite(read_segments(tmp_path).frames))
    assert found == span(rows, 1, 10) | span(rows, 20, 20)


@given(st.lists(st.integers(1, 64), min_size=1, max_size=400), st.integers(64, 1000))
@settings(max_examples=40, deadline=None)
def test_the_merge_rule_bounds_files_and_rewriting(arrivals, limit):
    sizes, rewritten = [], 0
    for size in arrivals:
        sizes.append(size)
        number = mergeable(sizes, limit)
        if number:
            group = sizes[-number:]
            assert number >= 8
            assert sum(group) <= limit
            assert 2 * max(group) <= sum(group)
            rewritten += sum(group)
            sizes[-number:] = [sum(group)]
    assert sum(sizes) == sum(arrivals)
    # Each row is rewritten only when its file at least doubles.
    assert rewritten <= sum(arrivals) * limit.bit_length()


def test_a_long_run_ends_in_files_near_the_limit():
    sizes = []
    for _ in range(10_000):
        sizes.append(4)
        number = mergeable(sizes, 640)
        if number:
            sizes[-number:] = [sum(sizes[-number:])]
    assert sizes[: 10_000 * 4 // 640 - 2] == [sizes[0]] * (10_000 * 4 // 640 - 2)
    assert 320 < sizes[0] <= 640
    assert len(sizes) < 10_000 * 4 // 320 + 40


def test_a_wider_range_with_gaps_does_not_hide_the_rows_within(table, rows, tmp_path):
    inner = commit(tmp_path, table(3, 4))
    commit(tmp_path, unite([table(1, 2), table(5, 6)]))
    found = read_segments(tmp_path)
    assert found.covered == ()
    assert inner in [segment for segment, _ in found.good]
    assert rows.frame_bits(unite(found.frames)) == span(rows, 1, 6)


def test_covers():
    def make(first, last):
        return Segment(first, last, None)

    assert make(1, 8).covers(make(1, 4))
    assert make(1, 8).covers(make(5, 8))
    assert not make(1, 8).covers(make(1, 8))
    assert not make(1, 8).covers(make(8, 9))
    assert not make(2, 8).covers(make(1, 4))


def test_unite_takes_each_row_once_and_fills_missing_columns(table, rows):
    frames = [table(3, 6), table(1, 4), table(5, 5, attempt=1), pl.DataFrame()]
    united = unite(frames)
    keys = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 6), (1, 5)]
    assert united.select("attempt", "step").rows() == keys
    assert rows.frame_bits(united) == rows.expected(keys)
    assert unite([]).is_empty()


def test_a_signal_that_became_a_counter_is_still_read(tmp_path):
    # Rows written when the catalogue did not know `tokens` as a counter.
    frame = pl.DataFrame(
        {"step": [1], "attempt": [0], "tokens": [3.0]},
        schema={"step": pl.Int64, "attempt": pl.Int32, "tokens": pl.Float32},
    )
    assert unite([frame])["tokens"].to_list() == [3]


def naive_winning(keys):
    """Row (a, s) wins unless a later attempt has a row at s or before."""
    return {(a, s) for a, s in keys if not any(later > a and first <= s for later, first in keys)}


@given(st.sets(st.tuples(st.integers(0, 4), st.integers(1, 12)), max_size=30))
@settings(max_examples=80, deadline=None)
def test_the_winning_history_is_each_attempt_up_to_the_next(keys):
    frame = pl.DataFrame(
        [(s, a) for a, s in sorted(keys)],
        schema={"step": pl.Int64, "attempt": pl.Int32},
        orient="row",
    )
    found = winning(frame)
    assert set(found.select("attempt", "step").rows()) == naive_winning(keys)
    steps = found["step"].to_list()
    assert steps == sorted(set(steps))
    assert found["attempt"].is_sorted()


def test_a_run_of_100_000_steps_opens_in_two_seconds(make, rows, tmp_path):
    writer = make()
    generator = np.random.default_rng(1)
    scalars = ["loss", "log_z", "z_loss", "clip_factor", "learning_rate", "loss_scale"]
    for start in range(1, 100_001, 20_000):
        steps = np.arange(start, start + 20_000)
        frame = pl.DataFrame(
            [
                pl.Series("step", steps),
                pl.Series("attempt", np.zeros(20_000, dtype=np.int32)),
                *(
                    pl.Series(name, generator.normal(size=20_000).astype(np.float32))
                    for name in scalars
                ),
                pl.Series(
                    "grad_norm@places", generator.normal(size=(20_000, 60)).astype(np.float32)
                ).arr.to_list(),
            ]
        )
        commit(writer.folder / "signals", frame)
    writer.close()
    seconds = []
    for _ in range(3):
        # CPU seconds, as the machine may be busy with other tests.
        begin = time.process_time()
        run = runs.open(writer.folder)
        seconds.append(time.process_time() - begin)
    assert run.signals.shape == (100_000, 9)
    assert run.problems == ()
    assert min(seconds) < 2
