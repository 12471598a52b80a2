"""Two processes under torchrun: the same run as one, written once."""

import os
import shutil
import subprocess
import sys

import pytest

from surefoot import runs


def torchrun(folder, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"),
            *("--standalone", "-m", "surefoot", *arguments),
        ],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_two_ranks_train_as_one_and_resume(tiny, command, tmp_path):
    recipe = str(tiny / "tiny.toml")
    alone = command(tmp_path, "train", recipe, "--name", "one", "--set", "schedule.steps=6")
    assert alone.returncode == 0, alone.stderr
    both = torchrun(tmp_path, "train", recipe, "--name", "two", "--set", "schedule.steps=6")
    assert both.returncode == 0, both.stderr
    one, two = (runs.open(tmp_path / "runs" / name).signals for name in ("one", "two"))
    assert two["step"].to_list() == one["step"].to_list()
    for name in ("loss", "log_z", "log_z_abs_max", "z_loss", "grad_norm", "adam_rms"):
        for a, b in zip(one[name].drop_nulls(), two[name].drop_nulls(), strict=True):
            assert b == pytest.approx(a, rel=1e-3), name
    last = [r["validation_loss"].drop_nulls()[-1] for r in (one, two)]
    assert last[1] == pytest.approx(last[0], rel=1e-3)
    # Counts are exact: nothing is fed twice.
    for name in ("tokens", "consumed_samples", "batch_size"):
        assert one[name].to_list() == two[name].to_list()
    # One rank speaks.
    assert both.stdout.count("validation loss in nats") == 1

    shutil.rmtree(tmp_path / "runs" / "two" / "checkpoints" / "step-000000006")
    again = torchrun(tmp_path, "train", "--name", "two", "--resume")
    assert again.returncode == 0, again.stderr
    assert "resuming two at step 4" in again.stderr
    resumed = runs.open(tmp_path / "runs" / "two").signals
    assert resumed["loss"].to_list() == two["loss"].to_list()


def test_two_ranks_with_fp16_loss_scaling(tiny, tmp_path):
    done = torchrun(
        tmp_path,
        *("train", str(tiny / "tiny.toml"), "--name", "x"),
        *("--set", "schedule.steps=3", "--set", "precision.compute=fp16"),
    )
    assert done.returncode == 0, done.stderr
    run = runs.open(tmp_path / "runs" / "x")
    assert run.signals["loss_scale"].to_list()[0] == 65536
    assert run.signals["loss"].is_finite().all()
