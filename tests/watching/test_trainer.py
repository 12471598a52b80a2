"""One implementation, two callers: the trainer's rows are those of a plain loop with a watch."""

import polars as pl
import pytest
import torch

from surefoot import runs
from surefoot.data import rank_share
from surefoot.init import initialise
from surefoot.model import Decoder, loss_sums
from surefoot.optim import build_optimizer, learning_rate
from surefoot.recipe import load
from surefoot.train import create, join, train
from surefoot.train.evaluate import to_device
from surefoot.watching import watch

SETTINGS = ["batch.micro_size=4", "optimizer.clip_norm=0", "loss.z_loss_weight=0",
            "signals.sample_every=4", "training.threads=1"]  # fmt: skip


class Silent:
    def on_record(self, record, verdict) -> None: ...

    def on_finding(self, finding) -> None: ...


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_a_plain_loop_with_a_watch_writes_what_the_trainer_writes(tiny, tmp_path, threads):
    recipe, sources = load(tiny / "tiny.toml", SETTINGS)
    job = create(recipe, sources, tmp_path / "trainer", join("cpu"), say=lambda line: None)
    recipe, steps = job.recipe, job.recipe.schedule.steps
    batches = []
    for number in range(steps):
        share = rank_share(number * 4, 4, 0, 1)
        batches.append(to_device(job.corpus.train, share, job.step))
    train(job, Silent())

    a = recipe.architecture
    model = Decoder(a)
    initialise(model, model.roles(), recipe.init, width=a.width, layers=a.layers, seed=recipe.seed)
    optimizer = build_optimizer(model, recipe.optimizer)
    with watch(model, optimizer, run=tmp_path / "loop", sample_every=4) as watching:
        for step, batch in enumerate(batches, start=1):
            rate = learning_rate(recipe.schedule, recipe.optimizer.learning_rate, step)
            for group in optimizer.param_groups:
                group["lr"] = rate
            sums = loss_sums(model(batch[:, :-1]), batch[:, 1:])
            torch.autograd.backward(sums.cross_entropy * (1 / sums.tokens))
            optimizer.step()
            watching.loss(sums.cross_entropy / sums.tokens, tokens=sums.tokens)
            watching.step()
            optimizer.zero_grad()

    ours, theirs = (runs.open(tmp_path / name) for name in ("trainer", "loop"))
    assert ours.places.items() >= theirs.places.items() - {"attention_logit_max"}
    exact = [name for name in theirs.signals.columns if name in ours.signals.columns]
    exact = [n for n in exact if n not in ("loss", "memory", "step_time", "tokens_per_second")]
    assert {"grad_norm@places", "update_rms", "adam_rms@places", "grad_cosine", "tokens"} < {*exact}
    assert ours.signals.select(exact).equals(theirs.signals.select(exact))
    difference = (ours.signals["loss"] - theirs.signals["loss"]).abs().max()
    assert difference < 1e-6 * ours.signals["loss"].max()
    assert ours.signals["grad_cosine"].drop_nulls().len() == steps // 4
    assert isinstance(ours.signals, pl.DataFrame)
