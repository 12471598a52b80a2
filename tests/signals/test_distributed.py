"""Two gloo processes against one: sums and maxima combined, replicated values counted once."""

import json
import math
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from surefoot.signals import Meter

SCRIPT = Path(__file__).with_name("ranks.py")


def _run(folder: Path, world: int) -> list[dict]:
    """What each rank recorded."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    outs = [folder / f"{rank}.json" for rank in range(world)]
    ranks = [
        subprocess.Popen(
            [sys.executable, SCRIPT, str(rank), str(world), folder / "store", out],
            env=environment, stderr=subprocess.PIPE, text=True,
        )
        for rank, out in enumerate(outs)
    ]  # fmt: skip
    for process in ranks:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    return [json.loads(out.read_text()) for out in outs]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    alone = folder / "alone.json"
    runpy.run_path(str(SCRIPT))["main"](0, 1, "", str(alone))
    return json.loads(alone.read_text()), _run(folder, 2)


def test_every_rank_has_the_same_records(runs):
    _, (first, second) = runs
    assert json.dumps(first) == json.dumps(second)  # as text, where NaN equals NaN


def test_two_ranks_measure_what_one_process_does(runs):
    one, (two, _) = runs
    assert one["places"] == two["places"]
    for alone, together in zip(one["records"], two["records"], strict=True):
        assert alone["values"].keys() == together["values"].keys()
        for name, value in alone["values"].items():
            if math.isnan(value):
                assert math.isnan(together["values"][name])
            else:
                assert together["values"][name] == pytest.approx(value, rel=1e-5), name
        for name, place in alone["places"].items():
            assert together["places"][name] == pytest.approx(place, rel=1e-5), name


def test_what_only_one_rank_has_seen_is_in_the_record(runs):
    one, (two, _) = runs
    maxima = [r["values"]["attention_logit_max"] for r in one["records"][1::2]]
    assert [r["values"]["attention_logit_max"] for r in two["records"][1::2]] == maxima
    assert [math.isnan(r["values"]["z_loss"]) for r in two["records"]] == [False] * 3 + [True]
    assert math.isfinite(two["records"][3]["values"]["loss"])


def test_one_collective_a_step(toy, backward, monkeypatch, tmp_path):
    import torch.distributed as dist

    calls = []
    for name in ("all_gather", "all_reduce", "broadcast", "all_gather_into_tensor", "barrier"):
        original = getattr(dist, name)

        def counted(*args, _name=name, _original=original, **kwargs):
            calls.append(_name)
            return _original(*args, **kwargs)

        monkeypatch.setattr(dist, name, counted)
    dist.init_process_group(
        "gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1
    )
    try:
        optimizer = torch.optim.AdamW(toy.parameters())
        meter = Meter(toy, optimizer, sample_every=1, process_group=dist.group.WORLD)
        for step in (1, 2):
            calls.clear()
            loss = backward(toy)
            meter.norms(step)
            optimizer.step()
            meter.after_update(step)
            sums = {"cross_entropy": loss * 9, "tokens": torch.tensor(9), "log_z_abs_max": loss}
            meter.record(step, 0, {}, sums=sums, attention=torch.ones(4))
            assert calls == ["all_gather"]
    finally:
        dist.destroy_process_group()
    assert meter.flush().values["loss"] == pytest.approx(float(loss), rel=1e-6)
