"""Fields that must fit together: refused with the reason, and with what to write instead."""

import math

import pytest

from surefoot.errors import RecipeError
from surefoot.recipe import Architecture, Init, Recipe, load

REFUSED = [
    (["init.method=deepnorm"], 'is made for norm_placement = "deepnorm", not "pre"'),
    (["init.method=t-fixup"], 'replaces the norms: it needs norm_placement = "none", not "pre"'),
    (["architecture.norm_placement=none"], 'needs init.method = "t-fixup"'),
    (
        ["architecture.norm_placement=none", "init.method=t-fixup",
         "architecture.embedding_norm=true"],
        "architecture.embedding_norm is a norm",
    ),
    (["architecture.residual_scale=2.0"], 'goes with norm_placement = "deepnorm"'),
    (["architecture.experts=2", "architecture.experts_per_token=3"], "exceeds architecture"),
    (["architecture.expert_capacity=1.25"], "goes with architecture.experts"),
    (["architecture.qk_clip=100.0"], "has no effect behind QK-norm"),
    (
        ["architecture.qk_clip=100.0", "architecture.qk_norm=false",
         "architecture.sigma_reparam=true"],
        "scales plain matrices",
    ),
    (["init.method=wesar", "architecture.sigma_reparam=true"], "architecture.sigma_reparam, which"),
    (["optimizer.clip_ratio=1.1"], 'goes with clip = "adagc" or "agc"'),
    (["optimizer.shallow_layers=2"], "set both"),
    (["optimizer.shallow_layers=99", "optimizer.shallow_gradient=0.5"], "exceeds architecture"),
    (["optimizer.independent_decay=true"], "at most 0.02"),
    (["optimizer.eps=1e-60"], "is 0 in fp32"),
    (["batch.length_from=8", "batch.length_steps=100000"], "would never be reached"),
    (["init.method=wesar", "architecture.tied_embeddings=true"], "a factor each"),
    (["init.wesar_std=0.1"], 'goes with init.method = "wesar"'),
    (["architecture.qk_norm_over=width", "architecture.qk_norm=false"], "goes with"),
    (["init.method=xavier", "init.std=0.02"], "follow from the shape of each matrix"),
    (["init.method=wesar", "init.embedding_std=1.0"], "init.embedding_std has no meaning"),
    (["init.method=mup"], "needs init.base_width, the width at which the rates were tuned"),
    (["init.base_width=64"], 'goes with init.method = "mup"'),
    (["batch.length_from=64"], "needs both batch.length_from and batch.length_steps"),
    (
        ["batch.length_from=4096", "batch.length_steps=10"],
        "batch.length_from = 4096 exceeds architecture.sequence_length",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "message"), REFUSED, ids=[s[0][0] for s in REFUSED])
def test_what_does_not_go_together_is_refused(write, settings, message):
    with pytest.raises(RecipeError) as caught:
        load(write(), settings)
    assert message in str(caught.value)


PRESETS = {
    # method: std of matrices, of the embedding, whether outputs are divided, at width 640
    "spike-no-more": (0.025, 1.0, True),
    "vanilla": (0.025, 0.025, True),
    "small": (0.025, 0.025, False),
    "megatron": (0.02, 0.02, True),
    "gpt2": (0.02, 0.02, True),
}


@pytest.mark.parametrize("method", PRESETS)
def test_a_method_says_its_standard_deviations(method):
    std, embedding_std, scaled = Init(method=method).standard_deviations(640)
    assert (std, embedding_std) == pytest.approx(PRESETS[method][:2], rel=1e-12)
    assert scaled is PRESETS[method][2]


def test_what_is_stated_wins_over_the_method():
    init = Init(method="megatron", std="small", embedding_std=1.0, depth_scaled_outputs=False)
    assert init.standard_deviations(640) == pytest.approx((0.025, 1.0, False))


@pytest.mark.parametrize("method", ["xavier", "he", "torch", "deepnorm", "wesar", "mup", "t-fixup"])
def test_other_methods_have_none(method):
    assert Init(method=method).standard_deviations(640) is None


SHAPE = {"layers": 8, "width": 128, "heads": 4, "vocab_size": 64, "sequence_length": 16}


def test_factors_of_the_architecture():
    assert Architecture(**SHAPE).shortcut_factor == 1
    deep = Architecture(**SHAPE, norm_placement="deepnorm")
    assert deep.shortcut_factor == pytest.approx(2.0)  # 16^(1/4)
    assert Architecture(**SHAPE).logit_factor == 1 / math.sqrt(32)
    assert Architecture(**SHAPE, attention_scale="mup").logit_factor == 0.25
    assert Architecture(**SHAPE, attention_scale=0.5).logit_factor == 0.5


@pytest.mark.parametrize(
    "settings",
    [
        ["architecture.norm_placement=deepnorm", "init.method=deepnorm"],
        ["init.method=mup", "init.base_width=64", "architecture.attention_scale=mup"],
        ["init.method=wesar"],
        ["architecture.experts=4", "architecture.tied_embeddings=true"],
    ],
)
def test_resolving_is_done_once(write, settings):
    recipe = load(write(), settings)[0].resolved()
    assert recipe.resolved() == recipe
    assert Recipe.from_spec(recipe.to_spec()) == recipe


def test_mup_divides_the_logits_by_the_growth_in_width(write):
    recipe, _ = load(write(), ["init.method=mup", "init.base_width=16"])
    wide = recipe.architecture.width
    assert recipe.resolved().architecture.head_scale == pytest.approx(16 / wide)
    same = load(write(), ["init.method=mup", f"init.base_width={wide}"])[0].resolved()
    assert same.architecture.head_scale == 1
