import numpy as np
import polars as pl

from surefoot.records import Run
from surefoot.report.columns import curve, grid, largest

NAN = float("nan")


def _run(places=None, **columns):
    return Run(name="r", signals=pl.DataFrame(columns), places=places or {})


def test_null_is_left_out_and_nan_stays():
    line = curve(_run(step=[1, 2, 3, 4], loss=[1.0, None, NAN, float("inf")]), "loss")
    assert line.steps.tolist() == [1, 3, 4]
    np.testing.assert_equal(line.values, [1.0, NAN, np.inf])


def test_what_is_not_there_is_none():
    assert curve(_run(step=[1]), "loss") is None
    assert curve(_run(step=[1], loss=[None]), "loss") is None
    assert curve(_run(step=[1], loss=["high"]), "loss") is None
    assert curve(_run(loss=[1.0]), "loss") is None
    assert curve(Run(name="r", signals=pl.DataFrame()), "loss") is None
    assert grid(_run(step=[1], **{"grad_norm": [1.0]}), "grad_norm") is None
    assert grid(_run(step=[1], **{"grad_norm@places": [["a"]]}), "grad_norm") is None
    assert grid(_run(**{"grad_norm@places": [[1.0]]}), "grad_norm") is None
    empty = pl.Series([None, []], dtype=pl.List(pl.Float32))
    assert grid(_run(step=[1, 2], **{"grad_norm@places": empty}), "grad_norm") is None
    nulls = pl.Series([[None, None]], dtype=pl.List(pl.Float32))
    assert grid(_run(step=[1], **{"grad_norm@places": nulls}), "grad_norm") is None


def test_lists_of_different_lengths_and_holes():
    lists = pl.Series(
        [[1.0, 2.0], None, [3.0, 4.0, 5.0], [], [6.0, None, NAN]], dtype=pl.List(pl.Float32)
    )
    run = _run({"grad_norm": ("a", "b")}, step=[1, 2, 3, 4, 5], **{"grad_norm@places": lists})
    found = grid(run, "grad_norm")
    assert found.steps.tolist() == [1, 3, 5]
    assert found.places == ("a", "b", "place 2")
    np.testing.assert_equal(found.values, [[1, 2, NAN], [3, 4, 5], [6, NAN, NAN]])
    assert found.recorded.tolist() == [[True, True, False], [True] * 3, [True, False, True]]


def test_largest_names_its_place_and_prefers_what_is_not_finite():
    lists = pl.Series(
        [[1.0, 9.0, 2.0], [1.0, 9.0, NAN], [None, 3.0, -5.0], [None, None, None]],
        dtype=pl.List(pl.Float32),
    )
    run = _run({"x": ("a", "b", "c")}, step=[1, 2, 3, 4], **{"x@places": lists})
    line = largest(grid(run, "x"))
    assert line.steps.tolist() == [1, 2, 3]
    np.testing.assert_equal(line.values, [9, NAN, -5])
    assert [line.labels[i] for i in line.label_of] == ["b", "c", "c"]
