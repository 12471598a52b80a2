"""Synthetic runs: frames as ``runs.open`` gives them, without a folder."""

import math

import numpy as np
import polars as pl
import pytest

from surefoot.records import (
    ArchitectureSpec,
    CheckpointInfo,
    Event,
    Finding,
    OptimizerSpec,
    Place,
    Run,
    ScheduleSpec,
    Source,
    TrainSpec,
)


@pytest.fixture
def make_run():
    """Builds a run of ``steps`` rows; keyword arguments replace its fields."""
    return _make_run


@pytest.fixture
def finding():
    return Finding(
        code="SPK003",
        name="divergence",
        severity="error",
        place=Place(run="trial", attempt=1, steps=(310, 340), signal="loss"),
        evidence={"peak_nats": math.inf, "incident": "a1-s310", "onset_interval": [305, 312]},
        message="the loss rose 2.41 nats above its trend and did not come back within 200 steps",
        actions=("rewind to step 300: surefoot train --name trial --resume", "skip the batches"),
        references=("Wortsman et al. 2023, 2309.14322",),
    )


def _places(layers: int) -> tuple[str, ...]:
    inner = ("wq", "wk", "wv", "wo")
    names = ["embedding"]
    for i in range(layers):
        names += [f"layers.{i}.attention.{n}" for n in inner]
        names += [f"layers.{i}.feed_forward.{n}" for n in ("w1", "w2", "w3")]
        names += [f"layers.{i}.attention_norm", f"layers.{i}.feed_forward_norm"]
    return (*names, "norm", "head")


def _make_run(steps=500, layers=4, sample_every=20, seed=0, **replace) -> Run:
    rng = np.random.default_rng(seed)
    step = np.arange(1, steps + 1)
    loss = 2.6 + 5 * np.exp(-step / max(steps / 8, 1)) + 0.05 * rng.standard_normal(steps)
    norm = 0.4 + 3 * np.exp(-step / 30) + 0.05 * rng.random(steps)
    if steps >= 400:
        loss[309:340] += 2.4 * np.exp(-np.arange(31) / 8)
        norm[305:315] *= 12
    places = _places(layers)
    parts = rng.lognormal(-2, 0.6, (steps, len(places))) * norm[:, None]
    parts = parts * np.linspace(1.5, 0.5, len(places))
    sampled = [(k % sample_every == 0) for k in step]
    ratios = 0.9 + 0.2 * rng.random((steps, len(places)))
    depth = [f"layers.{i}" for i in range(layers)]
    frame = pl.DataFrame(
        {
            "step": pl.Series(step, dtype=pl.Int64),
            "attempt": pl.Series((step > 350).astype(int), dtype=pl.Int64),
            "loss": pl.Series(loss, dtype=pl.Float32),
            "log_z": pl.Series(7.6 - 0.002 * step, dtype=pl.Float32),
            "log_z_abs_max": pl.Series(9 + rng.random(steps), dtype=pl.Float32),
            "grad_norm": pl.Series(norm, dtype=pl.Float32),
            "learning_rate": pl.Series(4e-3 * np.minimum(step / 25, 1), dtype=pl.Float32),
            "tokens_per_second": pl.Series(
                9000 + 400 * rng.standard_normal(steps), dtype=pl.Float32
            ),
            "consumed_tokens": pl.Series(step * 4096, dtype=pl.Int64),
            "validation_loss": pl.Series(
                [2.9 + 4 * math.exp(-k / 80) if k % 100 == 0 else None for k in step],
                dtype=pl.Float32,
            ),
            "grad_norm@places": pl.Series(parts.astype(np.float32)).arr.to_list(),
            "attention_logit_max@places": pl.Series(
                [(4 + rng.random(layers)).tolist() if s else None for s in sampled],
                dtype=pl.List(pl.Float32),
            ),
            "adam_rms@places": pl.Series(
                [row.tolist() if s else None for row, s in zip(ratios, sampled, strict=True)],
                dtype=pl.List(pl.Float32),
            ),
        }
    )
    every = max(steps // 5, 1)
    values = {
        "name": "trial",
        "spec": TrainSpec(
            name="stdlib-1m",
            trainer="surefoot",
            seed=1,
            architecture=ArchitectureSpec(layers=layers, width=128, vocab_size=2048),
            optimizer=OptimizerSpec(name="adamw", learning_rate=4e-3, clip_norm=1.0),
            schedule=ScheduleSpec(kind="cosine", steps=steps, warmup_steps=25),
            options={"evaluation": {"every": 100}},
            sources={
                "architecture.width": Source(kind="recipe", file="recipes/stdlib-1m.toml", line=7),
                "optimizer.learning_rate": Source(kind="flag", flag="--set"),
                "evaluation.every": Source(kind="default"),
            },
        ),
        "environment": {"torch": "2.13.0", "cpu": {"threads": 2}, "git": None},
        "signals": frame,
        "places": {"grad_norm": places, "adam_rms": places, "attention_logit_max": tuple(depth)},
        "events": (
            Event(kind="started", step=0, time="2026-01-05T10:00:00Z"),
            Event(kind="resumed", step=350, attempt=1, time="2026-01-05T10:10:00Z"),
            Event(kind="finished", step=steps, attempt=1, time="2026-01-05T10:20:00Z"),
        ),
        "checkpoints": tuple(
            CheckpointInfo(
                step=k,
                path=f"checkpoints/step-{k:09d}",
                status="confirmed" if k < steps else "provisional",
            )
            for k in range(every, steps + 1, every)
        ),
    }
    return Run(**(values | replace))


NAN, INF = math.nan, math.inf


def _odd_frames() -> dict[str, pl.DataFrame]:
    full = _make_run(60, 2).signals
    nulls = [pl.lit(None, dtype=kind).alias(name) for name, kind in full.schema.items()]
    place = "grad_norm@places"
    broken = pl.Series([[NAN, INF]] * 60, dtype=pl.List(pl.Float32))
    zeros = pl.Series([[0.0, 0.0]] * 60, dtype=pl.List(pl.Float32))
    return {
        "no columns": pl.DataFrame(),
        "no rows": full.head(0),
        "only steps": full.select("step"),
        "one row": full.head(1),
        "one row of NaN": pl.DataFrame({"step": [7], "loss": [NAN]}),
        "only NaN": full.with_columns(loss=pl.lit(NAN), grad_norm=pl.lit(NAN)),
        "only infinite": full.with_columns(loss=pl.lit(-INF), grad_norm=pl.lit(INF)),
        "only zeros": full.with_columns(pl.lit(0.0).alias("grad_norm"), zeros.alias(place)),
        "negative": full.with_columns(loss=-pl.col("loss"), grad_norm=-pl.col("grad_norm")),
        "all null": full.select("step", *nulls[1:]),
        "null steps": full.with_columns(step=pl.lit(None, dtype=pl.Int64)),
        "columns of no type": full.select("step", pl.lit(None).alias("loss")),
        "text": full.select("step", pl.lit("x").alias("loss")),
        "broken places": full.with_columns(broken.alias(place)),
        "huge": full.with_columns(loss=pl.lit(1e308), grad_norm=pl.lit(5e-324)),
        "no loss": full.drop("loss"),
    }


@pytest.fixture(params=sorted(_odd_frames()))
def odd_run(request):
    """A run with a strange table."""
    return _make_run(60, 2, signals=_odd_frames()[request.param])
