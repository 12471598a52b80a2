"""Columns with gaps reach polars as they are, and live as long as they are used."""

import gc

import numpy as np
import polars as pl
import pytest

from surefoot.readers import arrow
from surefoot.readers.arrow import Gapped
from surefoot.readers.spill import Spill


@pytest.mark.parametrize("kind", [np.float64, np.int64, np.int32])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 1000, 4097])
def test_values_and_gaps_are_those_given(kind, count):
    rng = np.random.default_rng(count)
    values = rng.integers(-100, 100, count).astype(kind)
    told = rng.random(count) < 0.6
    bits = np.packbits(told, bitorder="little")
    series = pl.Series("x", Gapped(values, bits, int((~told).sum())))
    assert series.to_list() == [
        v if t else None for v, t in zip(values.tolist(), told, strict=True)
    ]
    assert series.null_count() == int((~told).sum())


def test_what_is_handed_over_lives_as_long_as_the_series_and_no_longer():
    before = len(arrow._held)
    values = np.arange(1000.0)
    told = values % 3 == 0
    series = pl.Series(
        "x", Gapped(values, np.packbits(told, bitorder="little"), int((~told).sum()))
    )
    del values
    gc.collect()
    part = series[3:6]
    del series
    gc.collect()
    assert part.to_list() == [3.0, None, None]
    assert len(arrow._held) == before + 1
    del part
    gc.collect()
    assert len(arrow._held) == before


def test_a_spilled_frame_is_the_frame(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    rng = np.random.default_rng(1)
    pieces = []
    for index in range(3):
        count = 1000 + index
        told = rng.random(count) < 0.5
        piece = pl.DataFrame(
            {
                "step": np.arange(count, dtype=np.int64) + 10_000 * index,
                "attempt": np.zeros(count, np.int32),
                "loss": np.where(rng.random(count) < 0.1, np.nan, rng.random(count)),
                "rare": pl.Series([1.5 if t else None for t in told], dtype=pl.Float64),
                "count": pl.Series([7 if t else None for t in told], dtype=pl.Int64),
            }
        )
        pieces.append(piece if index != 1 else piece.drop("rare"))
    spill = Spill()
    for piece in pieces:
        spill.put(piece)
    assert list(tmp_path.iterdir()) == []  # nothing is left behind, whatever happens next
    expected = pl.concat(pieces, how="diagonal")
    assert spill.frame().equals(expected, null_equal=True)
