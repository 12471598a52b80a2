"""The split is by document, by the document's own identity, and leaves no side empty."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.data.sources import Document
from surefoot.data.split import SplitBuilder, share_of


def split_of(keys, seed=1, fraction=0.1):
    builder = SplitBuilder(seed, fraction)
    for key in keys:
        builder.see(key)
    return builder.build()


def test_shares_are_uniform_and_depend_on_the_seed():
    shares = [share_of(1, f"a/{i}.txt#0") for i in range(20_000)]
    assert abs(sum(shares) / len(shares) - 0.5) < 5 * 0.2887 / 20_000**0.5
    for cut in (0.01, 0.1, 0.5):
        count = sum(share < cut for share in shares)
        assert abs(count - 20_000 * cut) < 5 * (20_000 * cut * (1 - cut)) ** 0.5
    other = [share_of(2, f"a/{i}.txt#0") for i in range(20_000)]
    both = sum(a < 0.1 and b < 0.1 for a, b in zip(shares, other, strict=True))
    assert abs(both - 200) < 5 * 200**0.5


def test_golden_shares():
    """Which documents are held out must never change: these numbers may not be edited."""
    assert [share_of(1, "a.txt#0"), share_of(10**20, "é/🙂.jsonl#12"), share_of(-3, "")] == GOLDEN


GOLDEN = [0.013968781165166755, 0.9974815222375455, 0.4345147309029722]


def test_other_documents_make_no_difference():
    keys = [f"{i}#0" for i in range(1000)]
    whole, part = split_of(keys), split_of(keys[::3])
    assert all(whole.holds_out(key) == part.holds_out(key) for key in keys)


@given(
    keys=st.lists(st.text(max_size=5), min_size=2, max_size=12, unique=True),
    seed=st.integers(0, 2**70),
    fraction=st.floats(0.001, 0.999),
)
@settings(deadline=None, max_examples=100, database=None)
def test_no_side_is_empty_and_at_most_one_document_moves(keys, seed, fraction):
    split = split_of(keys, seed, fraction)
    held = [split.holds_out(key) for key in keys]
    assert 0 < sum(held) < len(keys)
    by_share = [share_of(seed, key) < fraction for key in keys]
    assert sum(a != b for a, b in zip(held, by_share, strict=True)) <= 1
    if 0 < sum(by_share) < len(keys):
        assert held == by_share


def parts(text, fraction=0.1):
    document = Document("a.txt", 4, text)
    split = split_of([document.key], fraction=fraction)
    assert split.single
    return [(d.number, d.text, held) for d, held in split.assign([document])]


def test_a_single_document_is_cut_at_a_line_break():
    text = "".join(f"line {i}\n" for i in range(100))
    [(first, kept, no), (second, held, yes)] = parts(text)
    assert (first, no, second, yes) == (4, False, 5, True)
    assert kept + held == text
    assert held.startswith("line ")
    assert 0.1 <= len(held) / len(text) < 0.12


@pytest.mark.parametrize("text", ["x" * 100, "\n" + "x" * 99, "ab"])
def test_a_single_document_without_line_breaks_is_cut_too(text):
    [(_, kept, no), (_, held, yes)] = parts(text)
    assert (kept + held, no, yes) == (text, False, True)


def test_a_single_character_gives_one_part():
    assert parts("x") == [(5, "x", True)]
