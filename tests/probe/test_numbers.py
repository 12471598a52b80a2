"""Published and prototype numbers of starts, reproduced."""

import pytest
import torch

import surefoot.model.feed_forward as feed_forward
import surefoot.probe.measure as measuring

VANILLA = {"method": "vanilla"}


def test_the_growth_of_four_starts(look, monkeypatch):
    """12 layers of 128 channels, ReLU: 7.2 vanilla, 7.2 detached, 1.2 scaled, 1.08 normed."""
    monkeypatch.setattr(feed_forward.F, "gelu", torch.relu)
    vanilla = look(VANILLA)
    detached = look(VANILLA, embedding_gradient=0.1)
    scaled = look(VANILLA, embedding_scale="sqrt_width")
    normed = look(VANILLA, embedding_norm=True)
    assert look.growth(vanilla) == pytest.approx(7.2, rel=0.1)
    assert look.growth(scaled) == pytest.approx(1.2, abs=0.03)
    assert look.growth(normed) == pytest.approx(1.08, abs=0.02)
    # Embed Detach changes the embedding's own gradient and nothing of the layers.
    assert look.growth(detached) == look.growth(vanilla)
    for seen, first, last in (
        (vanilla, 0.056, 0.457), (scaled, 0.635, 0.758), (normed, 0.998, 1.080),
    ):  # fmt: skip
        assert seen.layers[0].stream_rms == pytest.approx(first, rel=0.02)
        assert seen.stream_rms == pytest.approx(last, rel=0.06)


def test_a_narrow_model_stands_for_a_wide_one_by_the_rule(look):
    """512 against 128 channels: kept standard deviations hide most of the growth."""
    init = {"method": "gpt2", "std": 0.04}
    shape = {"width": 512, "heads": 16, "layers": 6, "sequence_length": 64, "sequences": 2}
    full, by_rule, naive = (
        [look(init, seed=seed, **kind, **shape) for seed in (1, 2, 3)]
        for kind in ({}, {"narrow": 4}, {"narrow": 4, "rule": False})
    )
    wide = sum(map(look.growth, full)) / 3
    assert sum(map(look.growth, by_rule)) / 3 == pytest.approx(wide, rel=0.15)
    assert sum(map(look.growth, naive)) / 3 < wide / 3
    full, by_rule = full[0], by_rule[0]
    assert by_rule.stream_rms == pytest.approx(full.stream_rms, rel=0.1)
    assert by_rule.logit_std == pytest.approx(full.logit_std, rel=0.05)
    for narrow, wide in zip(by_rule.layers[::3], full.layers[::3], strict=True):
        assert narrow.attention_rms == pytest.approx(wide.attention_rms, rel=0.25)
        assert narrow.feed_forward_rms == pytest.approx(wide.feed_forward_rms, rel=0.15)
        assert narrow.logit_std == pytest.approx(wide.logit_std, rel=0.15)


def uniform_tokens(vocab_size, plan, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab_size, (plan.sequences, plan.length + 1), generator=generator)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokens", "wanted"),
    [(None, (25.0, 24.9, 5.0)), (uniform_tokens, (21.1, 20.6, 4.4))],
    ids=["zipf", "uniform"],
)
def test_1024_channels_by_256(look, monkeypatch, tokens, wanted):
    """GPT-2's start, mean of three seeds: at full width, by the rule, and without it."""
    if tokens is not None:
        monkeypatch.setattr(measuring, "zipf_tokens", tokens)
    init, shape = {"method": "gpt2"}, {"width": 1024, "heads": 16, "sequences": 2}
    found = [
        sum(look.growth(look(init, seed=seed, **kind, **shape)) for seed in (1, 2, 3)) / 3
        for kind in ({}, {"narrow": 4}, {"narrow": 4, "rule": False})
    ]
    assert found == pytest.approx(wanted, rel=0.05)
    assert found[1] == pytest.approx(found[0], rel=0.05)


def test_the_first_loss_of_a_tied_head_survives_the_reduction(look):
    """The token just read has a logit that goes with the width; its share of the loss is kept."""
    tied = {
        "layers": 2, "width": 512, "heads": 16, "sequence_length": 64, "tied_embeddings": True,
        "embedding_scale": "sqrt_width",
    }  # fmt: skip
    full = look(VANILLA, **tied)
    by_rule = look(VANILLA, narrow=4, **tied)
    naive = look(VANILLA, narrow=4, rule=False, **tied)
    assert full.loss > 10
    assert by_rule.loss == pytest.approx(full.loss, rel=0.03)
    assert abs(naive.loss - full.loss) > 5


@pytest.mark.parametrize("method", ["xavier", "he", "vanilla", "megatron", "wesar", "mup"])
def test_every_method_is_reduced_as_it_goes_with_the_width(look, method):
    """Whether a method's standard deviations follow the width or not is read off it."""
    shape = {"width": 256, "heads": 8, "layers": 2}
    full, narrow = look({"method": method}, **shape), look({"method": method}, narrow=4, **shape)
    assert narrow.layers[0].stream_rms == pytest.approx(full.layers[0].stream_rms, rel=0.05)
    assert narrow.layers[0].feed_forward_rms == pytest.approx(
        full.layers[0].feed_forward_rms, rel=0.2
    )
    assert narrow.logit_std == pytest.approx(full.logit_std, rel=0.1)
