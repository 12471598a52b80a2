"""A run's table becomes what the detector would have seen online."""

import math

import numpy as np
import polars as pl

from surefoot.detect.rows import step_records


def test_every_signal_and_its_places_reach_the_record() -> None:
    table = pl.DataFrame(
        {
            "step": [1, 2],
            "attempt": [0, 0],
            "loss": [3.0, math.nan],
            "update_rms": [None, 0.5],
            "step_time": [1.0, 1.0],
            "note": ["a", "b"],
            "grad_norm@places": [[1.0, 2.0], None],
        },
        schema_overrides={"grad_norm@places": pl.List(pl.Float32)},
    )
    first, second = step_records(table)
    assert dict(first.values) == {"loss": 3.0}  # volatile signals and texts are not judged
    np.testing.assert_array_equal(first.places["grad_norm"], np.float32([1.0, 2.0]))
    assert math.isnan(second.values["loss"])
    assert second.values["update_rms"] == 0.5
    assert dict(second.places) == {}


def test_places_survive_a_table_that_was_gone_over() -> None:
    table = pl.DataFrame(
        {
            "step": [1, 2, 3, 2],
            "attempt": [0, 0, 0, 1],
            "loss": [4.0, 3.0, 2.0, 1.0],
            "adam_rms@places": [[1.0], [2.0], [3.0], [4.0]],
        }
    )
    found = [(r.step, r.attempt, float(r.places["adam_rms"][0])) for r in step_records(table)]
    assert found == [(1, 0, 1.0), (2, 1, 4.0)]  # step 3 was given up and not reached again


def test_a_perplexity_is_the_loss_where_no_loss_is_logged() -> None:
    table = pl.DataFrame({"step": [1, 2], "perplexity": [math.e, math.e**2]})
    assert [round(r.values["loss"], 6) for r in step_records(table)] == [1.0, 2.0]
    both = table.with_columns(pl.lit(7.0).alias("loss"))
    assert [r.values["loss"] for r in step_records(both)] == [7.0, 7.0]
