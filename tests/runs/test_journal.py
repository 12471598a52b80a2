"""The journal: bit for bit what was written, and never a torn or altered frame taken for data."""

import struct
import zlib
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.records import StepRecord
from surefoot.runs.journal import Journal, encode, read_journal
from surefoot.runs.tables import to_frame

# The format as documented, decoded here a second time.
HEADER, FRAME = 16, 12


def ends_of_frames(data):
    """Offsets: of the header's end, and of each frame's end."""
    ends = [HEADER]
    while ends[-1] < len(data):
        _, length, _ = struct.unpack_from("<B3xII", data, ends[-1])
        ends.append(ends[-1] + FRAME + length)
    return ends


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "journal"
    path.write_bytes(encode(()))
    return path


@pytest.fixture
def written(path, rows):
    """The bytes of a journal of rows 1 to 7, with two layouts."""
    journal = Journal(path)
    for step in range(1, 8):
        journal.append(rows.make(0, step))
    journal.close()
    return path.read_bytes()


def bits(rows, contents):
    return rows.frame_bits(to_frame(contents.rows))


def test_the_format_is_as_documented(written, rows):
    assert written[:12] == b"surefoot" + struct.pack("<HH", 1, 0)
    assert struct.unpack_from("<I", written, 12)[0] == zlib.crc32(written[:12])
    ends = ends_of_frames(written)
    kinds = []
    for start, end in pairwise(ends):
        kind, length, crc = struct.unpack_from("<B3xII", written, start)
        body = written[start + FRAME : end]
        assert crc == zlib.crc32(written[start : start + 8] + body)
        assert length == len(body)
        kinds.append(kind)
    # A layout comes once, before its first row; steps 3 and 6 have another one.
    assert kinds == [1, 2, 2, 1, 2, 2, 2, 2, 2]
    first_row = written[ends[1] + FRAME : ends[2]]
    number, step, attempt, consumed, loss, _, *places = struct.unpack("<Iqiqfffff", first_row)
    assert (number, step, attempt, consumed) == (0, 1, 0, 1000 * 2**33)
    assert loss == np.float32(np.float32(1000) / 7)
    assert places == [1000, 1001, 1002]


def test_cut_off_at_every_byte_it_reads_the_whole_frames_before(written, path, rows):
    ends = ends_of_frames(written)
    kinds = [written[start] for start in ends[:-1]]
    for size in range(len(written) + 1):
        path.write_bytes(written[:size])
        contents = read_journal(path)
        whole = [end for end in ends if end <= size]
        steps = kinds[: max(0, len(whole) - 1)].count(2)
        assert [row.step for row in contents.rows] == list(range(1, steps + 1)), size
        assert contents.size == size
        assert (contents.problem is None) == (size in ends)
        if size not in ends:
            assert contents.good_bytes == (whole[-1] if whole else 0)
            assert f"torn at byte {contents.good_bytes}" in contents.problem
    assert bits(rows, contents) == rows.expected([(0, step) for step in range(1, 8)])


def test_any_flipped_bit_stops_reading_at_its_frame(written, path):
    ends = ends_of_frames(written)
    kinds = [written[start] for start in ends[:-1]]
    for byte in range(len(written)):
        for bit in {0, byte % 8}:
            data = bytearray(written)
            data[byte] ^= 1 << bit
            path.write_bytes(data)
            contents = read_journal(path)
            frame = sum(end <= byte for end in ends)  # 0 = the header
            steps = kinds[: max(0, frame - 1)].count(2)
            assert [row.step for row in contents.rows] == list(range(1, steps + 1)), (byte, bit)
            at = ends[frame - 1] if frame else 0
            assert f"at byte {at}" in contents.problem, (byte, bit)
            assert contents.good_bytes == at


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"\xff" * 50, b"\x02", b"surefoot" * 20])
def test_what_lies_behind_the_end_is_no_data(written, path, tail):
    # Zeros: what a file system may leave of blocks that were allocated and not written.
    path.write_bytes(written + tail)
    contents = read_journal(path)
    assert [row.step for row in contents.rows] == list(range(1, 8))
    assert contents.good_bytes == len(written)
    assert f"at byte {len(written)}" in contents.problem


def frame(kind, payload):
    head = struct.pack("<B3xI", kind, len(payload))
    return head + struct.pack("<I", zlib.crc32(payload, zlib.crc32(head))) + payload


@pytest.mark.parametrize(
    "extra",
    [
        frame(7, b"\0\0\0\0"),
        frame(2, struct.pack("<I", 9) + b"x" * 40),  # a row of a layout that was never given
        frame(2, struct.pack("<I", 0) + b"x" * 7),  # not as long as its layout
        frame(1, struct.pack("<I", 5) + b"{}"),  # a layout out of turn
        frame(2, b""),
    ],
)
def test_a_frame_that_is_whole_but_out_of_place_is_no_data(written, path, extra):
    path.write_bytes(written + extra)
    contents = read_journal(path)
    assert len(contents.rows) == 7
    assert contents.good_bytes == len(written)
    assert "out of place" in contents.problem


def test_a_newer_version_is_named(path):
    head = b"surefoot" + struct.pack("<HH", 2, 0)
    path.write_bytes(head + struct.pack("<I", zlib.crc32(head)))
    contents = read_journal(path)
    assert contents.problem == "written by a newer surefoot (version 2, this one reads 1)"
    assert contents.rows == ()


def test_a_missing_file_is_a_problem_and_no_error(tmp_path):
    contents = read_journal(tmp_path / "journal")
    assert contents.rows == ()
    assert "No such file" in contents.problem


def test_appending_goes_on_behind_what_was_read(written, path, rows):
    journal = Journal(path, read_journal(path).rows)
    journal.append(rows.make(0, 8))
    journal.append(rows.make(0, 9))
    journal.close()
    assert path.read_bytes().startswith(written)
    # Both layouts are known: two rows were added and nothing else.
    assert len(ends_of_frames(path.read_bytes())) == len(ends_of_frames(written)) + 2
    assert bits(rows, read_journal(path)) == rows.expected([(0, step) for step in range(1, 10)])


def test_reset_begins_anew_with_layouts_of_its_own(written, path, rows):
    journal = Journal(path, read_journal(path).rows)
    journal.reset()
    assert path.read_bytes() == encode(())
    journal.append(rows.make(0, 9))
    journal.close()
    assert bits(rows, read_journal(path)) == rows.expected([(0, 9)])


def test_who_reads_while_it_is_reset_sees_all_rows_or_none(written, path, rows):
    with path.open("rb") as reader:
        journal = Journal(path, read_journal(path).rows)
        journal.reset()
        journal.append(rows.make(0, 9))
        assert reader.read() == written, "the old file was changed under a reader"
        journal.close()


numbers = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1e-45, 3.4e38])
counters = st.integers(-(2**63), 2**63 - 1)
records = st.builds(
    lambda step, attempt, scalars, tokens, lists: StepRecord(
        step=step,
        attempt=attempt,
        values={**scalars, **({} if tokens is None else {"tokens": tokens})},
        places={name: np.array(values, dtype=np.float32) for name, values in lists.items()},
    ),
    st.just(0),
    st.integers(0, 2**31 - 1),
    st.dictionaries(st.sampled_from(["loss", "log_z", "mine", "é ü\n"]), numbers),
    st.none() | counters,
    st.dictionaries(st.sampled_from(["grad_norm", "loss", "q"]), st.lists(numbers, max_size=4)),
)


@given(st.lists(records, max_size=8))
@settings(max_examples=60, deadline=None)
def test_any_records_come_back_bit_for_bit(tmp_path_factory, rows, made):
    made = [replace(record, step=i + 1) for i, record in enumerate(made)]
    path = tmp_path_factory.mktemp("j") / "journal"
    path.write_bytes(encode(()))
    journal = Journal(path)
    for record in made:
        journal.append(record)
    journal.close()
    contents = read_journal(path)
    assert contents.problem is None
    expected = {(record.attempt, record.step): rows.record_bits(record) for record in made}
    assert bits(rows, contents) == expected
    # The same rows written at once, as after a resume, are the same rows.
    path.write_bytes(encode(contents.rows))
    assert bits(rows, read_journal(path)) == expected
