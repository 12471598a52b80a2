"""Parquet files of metrics."""

import datetime
import gzip
import math

import polars as pl
import pytest

from surefoot.errors import LogError
from surefoot.readers import read_run

from ..conftest import column

FRAME = pl.DataFrame(
    {
        "_step": [0, 1, 2, 3],
        "train/global_step": [10, 10, 20, 30],
        "train/loss": pl.Series([2.5, None, math.nan, 2.0], dtype=pl.Float32),
        "eval/loss": [None, 3.5, None, None],
        "lr": ["0.1", None, "2e-1", "0.3"],
        "_timestamp": [1.7e9, 1.7e9 + 1, 1.7e9 + 2, 1.7e9 + 3],
        "name": ["a", "b", "c", "d"],
        "_wandb": [{"runtime": 1}, {"runtime": 2}, {"runtime": 3}, {"runtime": 4}],
        "bins": [[1, 2], [3], [], None],
    }
)


@pytest.fixture
def written(tmp_path):
    def write(frame, name="run.parquet"):
        path = tmp_path / name
        frame.write_parquet(path)
        return path

    return write


def test_columns_of_numbers(written):
    run = read_run(written(FRAME))
    assert run.reading["format"] == "parquet"
    assert column(run, "step") == [10, 20, 30]
    losses = column(run, "loss")
    assert (losses[0], losses[2]) == (2.5, 2.0)
    assert math.isnan(losses[1])
    assert column(run, "validation_loss") == [3.5, None, None]
    assert column(run, "learning_rate") == [0.1, 0.2, 0.3]
    assert column(run, "timestamp") == [1.7e9, 1.7e9 + 2, 1.7e9 + 3]
    assert "name" not in run.signals.columns


def test_times_of_every_kind(written):
    at = datetime.datetime(2025, 1, 2, 3, 4, 5)
    frame = pl.DataFrame({"timestamp": [at, at], "step": [1, 2], "loss": [2.5, 2.25]})
    run = read_run(written(frame))
    seconds = at.replace(tzinfo=datetime.UTC).timestamp()
    assert column(run, "timestamp") == [seconds, seconds]


def test_structs_are_flattened(written):
    frame = pl.DataFrame({"step": [1, 2], "train": [{"loss": 2.5}, {"loss": 2.25}]})
    assert column(read_run(written(frame)), "loss") == [2.5, 2.25]


def test_the_user_names_the_columns(written):
    frame = pl.DataFrame({"k": [5, 6], "q": [2.5, 2.25], "text": ["a", "b"]})
    with pytest.raises(LogError, match="its columns: k, q, text"):
        read_run(written(frame))
    run = read_run(written(frame), mapping={"loss": "q", "step": "k"})
    assert column(run, "step") == [5, 6]
    assert column(run, "loss") == [2.5, 2.25]


def test_packed_once_more(written, tmp_path):
    path = tmp_path / "run.parquet.gz"
    path.write_bytes(gzip.compress(written(FRAME).read_bytes()))
    assert column(read_run(path), "step") == [10, 20, 30]


def test_a_file_that_is_cut_is_an_error(written, tmp_path):
    path = tmp_path / "cut.parquet"
    path.write_bytes(written(FRAME).read_bytes()[:-300])
    with pytest.raises(LogError, match="cut short"):
        read_run(path)


def test_many_rows_are_rows_of_one_attempt(written):
    count = 600_000
    frame = pl.DataFrame({"step": pl.int_range(1, count + 1, eager=True)}).with_columns(
        loss=1.0 / pl.col("step"), val_loss=pl.when(pl.col("step") % 1000 == 0).then(2.0)
    )
    run = read_run(written(frame))
    assert len(run.signals) == count
    assert run.reading["attempts"][0]["last"] == count
    assert run.signals["loss"].to_list() == frame["loss"].to_list()
    assert run.signals["validation_loss"].drop_nulls().len() == count // 1000
