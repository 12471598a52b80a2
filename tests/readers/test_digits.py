"""Numbers read many at a time are those that ``float`` reads one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.readers.columnar.chunks import padded
from surefoot.readers.columnar.digits import numbers
from surefoot.readers.columnar.layouts import layouts, lines_of

FORMATS = ["{:.6E}", "{:.3f}", "{:.3E}", "{:5.2f}", "{:+.4e}", "{:.1f}", "{:.12g}"]
VALUES = st.floats(-1e12, 1e12, allow_nan=False).map(lambda x: x if abs(x) > 1e-12 else 0.0)


def matrix(rows: list[str]) -> np.ndarray:
    width = max(map(len, rows))
    return np.array([list(row.rjust(width).encode()) for row in rows], np.uint8)


@given(st.sampled_from(FORMATS), st.lists(VALUES, min_size=1, max_size=20))
@settings(max_examples=400, deadline=None)
def test_is_float_wherever_it_says_so(form, values):
    rows = [f" {form.format(value)} " for value in values]
    found, good = numbers(matrix(rows))
    for row, value, told in zip(rows, found, good, strict=True):
        assert not told or value == float(row), row


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_whole_numbers_are_all_read(values):
    """Right-aligned as ``{:12d}``: what trainers print of counters."""
    found, good = numbers(matrix([f"{value:14d}" for value in values]))
    assert good.all()
    assert found.tolist() == values


def test_lines_as_trainers_print_them_are_all_read():
    rng = np.random.default_rng(0)
    for form, scale in (("{:.6E}", 3.0), ("{:.3f}", 900.0), ("{:.3E}", 1e-4), ("{:8.2f}", 99.0)):
        rows = [f" {form.format(scale * (0.1 + 0.9 * x))}" for x in rng.random(500)]
        rows = [row for row in rows if len(row) == len(rows[0])]
        found, good = numbers(matrix(rows))
        assert good.all()
        assert found.tolist() == [float(row) for row in rows]


@pytest.mark.parametrize(
    "rows",
    [
        ["1 2", "3 4"], ["-", "1"], ["--1", "-12"], [" .", "1."], ["1E", "2E"], ["1E+", "1E1"],
        ["+-1", "  1"], ["1. 5", "2.15"], ["1 ", "12"], ["1E 1", "1E 2"], ["- 1", "-11"],
        ["  ", "12"], ["  ", "  "], ["+", "1"], ["e1", "1e"], ["nan", "123"], ["1_0", "120"],
        ["1.2.3", "12345"], ["0x1f", "0123"], ["1e400", "2e400"], ["１２", "34"],
    ],
)  # fmt: skip
def test_what_is_no_number_is_never_told_as_one(rows):
    width = max(len(row.encode()) for row in rows)
    field = np.array([list(row.encode().rjust(width)) for row in rows], np.uint8)
    found, good = numbers(field)
    for row, value, told in zip(rows, found, good, strict=True):
        if told:
            assert value == float(row)
        try:
            float(row)
        except ValueError:
            assert not told, row


def test_long_mantissas_and_large_exponents_are_left_to_the_slow_way():
    _, good = numbers(matrix(["12345678901234567890", "22345678901234567890"]))
    assert not good.any()
    found, good = numbers(matrix(["1.0E+30", "1.5E+10"]))
    assert good.tolist() == [False, True]
    assert found[1] == 1.5e10
    _, good = numbers(matrix(["9007199254740993", "9007199254740991"]))
    assert good.tolist() == [False, True]


def test_layouts_are_lines_whose_separators_stand_at_the_same_places():
    lines = [f"a: {i:3d} | b: {i}.5 |" for i in range(10, 30)]
    lines[3:3] = ["no separator here", "a: 1 | short"]
    lines.append("|" * 22)
    data, starts, ends = lines_of(padded(("\n".join(lines) + "\n").encode()))
    found, rest = layouts(data, starts, ends, ord("|"))
    assert [len(layout.lines) for layout in found] == [20]
    assert found[0].bars.tolist() == [7, 17, 18]
    assert bytes(found[0].matrix[0, : found[0].width]) == b"a:  10 | b: 10.5 |"
    assert rest.tolist() == [3, 4, 22]


def test_lines_end_before_crlf():
    _, starts, ends = lines_of(padded(b"ab\r\n\r\nc\n"))
    assert (starts.tolist(), ends.tolist()) == ([0, 4, 6], [2, 4, 7])
