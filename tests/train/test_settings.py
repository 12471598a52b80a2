"""Every setting that prevents something trains, says so in its signals, and resumes bit for bit."""

from pathlib import Path

import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from surefoot import runs
from surefoot.checkpoint import CheckpointStore
from surefoot.model import fold
from surefoot.recipe import load
from surefoot.records import is_volatile
from surefoot.train import create, join, load_model, resume
from surefoot.train.loop import _Loop, train

LAST = 8

SETTINGS = {
    "post": ["architecture.norm_placement=post"],
    "peri": ["architecture.norm_placement=peri"],
    "reordered": ["architecture.norm_placement=reordered", "architecture.qk_norm_over=width"],
    "b2t": ["architecture.norm_placement=b2t"],
    "deepnorm": ["architecture.norm_placement=deepnorm", "init.method=deepnorm"],
    "t-fixup": ["architecture.norm_placement=none", "init.method=t-fixup",
                "architecture.qk_norm=false"],
    "embed-ln": ["architecture.embedding_norm=true", "architecture.embedding_gradient=0.1"],
    "caps": ["architecture.attention_softcap=50.0", "architecture.logit_softcap=30.0"],
    "sigma-reparam": ["architecture.sigma_reparam=true", "architecture.layer_scale=0.1"],
    "wesar": ["init.method=wesar"],
    "mup": ["init.method=mup", "init.base_width=8", "architecture.attention_scale=mup"],
    "experts": ["architecture.experts=4", "architecture.expert_capacity=1.25"],
    "stable-adamw": ["optimizer.name=stable-adamw", "optimizer.clip=none"],
    "adamw-update-clip": ["optimizer.name=adamw-update-clip"],
    "laprop": ["optimizer.name=laprop"],
    "spam": ["optimizer.name=spam", "optimizer.reset_every=3", "optimizer.reset_warmup=2"],
    "muonclip": ["optimizer.name=muon", "architecture.qk_clip=0.01", "architecture.qk_norm=false"],
    "zclip": ["optimizer.clip=zclip"],
    "adagc": ["optimizer.clip=adagc"],
    "agc": ["optimizer.clip=agc", "optimizer.shallow_layers=1", "optimizer.shallow_gradient=0.5"],
    "autoclip": ["optimizer.clip=autoclip"],
    "skip": ["optimizer.skip_spikes=true", "optimizer.skip_window=4", "optimizer.skip_sigmas=0.1"],
    "length": ["batch.length_from=8", "batch.length_steps=6"],
    "fp16": ["precision.compute=fp16", "optimizer.clip=adagc", "optimizer.name=laprop"],
}  # fmt: skip


class Quiet:
    """An observer that looks away."""

    def on_record(self, record, verdict) -> None:
        pass

    def on_finding(self, finding) -> None:
        pass


def recipe_of(tiny: Path, settings: list[str]):
    plain = [f"schedule.steps={LAST}", "checkpoint.every=4", "signals.sample_every=2"]
    return load(tiny / "tiny.toml", [*plain, *settings])


def ended(folder: Path) -> tuple[dict[str, bytes], pl.DataFrame]:
    store = CheckpointStore(folder / "checkpoints")
    found = {
        name: torch.zeros(info.shape, dtype=info.dtype)
        for name, info in store.tensors(LAST).items()
    }
    store.load(LAST, found)
    frame = runs.open(folder).signals
    kept = sorted(c for c in frame.columns if c != "attempt" and not is_volatile(c))
    return {name: t.numpy().tobytes() for name, t in found.items()}, frame.select(kept)


@pytest.fixture(scope="module")
def whole(tiny, tmp_path_factory):
    """Runs by setting, each made once."""
    made = {}

    def make(name: str) -> Path:
        if name not in made:
            folder = tmp_path_factory.mktemp(name) / "run"
            recipe, sources = recipe_of(tiny, SETTINGS[name])
            outcome = train(create(recipe, sources, folder, join("cpu"), lambda _: None), Quiet())
            assert outcome.step == LAST
            made[name] = folder
        return made[name]

    return make


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_trains_and_resumes_bit_for_bit(name, tiny, whole, tmp_path):
    recipe, sources = recipe_of(tiny, SETTINGS[name])
    job = create(recipe, sources, tmp_path / "run", join("cpu"), lambda _: None)
    loop = _Loop(job, Quiet())
    for _ in range(4):
        loop.step()
    loop.checkpoint(None)
    job.close()
    train(resume(tmp_path / "run", join("cpu"), lambda _: None), Quiet())
    (tensors, signals), (expected, frame) = ended(tmp_path / "run"), ended(whole(name))
    assert tensors.keys() == expected.keys()
    assert [n for n in tensors if tensors[n] != expected[n]] == []
    assert_frame_equal(signals, frame, check_exact=True)
    assert frame["loss"].is_finite().all()


def test_the_length_grows_and_tokens_are_counted_as_fed(whole):
    frame = runs.open(whole("length")).signals
    batch = frame["batch_size"].to_list()
    lengths = [t // b for t, b in zip(frame["tokens"].to_list(), batch, strict=True)]
    assert lengths[0] == 8
    assert lengths == sorted(lengths)
    assert lengths[-1] == max(lengths) > 8
    assert frame["consumed_tokens"].to_list()[-1] == sum(frame["tokens"].to_list())


def test_a_spike_is_left_out_and_counted(whole):
    skipped = runs.open(whole("skip")).signals["update_skipped"].to_list()
    assert skipped[:2] == [0, 0]
    assert 0 < sum(skipped) < LAST


def test_heads_above_the_threshold_are_scaled_down(whole):
    frame = runs.open(whole("muonclip")).signals
    # The threshold is tiny, so every head is clipped after every step.
    assert max(v for v in frame["attention_logit_max"].to_list()[4:] if v is not None) < 0.05


def test_routers_tell_what_they_do(whole):
    frame = runs.open(whole("experts")).signals
    for name in ("router_entropy", "router_logit_max", "expert_load_max", "tokens_dropped"):
        assert frame[name].is_finite().all(), name
    assert (frame["expert_load_max"] >= 1).all()
    assert (frame["load_balancing_loss"] > 0.9).all()


@pytest.mark.parametrize("name", ["wesar", "muonclip", "embed-ln"])
def test_a_finished_run_is_read_as_a_model(name, whole):
    tokens = torch.arange(12).view(1, 12)
    loaded = load_model(whole(name))
    assert loaded.step == LAST
    assert loaded.model(tokens).isfinite().all()
    folded = fold(loaded.model).model
    torch.testing.assert_close(folded(tokens), loaded.model(tokens), rtol=1e-3, atol=1e-4)
