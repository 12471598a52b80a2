"""Names, counts and sizes in messages."""

import pytest

from surefoot.recipe.words import count, printable, short, size


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (12, "12 bytes"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (1234, "1.23 kB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (12_600_000, "12.6 MB"),
        (8 * 10**9, "8 GB"),
        (3 * 10**12, "3 TB"),
        (4 * 10**15, "4 PB"),
    ],
)
def test_sizes(number, text):
    assert size(number) == text


def test_counts():
    assert [count(n, "file") for n in (0, 1, 2)] == ["0 files", "1 file", "2 files"]


def test_short():
    assert short("x" * 60) == "x" * 60
    assert short("x" * 61) == "x" * 57 + "..."


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a b/é日🙂.txt", "a b/é日🙂.txt"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\nb\t\x7f", r"a\nb\t\x7f"),
        ("é\udcff", r"é\udcff"),
        ("a\u202eb", r"a\u202eb"),
    ],
)
def test_printable(name, text):
    assert printable(name) == text
    assert printable(name).isprintable()
