"""SpikeBench's generator: forks are exact, faults act when they should, labels find what is there.

The runs are real but a few steps long, on made-up text: nothing is prepared or downloaded.
"""

import dataclasses
import itertools
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from surefoot.errors import UsageError
from surefoot.records import StepRecord

SPIKEBENCH = Path(__file__).parents[2] / "benchmarks" / "spikebench"
NAMES = ("cases", "faults", "generate", "grid", "label", "planned", "remedy", "tables", "tiny")


@pytest.fixture(scope="module")
def bench():
    sys.path.insert(0, str(SPIKEBENCH))
    try:
        text = __import__("text")
        yield SimpleNamespace(text=text, **{name: __import__(name) for name in NAMES})
    finally:
        sys.path.remove(str(SPIKEBENCH))


@pytest.fixture(scope="module")
def text(bench):
    """Random text of the right form: a chain in which each token has four followers."""
    made = bench.text.Text.__new__(bench.text.Text)
    generator = torch.Generator().manual_seed(1)
    followers = torch.randint(0, 300, (512, 4), generator=generator)
    tokens = torch.randint(0, 300, (400, 1), generator=generator)
    for _ in range(bench.text.LENGTH):
        choice = torch.randint(0, 4, (400,), generator=generator)
        tokens = torch.cat([tokens, followers[tokens[:, -1], choice][:, None]], dim=1)
    made.pools = {"code": tokens[:300], "prose": tokens[300:]}
    made.held_out = {name: pool[:4] for name, pool in made.pools.items()}
    made.sha256 = {}
    return made


@pytest.fixture(scope="module")
def setting(bench):
    return bench.tiny.Setting(name="tiny", batch=4, length=8, steps=40, warmup=3)


def run(bench, setting, text, steps, changes=(), start=None, seed=1):
    tiny = bench.tiny.Tiny(setting, seed, text, changes)
    if start is not None:
        tiny.load(start)
    return bench.tiny.run(tiny, steps), tiny


def same(a, b):
    return (
        (a.step, a.attempt, dict(a.values)) == (b.step, b.attempt, dict(b.values))
        and a.places.keys() == b.places.keys()
        and all(np.array_equal(a.places[k], b.places[k], equal_nan=True) for k in a.places)
    )


# Runs and forks -------------------------------------------------------------------------------


def test_a_fork_is_its_twin_bit_for_bit_until_the_fault(bench, setting, text):
    first, tiny = run(bench, setting, text, 5)
    saved = tiny.save()
    clean = first + bench.tiny.run(tiny, 10)
    fault = bench.faults.Corrupt(8, 8, "random")
    forked, _ = run(bench, setting, text, 10, [fault], start=saved)
    assert [r.step for r in forked] == [6, 7, 8, 9, 10]
    assert [same(a, b) for a, b in zip(forked, clean[5:], strict=True)] == [True] * 2 + [False] * 3
    assert forked[2].values["consumed_samples"] == clean[7].values["consumed_samples"]
    again, _ = run(bench, setting, text, 10)  # from step 1, without a stop
    assert all(same(a, b) for a, b in zip(again, clean, strict=True))


def test_a_record_has_every_signal_once_the_run_has_begun(bench, setting, text):
    records, tiny = run(bench, dataclasses.replace(setting, precision="fp16"), text, 2)
    missing = {"validation_loss", "data_phase"}
    assert set(records[1].values) == set(bench.tiny.KEPT) - missing
    assert "grad_cosine" not in records[0].values  # no moment yet
    assert -1 <= records[1].values["grad_cosine"] <= 1
    for name, places in tiny.places.items():
        assert records[1].places[name].shape == (len(places),), name


def test_places_add_up_to_the_whole(bench, setting, text):
    records, tiny = run(bench, setting, text, 3)
    record = records[-1]
    norms = record.places["grad_norm"].astype(float)
    assert math.sqrt((norms**2).sum()) == pytest.approx(record.values["grad_norm"], rel=1e-5)
    sizes = np.bincount(tiny._grouping.of, weights=tiny._grouping.sizes)
    squares = (record.places["adam_rms"].astype(float) ** 2 * sizes).sum() / sizes.sum()
    assert math.sqrt(squares) == pytest.approx(record.values["adam_rms"], rel=1e-5)
    assert tiny.places["grad_norm"] == (
        "embedding", "layers.0.attention", "layers.0.feed_forward", "layers.1.attention",
        "layers.1.feed_forward", "head",
    )  # fmt: skip


def test_the_cosine_is_that_of_the_gradient_with_the_moment_before_it(bench, setting, text):
    tiny = bench.tiny.Tiny(dataclasses.replace(setting, clip=0.0), 1, text)
    bench.tiny.run(tiny, 3)
    state = tiny.optimizer.state
    before = torch.cat([state[p]["exp_avg"].flatten() for p in tiny.model.parameters()]).clone()
    record = tiny.advance()
    after = torch.cat([state[p]["exp_avg"].flatten() for p in tiny.model.parameters()])
    gradient = (after - 0.9 * before) / 0.1
    expected = torch.nn.functional.cosine_similarity(gradient, before, dim=0)
    assert record.values["grad_cosine"] == pytest.approx(float(expected), abs=1e-4)


# Kinds ----------------------------------------------------------------------------------------


def test_a_set_has_every_kind_and_dev_none_that_is_held_out(bench):
    dev = bench.grid.cells("dev", 1, held_out=False)
    test = bench.grid.cells("test", 1, held_out=None)
    only = bench.grid.cells("test", 1, held_out=True)
    kinds = {cell.kind.name for cell in test if cell.kind}
    assert kinds == set(bench.grid.KINDS)
    held_out = {name for name, kind in bench.grid.KINDS.items() if kind.held_out}
    assert held_out == {"batch-shuffled-labels", "lost-bucket", "stale-rank", "fp8-range"}
    assert {c.kind.name for c in dev if c.kind} == kinds - held_out
    assert {c.kind.name for c in only if c.kind and not c.kind.healthy} == held_out
    for cells in (dev, test):
        assert len({cell.name for cell in cells}) == len(cells)
    assert not {c.setting.shape for c in dev} & {c.setting.shape for c in test}
    assert not {c.seed for c in dev} & {c.seed for c in test}
    other = {c.name: c.step for c in bench.grid.cells("test", 2, held_out=None)}
    assert not set(other) & {c.name for c in test}  # other seeds


def test_a_cell_comes_after_the_clean_runs_that_it_is_judged_by(bench):
    seen = set()
    for cell in bench.grid.cells("test", 1, held_out=None):
        if cell.kind is None:
            seen.add((cell.setting.name, cell.seed))
        else:
            assert {name for name, _ in seen} >= {cell.setting.name}
            assert (cell.setting.name, cell.seed) in seen


KINDS = (
    "attention-growth", "attention-pull", "batch-one-token", "batch-random",
    "batch-shuffled-labels", "beta2-burst-rare", "beta2-burst-shift", "bit-flip-gradient",
    "bit-flip-moment", "bit-flip-weight", "eps-raised", "eps-too-large", "fp16-overflow-storm",
    "fp8-range", "logit-drift", "logit-pull", "lost-bucket", "no-warmup", "rate-creeping",
    "rate-slip", "rate-slip-for-good", "rate-too-high", "region-one-token", "region-random",
    "region-shuffled", "resume-counter-reset", "resume-loader-restarted", "resume-moments-lost",
    "resume-schedule-restarted", "resume-weights-stale", "stale-rank", "vanilla-embedding",
)  # fmt: skip


def test_the_list_of_kinds_is_whole(bench):
    planted = {n for n, kind in bench.grid.KINDS.items() if not kind.healthy and not kind.natural}
    assert planted == set(KINDS)
    assert {name for name, kind in bench.grid.KINDS.items() if kind.healthy} == set(LOOK_ALIKES)


@pytest.mark.parametrize("name", KINDS)
def test_a_fault_acts_from_its_first_step(bench, setting, text, name):
    kind = bench.grid.KINDS[name]
    if name.startswith("fp16"):
        setting = dataclasses.replace(setting, precision="fp16")
    states = {}
    first, tiny = run(bench, setting, text, 1)
    states = {0: bench.tiny.Tiny(setting, 1, text).save(), 6: None}
    clean = first + bench.tiny.run(tiny, 6)
    states[6] = tiny.save()
    clean += bench.tiny.run(tiny, 9)
    context = bench.grid.Context(
        step=1 if kind.from_start else 8,
        setting=setting,
        draw=lambda word: 0.4,
        weights=lambda step: states[0]["model"],
    )
    strength = list(kind.strengths.values())[-1]
    plan = kind.make(context, strength)
    start = None if kind.from_start else states[6]
    records, _ = run(bench, plan.setting or setting, text, 9, plan.changes, start)
    twins = clean if kind.from_start else clean[6:]
    alike = [same(a, b) for a, b in zip(records, twins, strict=True)]
    at = next((r.step for r, equal in zip(records, alike, strict=True) if not equal), None)
    # What is done to the state before a step can show in its gradient at the earliest.
    assert at is not None
    assert at == context.step if not kind.from_start else at <= 4
    assert records[-1].attempt == (1 if name.startswith("resume-") else 0)


LOOK_ALIKES = (
    "batch-ramp", "curriculum", "domain-switch", "domain-switch-unannounced", "end-of-warmup",
    "evaluation-interleaved", "heavy-tails", "length-switch", "planned-restart", "rate-rewarm",
    "small-noisy-batches", "wsd-decay",
)  # fmt: skip


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alikes_run_and_say_what_was_planned(bench, setting, text, name):
    kind = bench.grid.KINDS[name]
    assert kind.healthy
    context = bench.grid.Context(step=4, setting=setting, draw=lambda _: 0.5, weights=lambda _: {})
    plan = kind.make(context, kind.strengths[""])
    records, _ = run(bench, plan.setting or setting, text, 6, plan.changes)
    values = [r.values for r in records]
    assert all(math.isfinite(v["loss"]) for v in values)
    if name == "domain-switch":
        assert [v["data_phase"] for v in values] == [0, 0, 0, 1, 1, 1]
    elif name == "length-switch":
        assert [v["tokens"] for v in values] == [16, 16, 16, 32, 32, 32]
    elif name == "planned-restart":
        assert [r.attempt for r in records] == [0, 0, 0, 1, 1, 1]
    elif name == "rate-rewarm":
        assert values[3]["learning_rate"] < 0.2 * values[2]["learning_rate"]
        assert values[5]["learning_rate"] > values[3]["learning_rate"]
    else:
        assert "data_phase" not in values[0] or name == "curriculum"


# Tables ---------------------------------------------------------------------------------------


def test_a_table_keeps_what_it_promises(bench, tmp_path):
    nan, inf = math.nan, math.inf
    losses = [6.2381, 6.1, nan, inf, -inf, 1e-30, 3.4e38, 0.0, -2.5]
    records = [
        StepRecord(
            step=step,
            attempt=int(step > 5),
            values={"loss": loss, "consumed_samples": 3 * 10**9 + step, "data_phase": 2}
            | ({"validation_loss": 5.5} if step % 4 == 0 else {}),
            places={"grad_norm": np.array([loss, step], np.float32)} if step != 3 else {},
        )
        for step, loss in enumerate(losses, start=1)
    ]
    places = {"grad_norm": ("a", "b")}
    bench.tables.write(tmp_path / "t.table", records, places)
    found, names = bench.tables.read(tmp_path / "t.table")
    assert names == places
    for old, new in zip(records, found, strict=True):
        assert (new.step, new.attempt) == (old.step, old.attempt)
        assert new.values.keys() == old.values.keys()
        assert new.values["consumed_samples"] == old.values["consumed_samples"]
        np.testing.assert_allclose(new.values["loss"], old.values["loss"], rtol=2.0**-17)
        assert new.places.keys() == old.places.keys()
        for name in old.places:
            np.testing.assert_allclose(new.places[name], old.places[name], rtol=2.0**-8)
    bench.tables.write(tmp_path / "u.table", found, places)  # rounding twice is rounding once
    assert (tmp_path / "u.table").read_bytes() == (tmp_path / "t.table").read_bytes()
    (tmp_path / "x").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match="no signal table of SpikeBench"):
        bench.tables.read(tmp_path / "x")


# Labels ---------------------------------------------------------------------------------------


def curves(seed, steps=300, **planted):
    rng = np.random.default_rng(seed)
    step = np.arange(1, steps + 1)
    loss = 4 + 2 * np.exp(-step / 80) + 0.1 * rng.standard_normal(steps)
    norm = np.exp(0.1 * rng.standard_normal(steps))
    return {"loss": loss + planted.get("loss", 0), "grad_norm": np.log(norm)}


@pytest.fixture
def spread(bench):
    return bench.label.spread_of([curves(seed) for seed in (1, 2, 3)])


def test_a_run_is_its_own_twin_without_any_label(bench, spread):
    found = bench.label.label(curves(1), curves(1), spread, first=1)
    assert found.manifest_step is None
    assert found.loss_manifest_step is None
    assert found.recovered is None
    assert found.harm_nats == 0


def test_a_spike_that_comes_back(bench, spread):
    planted = np.zeros(300)
    planted[149:155] = 2.0  # steps 150 to 155
    found = bench.label.label(curves(1, loss=planted), curves(1), spread, first=140)
    assert (found.manifest_step, found.manifest_signal) == (150, "loss")
    assert found.peak_nats == pytest.approx(2.0)
    assert found.recovered is True
    # The mean over 20 steps is off for as long as it holds enough of the spike.
    assert 156 <= found.recovered_step <= 175
    assert found.harm_nats == 0


def test_a_shift_that_stays_and_one_that_nobody_would_see(bench, spread):
    shifted = np.where(np.arange(300) >= 199, 0.4, 0.0)
    found = bench.label.label(curves(1, loss=shifted), curves(1), spread, first=190)
    assert found.recovered is False
    assert 200 <= found.loss_manifest_step <= 215  # sustained: less than the noise of one step
    assert found.harm_nats == pytest.approx(0.4)
    tiny = bench.label.label(curves(1, loss=shifted / 20), curves(1), spread, first=190)
    assert tiny.manifest_step is None


def test_nothing_before_the_injection_counts_and_nan_is_manifest(bench, spread):
    planted = np.zeros(300)
    planted[50], planted[200:] = 5.0, np.nan
    faulty = curves(1, loss=planted)
    faulty["loss"] = np.where(np.isfinite(faulty["loss"]), faulty["loss"], np.inf)
    found = bench.label.label(faulty, curves(1), spread, first=100)
    assert found.manifest_step == 201
    assert found.harm_nats == found.peak_nats == math.inf
    assert found.recovered is False


def test_a_run_without_a_twin_is_compared_with_its_own_course(bench, spread):
    faulty = curves(9, loss=0.8)  # worse than any twin, from the start
    found = bench.label.label(faulty, curves(1), spread, first=1, own_course=True)
    assert found.loss_manifest_step is None
    assert found.harm_nats == pytest.approx(0.8, abs=0.1)
    rising = curves(9, loss=np.clip((np.arange(300) - 199) / 50, 0, None))
    found = bench.label.label(rising, curves(1), spread, first=1, own_course=True)
    assert 205 <= found.loss_manifest_step <= 235


def test_a_spike_that_came_by_itself_begins_where_its_first_signal_left(bench):
    spread = bench.label.spread_of([curves(seed, 500) for seed in (1, 2, 3)])
    at = np.arange(500)
    run = curves(4, 500, loss=np.where((at >= 400) & (at < 408), 2.0, 0.0))  # steps 401 to 408
    run["grad_norm"][394:408] += 3.0  # leads by six steps
    run["grad_norm"][320] += 3.0  # long before: another story
    found, end = bench.label.natural(run, spread)
    assert (found.manifest_step, found.manifest_signal) == (395, "grad_norm")
    assert (found.loss_manifest_step, found.recovered, found.recovered_step) == (401, True, 409)
    assert end == 490
    assert found.peak_nats == pytest.approx(2.0, abs=0.4)
    assert bench.label.natural(curves(4, 500), spread) is None


# The queue ------------------------------------------------------------------------------------


@pytest.fixture
def make(bench, text, setting, tmp_path, monkeypatch):
    """Run the generator for a few cells of a small grid; returns the folder of the set."""
    monkeypatch.setattr(bench.generate, "Text", lambda cache: text)
    monkeypatch.setattr(bench.grid, "EVERY", 5)
    monkeypatch.setattr(bench.remedy, "STEPS", 8)
    monkeypatch.setattr(bench.remedy, "SUSTAINED", 4)
    kinds = bench.grid.KINDS

    def cells(shapes, seed, *, held_out, quick=False):
        clean = [
            bench.grid.Cell(name=f"clean-tiny-{s}", setting=setting, seed=s)
            for s in (seed, seed + 1)
        ]
        planted = [
            bench.grid.Cell(
                name=f"{kind}-{strength}", setting=setting, seed=seed, kind=kinds[kind],
                strength=strength, step=12,
            )
            for kind, strength in (("rate-slip", "strong"), ("bit-flip-moment", "weak"))
        ]  # fmt: skip
        return clean + planted

    monkeypatch.setattr(bench.grid, "cells", cells)

    def call(name, *arguments):
        where = ["--sets", str(tmp_path), "--cache", str(tmp_path / "cache"), "--set", name]
        assert bench.generate.main([*where, "--seed", "3", *arguments]) == 0
        return tmp_path / name

    return call


def test_the_queue_resumes_and_makes_the_same_bytes(bench, make, capsys):
    whole = make("a")
    assert "4 of 4 cells done" in capsys.readouterr().out
    part = make("b", "--minutes", "0")
    assert len(list(part.glob("*.table"))) == 0
    for _ in range(2):  # nothing left to do the second time
        make("b")
    (whole / "clean-tiny-3.table").unlink()  # as if killed before it was written
    make("a")
    for path in whole.glob("*.table"):
        assert path.read_bytes() == (part / path.name).read_bytes(), path.name
    truths = {t.case: t for t in bench.cases.read_truths(whole / "truths.json")}
    assert list(truths) == [
        "bit-flip-moment-weak",
        "clean-tiny-3",
        "clean-tiny-4",
        "rate-slip-strong",
    ]
    slip = truths["rate-slip-strong"]
    assert (slip.twin, slip.injection_step, slip.last_injection_step) == ("clean-tiny-3", 12, 40)
    assert slip.manifest_step == 12
    assert not slip.healthy
    assert slip.latest_good_checkpoint >= 10
    assert truths["bit-flip-moment-weak"].healthy  # one second moment of a weight: nothing comes


def test_a_case_is_its_twins_prefix_and_its_own_tail(bench, make, tmp_path):
    make("a")
    cases = {case.truth.case: case for case in bench.cases.load("a", sets=tmp_path)}
    slip = cases["rate-slip-strong"]
    records, twin = list(slip.records()), list(slip.twin())
    assert [r.step for r in records] == list(range(1, 41))
    pairs = itertools.takewhile(lambda pair: same(*pair), zip(records, twin, strict=True))
    assert len(list(pairs)) == 11
    assert records[11].values["learning_rate"] > 20 * twin[11].values["learning_rate"]
    assert slip.places["adam_rms"][0] == "embedding"
    clean = cases["clean-tiny-3"]
    assert [r.step for r in clean.records()] == list(range(1, 41))


def test_a_set_that_is_not_there_says_how_to_make_it(bench, tmp_path):
    with pytest.raises(UsageError, match=r"python benchmarks/spikebench/generate.py --set none"):
        bench.cases.load("none", sets=tmp_path)


def test_relabelling_changes_nothing_by_itself(bench, make, tmp_path):
    folder = make("a")
    before = bench.cases.read_truths(folder / "truths.json")
    make("a", "--relabel")
    assert bench.cases.read_truths(folder / "truths.json") == before
