import dataclasses
import json
import math

import numpy as np
import polars as pl
import pytest

from surefoot.records import CheckpointInfo, Event, Finding, Place
from surefoot.report import marks
from surefoot.report.figures import figures, step_range
from surefoot.report.heatmap import shortened

NAN = math.nan


def _figures(run, findings=()):
    drawn, missing = figures(run, findings)
    for figure in drawn:
        json.dumps(figure.spec, allow_nan=False)
    return {figure.panel.key: figure for figure in drawn}, [panel.key for panel in missing]


def _set(run, column, step, value):
    changed = pl.when(pl.col("step") == step).then(value).otherwise(pl.col(column))
    return run.signals.with_columns(changed.alias(column))


def _trace(figure, name):
    return next((t for t in figure.spec["data"] if t.get("name") == name), None)


def test_a_full_run_has_every_chart_it_measured(make_run):
    drawn, missing = _figures(make_run())
    assert list(drawn) == [
        "loss",
        "grad_norm",
        "grad_norm_places",
        "learning_rate",
        "attention_logit_max",
        "log_z",
        "adam_rms",
        "tokens_per_second",
    ]
    assert missing == ["update_ratio"]
    assert _trace(drawn["loss"], "training")["x"] == list(range(1, 501))
    assert _trace(drawn["loss"], "validation")["x"] == [100, 200, 300, 400, 500]
    assert drawn["grad_norm"].spec["layout"]["yaxis"]["type"] == "log"
    assert drawn["loss"].spec["layout"]["yaxis"]["type"] == "linear"
    assert _trace(drawn["grad_norm"], "clipped above 1")["y"] == [1.0, 1.0]


def test_odd_runs_draw_strict_json(odd_run, finding):
    _figures(odd_run, [finding])


def test_all_charts_share_their_steps(make_run):
    drawn, _ = _figures(make_run())
    ranges = {tuple(f.spec["layout"]["xaxis"]["range"]) for f in drawn.values()}
    assert ranges == {step_range(make_run())}
    low, high = ranges.pop()
    assert low < 1 < 500 < high


def test_spikes_of_one_step_are_drawn_in_a_run_of_100000(make_run):
    run = make_run(100_000, 1)
    for step, value in ((31_415, 99.0), (92_653, -7.0)):
        run = make_run(100_000, 1, signals=_set(run, "loss", step, value))
    training = _trace(_figures(run)[0]["loss"], "training")
    assert len(training["x"]) < 6000
    points = dict(zip(training["x"], training["y"], strict=True))
    assert points[31_415] == 99.0
    assert points[92_653] == -7.0
    assert {1, 100_000} <= set(points)


@pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf])
@pytest.mark.parametrize("steps", [500, 40_000])
def test_what_is_not_finite_is_marked_and_does_not_break_the_line(make_run, bad, steps):
    run = make_run(steps, 1)
    run = make_run(steps, 1, signals=_set(run, "loss", 123, bad))
    figure = _figures(run)[0]["loss"]
    training = _trace(figure, "training")
    assert 123 not in training["x"]
    assert all(math.isfinite(y) for y in training["y"])
    mark = _trace(figure, "training: not finite")
    assert mark["x"] == [123, 123, None]
    assert mark["text"][0] == "training: not finite at 1 step, 123"
    assert mark["yaxis"] == "y2"  # always in view, at the top
    assert "not finite at 1 step" in figure.caption


def test_zeros_on_a_logarithmic_axis_are_marked(make_run):
    run = make_run()
    run = make_run(signals=_set(run, "grad_norm", 77, 0.0))
    figure = _figures(run)[0]["grad_norm"]
    assert _trace(figure, "gradient norm: 0 or less")["x"] == [77, 77, None]
    assert 77 not in _trace(figure, "gradient norm")["x"]


def test_a_diverged_loss_does_not_press_the_rest_flat(make_run):
    run = make_run()
    run = make_run(signals=_set(run, "loss", 500, 1e6))
    assert _figures(run)[0]["loss"].spec["layout"]["yaxis"]["type"] == "log"


def test_events_are_marked_above_the_loss(make_run, finding):
    run = make_run(
        checkpoints=(
            CheckpointInfo(step=100, path="a", status="confirmed"),
            CheckpointInfo(step=200, path="b", status="quarantined", reason="<b>signal"),
            CheckpointInfo(step=300, path="c", status="quarantined", reason="signal"),
        ),
        events=(Event(kind="resumed", step=350), Event(kind="update_skipped", step=311)),
    )
    layout = _figures(run, [finding])[0]["loss"].spec["layout"]
    assert layout["yaxis3"]["ticktext"] == ["findings", "checkpoints", "restarts", "skipped"]
    rows = dict(marks.lanes(run, [finding]))
    assert rows["findings"]["x"] == [310]
    assert "SPK003" in rows["findings"]["text"][0]
    assert rows["checkpoints"]["x"] == [100, 200, 300]
    # A stop on request is no fault: its mark is neither red nor a cross.
    assert rows["checkpoints"]["marker"]["color"] == ["@ok", "@error", "@muted"]
    assert rows["checkpoints"]["marker"]["symbol"] == ["diamond", "x-thin", "square-open"]
    assert rows["checkpoints"]["text"][2].startswith("<b>checkpoint at step 300: resumable</b>")
    assert "&lt;b&gt;signal" in rows["checkpoints"]["text"][1]
    assert rows["restarts"]["x"] == [350]
    assert rows["skipped"]["x"] == [311]
    drawn = marks.shapes(run, [finding])
    assert [(s["type"], s["x0"], s["x1"]) for s in drawn] == [
        ("rect", 309.5, 340.5),
        ("line", 310, 310),
        ("line", 350.5, 350.5),
    ]


def test_texts_of_a_finding_are_escaped_where_they_are_hovered(make_run):
    hostile = Finding(
        code="SPK001",
        name="<i>x",
        severity="info",
        place=Place(steps=(3, 4), signal="<b>loss"),
        message="<img> " * 200,
    )
    text = dict(marks.lanes(make_run(), [hostile]))["findings"]["text"][0]
    assert text.startswith("<b>info SPK001 &lt;i&gt;x: steps 3 to 4, signal &lt;b&gt;loss</b><br>")
    assert "<img" not in text
    assert text.count("<br>") == 11  # ten lines of it, and "…"
    assert text.endswith("…")


def test_a_finding_without_steps_is_not_drawn(make_run):
    nowhere = Finding(code="OPT001", name="x", severity="error", place=Place(field="a.b"))
    assert "findings" not in dict(marks.lanes(make_run(), [nowhere]))


def test_thousands_of_events_stay_few_marks(make_run, finding):
    events = tuple(Event(kind="update_skipped", step=k) for k in range(1, 20_001))
    row = dict(marks.lanes(make_run(events=events), [finding] * 5000))
    assert len(row["skipped"]["x"]) == marks.MOST
    assert (row["skipped"]["x"][0], row["skipped"]["x"][-1]) == (1, 20_000)
    assert len(marks.shapes(make_run(), [finding] * 5000)) <= 3 * marks.MOST


def test_the_heat_map_is_logarithmic_and_marks_what_is_not_finite(make_run):
    run = make_run(3, 1)
    places = ("embedding", "layers.0.attention.wq", "norm")
    lists = pl.Series(
        [[1.0, 10.0, 0.0], [100.0, NAN, 0.1], [math.inf, 1.0, None]], dtype=pl.List(pl.Float32)
    )
    run = make_run(
        3,
        1,
        signals=run.signals.with_columns(lists.alias("grad_norm@places")),
        places={"grad_norm": places},
    )
    figure = _figures(run)[0]["grad_norm_places"]
    cells, broken = figure.spec["data"]
    assert cells["y"] == list(places)
    assert cells["x"] == [0.5, 1.5, 2.5, 3.5]
    assert cells["z"] == [[0.0, 2.0, None], [1.0, None, 0.0], [None, -1.0, None]]
    assert broken["z"] == [[None, None, 1], [None, 1, None], [None, None, None]]
    assert "Largest: 100 in embedding near step 2." in figure.caption
    assert "Red: NaN or infinite." in figure.caption


def test_a_peak_of_one_step_and_place_is_in_the_heat_map_of_a_long_run(make_run):
    run = make_run(20_000, 2)
    table = np.array(run.signals["grad_norm@places"].to_list())
    table[12_345, 3] = 1e6
    column = pl.Series(table.astype(np.float32)).arr.to_list().alias("grad_norm@places")
    figure = _figures(make_run(20_000, 2, signals=run.signals.with_columns(column)))[0]
    cells = figure["grad_norm_places"].spec["data"][0]
    row = cells["z"][3]
    assert len(row) == 600
    peak = row.index(6.0)
    assert cells["x"][peak] < 12_346 < cells["x"][peak + 1]
    assert cells["zmax"] == 6.0


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("layers.11.feed_forward_norm.weight", "layers.11.feed_forward_norm"),
        ("model.layers.11.self_attn.q_proj.weight", "…layers.11.self_attn.q_proj"),
        ("head", "head"),
    ],
)
def test_labels_of_places_keep_what_tells_them_apart(name, label):
    assert shortened(name) == label


def test_many_places_are_gathered_by_layer(make_run):
    figure = _figures(make_run(20, 30))[0]["grad_norm_places"]
    assert figure.spec["data"][0]["y"] == [
        "embedding",
        *(f"layers.{i}" for i in range(30)),
        "norm",
        "head",
    ]
    assert "gathered by layer" in figure.caption


def test_the_largest_place_is_named_where_a_signal_has_no_total(make_run):
    figure = _figures(make_run())[0]["attention_logit_max"]
    trace = _trace(figure, "largest attention logit")
    assert trace["x"] == list(range(20, 501, 20))
    assert set(trace["text"]) <= {f"layers.{i}" for i in range(4)}


def test_names_of_places_are_escaped(make_run):
    hostile = "<a href='https://x.example'>layers.0</a>"
    run = make_run(40, 1, places={"grad_norm": (hostile,) * 12, "adam_rms": (hostile,) * 12})
    text = json.dumps([f.spec for f in _figures(run)[0].values()])
    assert "<a" not in text
    assert "&lt;a href" in text


def test_instability_of_adam_and_routers_are_drawn_where_they_were_measured(make_run):
    import polars as pl

    run = make_run()
    more = {name: 0.25 for name in ("adam_update_rms", "update_bimodality", "router_entropy")}
    more |= {"second_moment_lag": 1.5, "update_large_share": 0.25, "eps_share": 0.0}
    more |= {"grad_cosine": 0.1, "expert_load_max": 1.2, "tokens_dropped": 0.0}
    frame = run.signals.with_columns(**{name: pl.lit(value) for name, value in more.items()})
    drawn, _ = _figures(dataclasses.replace(run, signals=frame))
    assert {"second_moment_lag", "adam_update", "adam_agreement", "routers"} <= set(drawn)
    assert set(_trace(drawn["adam_update"], "bimodality")["y"]) == {0.25}
