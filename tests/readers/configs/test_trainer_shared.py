"""Durations, references and mixtures that several formats share."""

import itertools
import time

import pytest

from surefoot.readers.configs.documents.tree import Document, Leaf
from surefoot.readers.configs.trainers._references import resolved
from surefoot.readers.configs.trainers._shared import duration, share, under


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("100ba", (100.0, "ba")),
        ("0.02dur", (0.02, "dur")),
        ("1_000tok", (1000.0, "tok")),
        ("3e12T", (3e12, "t")),
        (" 2ep ", (2.0, "ep")),
        (500, (500.0, "")),
        ("739328", (739328.0, "")),
    ],
)
def test_durations(written, expected):
    assert duration(written) == expected


@pytest.mark.parametrize("written", ["soon", "ba", "", "1 2", "1e999ba", "-3ba", True, None])
def test_no_durations(written):
    with pytest.raises(ValueError, match="duration"):
        duration(written)


def test_shares():
    assert [share(v) for v in (0.1, 1, 0, -0.5, True, "0.1", 3)] == [0.1, *[None] * 6]


def test_keys_of_a_table():
    assert under("a", "b c") == {"a.b", "a.c"}


def values(**leaves):
    """The document's values with the references put in; open ones as their reason."""
    named = {k.replace("__", "."): v for k, v in leaves.items()}
    found = resolved(Document("x", "yaml", {k: Leaf(k, v, 1) for k, v in named.items()}))
    return {k: leaf.open or leaf.value for k, leaf in found.leaves.items()}


def test_references_keep_their_kind():
    found = values(n=4, a__width=8, a__copy="${.width}", whole="${a.width}", text="x${n}y",
                   far="${a.copy}", none=None, no="${none}", named="${none}.pt")  # fmt: skip
    assert found == {"n": 4, "a.width": 8, "a.copy": 8, "whole": 8, "text": "x4y", "far": 8,
                     "none": None, "no": None, "named": "null.pt"}  # fmt: skip


def test_relative_references_go_up():
    assert values(a__b__c="${..d}", a__d=3)["a.b.c"] == 3


def test_sums():
    found = values(
        a=6, b=4, p="${multiply:${a}, ${b}}", d="${divide:${a},${b}}", s="${sum:${a},-1}"
    )
    assert (found["p"], found["d"], found["s"]) == (24, 1.5, 5)
    assert "division" in values(a=0, d="${divide:1,${a}}")["d"]


def test_what_only_a_run_would_give():
    assert "environment" not in str(values(a="${oc.env:HOME}")["a"])
    assert "without running" in values(a="${oc.env:HOME}")["a"]
    assert "not stated" in values(a="${b}")["a"]
    circle = values(a="${b}", b="${a}")
    assert "not resolved" in circle["a"]
    assert "not resolved" in circle["b"]
    assert values(a=("${b}", 2), b=1)["a"] == (1, 2)


def test_a_long_chain_is_cut():
    chain = {f"n{i}": f"${{n{i + 1}}}" for i in range(5000)}
    found = values(**chain, n5000=7)
    assert found["n4990"] == 7
    assert "not resolved" in found["n0"]


def test_references_do_not_grow():
    """Each refers twice to the next: what they stand for doubles with each."""
    names = [f"n{i}" for i in range(60)]
    chain = {a: f"${{{b}}}${{{b}}}" for a, b in itertools.pairwise(names)}
    began = time.process_time()
    found = values(**chain, n59="x" * 1000)
    assert all(len(str(value)) < 5000 for value in found.values())
    assert time.process_time() - began < 2


def test_many_references_take_linear_time():
    began = time.process_time()
    values(a="${b}" * 500_000, b="x" * 1_000_000, c="${" * 1_000_000, d="}" * 1_000_000)
    assert time.process_time() - began < 3
