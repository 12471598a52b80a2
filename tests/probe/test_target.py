"""Recipes and config.json files, good and hostile."""

import json
import math

import pytest

from surefoot.errors import ConfigError, RecipeError, SurefootError, UsageError
from surefoot.probe import not_checked, profile_start, verdicts
from surefoot.probe.class_config import class_config, class_sizes
from surefoot.probe.target import read_target

RECIPE = """
[architecture]
layers = 2
width = 32
heads = 4
vocab_size = 320
sequence_length = 32

[optimizer]
learning_rate = 1e-2

[schedule]
steps = 120
warmup_steps = 20

[batch]
global_size = 4

[[data.sources]]
kind = "stdlib"
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(RECIPE, "utf-8")
    return path


def test_a_recipe_is_measured_with_its_own_length(recipe):
    profile = profile_start(recipe)
    assert (profile.kind, profile.method) == ("recipe", "spike-no-more")
    assert (profile.measured_length, profile.sequences, profile.reduction) == (32, 32, 1.0)
    assert profile.layers[0].stream_rms == pytest.approx(1, abs=0.05)
    assert profile.loss == pytest.approx(math.log(320), abs=0.35)
    assert len(profile.layers) == 2
    assert verdicts(profile) == []
    assert not_checked(profile) == []


def test_two_looks_see_the_same(recipe):
    assert profile_start(recipe) == profile_start(recipe)
    assert profile_start(recipe, ["seed=2"]) != profile_start(recipe)


def test_the_recipe_that_comes_along_has_no_finding():
    profile = profile_start("recipes/stdlib-1m.toml")
    assert verdicts(profile) == []


def test_how_far_a_table_can_move(recipe):
    """Linear warm-up over 20 of 120 steps, then constant: 0.01 (20 · 21/40 + 100)."""
    settings = ['schedule.kind="constant"', "optimizer.eps=1e-30"]
    table = profile_start(recipe, settings).tables[0]
    assert table.reach == pytest.approx(0.01 * 110.5 / table.rms, rel=1e-6)
    assert table.warmup_reach == pytest.approx(0.01 * 10.5 / table.rms, rel=1e-6)
    stuck = profile_start(recipe, [*settings, "optimizer.eps=1.0"])
    assert stuck.tables[0].reach < 1e-3
    assert [found.code for found in verdicts(stuck)] == ["INI006"]
    # Under Adam a detached embedding moves as far, until its gradient meets eps.
    detached = profile_start(recipe, [*settings, "architecture.embedding_gradient=0.1"]).tables[0]
    assert detached.reach == pytest.approx(table.reach)
    assert detached.gradient == pytest.approx(table.gradient / 10, rel=1e-4)


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ('init.method="xavier"', "INI002"),
        ("architecture.rope_theta=1e6", "INI007"),
        ("init.std=1e25", "INI008"),
        ("optimizer.learning_rate=1e-6", "INI006"),
    ],
)
def test_faults_are_found(recipe, setting, code):
    assert code in [found.code for found in verdicts(profile_start(recipe, [setting]))]


def test_an_over_confident_head_is_found(recipe):
    tied = ["architecture.tied_embeddings=true", "architecture.head_scale=1.0"]
    profile = profile_start(recipe, tied)
    assert profile.loss > 20
    assert [found.code for found in verdicts(profile)] == ["INI004"]
    assert verdicts(profile_start(recipe, tied[:1])) == []


def test_a_length_may_be_asked_for(recipe):
    assert profile_start(recipe, sequence_length=8).measured_length == 8
    with pytest.raises(UsageError, match=r"--sequence-length 64: .* has positions up to 32"):
        profile_start(recipe, sequence_length=64)
    with pytest.raises(UsageError, match="--sequence-length 1: expected 2 or more"):
        profile_start(recipe, sequence_length=1)


def test_a_pretrained_start_is_refused(recipe):
    with pytest.raises(UsageError, match="starts from trained weights"):
        profile_start(recipe, ['init.pretrained="x"'])


def test_what_is_no_recipe(recipe, tmp_path, config):
    with pytest.raises(ConfigError, match=r"there is no file .*b.toml \(did you mean 'a.toml'\?\)"):
        profile_start(tmp_path / "b.toml")
    with pytest.raises(RecipeError, match="did you mean"):
        profile_start(recipe, ["init.methd=1"])
    with pytest.raises(UsageError, match="--set goes with a recipe"):
        profile_start(config(), ["init.std=1.0"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"there is no config\.json in this folder"):
        profile_start(tmp_path / "empty")


FAMILIES = [
    ("llama", {}), ("mistral", {}), ("qwen2", {}), ("qwen3", {}), ("gemma", {}), ("gemma2", {}),
    ("gemma3_text", {}), ("olmo2", {}), ("gpt_neox", {}),
    ("gpt2", {"n_embd": 64, "n_head": 2, "n_layer": 2, "n_positions": 64}),
]  # fmt: skip


@pytest.mark.parametrize(("family", "more"), FAMILIES, ids=[name for name, _ in FAMILIES])
def test_a_family_is_measured_by_its_own_class(family, more, config):
    pytest.importorskip("transformers")
    path = config(model_type=family, **more)
    profile = profile_start(path)
    assert f"{family} of transformers" in profile.model
    assert profile.kind == "config.json"
    assert len(profile.layers) == 2
    for layer in profile.layers:
        assert 0 < layer.attention_rms < 2
        assert 0 < layer.feed_forward_rms < 2
        assert layer.stream_gradient > 0
        assert 0.5 < layer.entropy <= 1.0001
        assert (layer.attention_bound is None) == (profile.placement != "pre")
    assert profile.loss == pytest.approx(math.log(100), abs=0.3)
    assert {found.severity for found in verdicts(profile)} <= {"info"}
    embedding = next(table for table in profile.tables if table.role == "embedding")
    assert embedding.rms == pytest.approx(0.02, rel=0.1)
    # What enters the first layer: Gemma multiplies by the root of its width.
    factor = 8.0 if family.startswith("gemma") else 1.0
    positions = math.sqrt(2) if family == "gpt2" else 1.0
    assert profile.layers[0].stream_rms == pytest.approx(0.02 * factor * positions, rel=0.1)


@pytest.mark.parametrize("family", ["llama", "gemma"])
def test_a_class_is_reduced_by_the_rule(family, config, monkeypatch):
    """Gemma's class scales its embedding by the width it has: by that of the full one here."""
    pytest.importorskip("transformers")
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4,
             "intermediate_size": 1024, "head_dim": 64, "initializer_range": 0.04}  # fmt: skip
    path = config(model_type=family, hidden_act="silu", tie_word_embeddings=family == "gemma",
                  **sizes)  # fmt: skip
    full = profile_start(path)
    monkeypatch.setattr("surefoot.probe.reduce.FLOPS", 2e9)
    narrow = profile_start(path)
    assert (full.measured_width, narrow.measured_width) == (512, 128)
    assert "built 128 wide instead of 512" in narrow.notes[0]
    assert narrow.layers[0].stream_rms == pytest.approx(full.layers[0].stream_rms, rel=0.05)
    assert narrow.layers[1].stream_rms == pytest.approx(full.layers[1].stream_rms, rel=0.2)
    assert narrow.loss == pytest.approx(full.loss, rel=0.06)
    # Bounds are those of full width.
    assert narrow.layers[0].feed_forward_bound == pytest.approx(
        full.layers[0].feed_forward_bound, rel=0.2
    )


def test_without_the_class_the_fields_are_read(config, monkeypatch):
    monkeypatch.setattr("surefoot.probe.class_config.transformers", lambda: None)
    profile = profile_start(config(attention_bias=True, initializer_range=0.05))
    assert profile.model == "surefoot's decoder with the sizes of the file"
    assert profile.notes[1].startswith("model_type 'llama': no class of that family is known here")
    assert "initializer_range" in profile.notes[1]
    assert profile.notes[2] == "could not be used: attention_bias = true"
    assert profile.layers[0].stream_rms == pytest.approx(0.05, rel=0.1)


def test_an_unknown_family_says_what_was_used(config):
    profile = profile_start(
        config(model_type="mine", head_dim=16, alibi=True, rms_norm_eps=1e-5, hidden_act="relu")
    )
    used, open_ = profile.notes[1:]
    assert "'mine'" in used
    assert all(name in used for name in ("num_hidden_layers", "hidden_size", "rms_norm_eps"))
    assert "head_dim = 16 (32 was taken)" in open_
    assert "alibi = true (rotary was taken)" in open_
    assert 'hidden_act = "relu" (gelu was taken)' in open_
    assert "hidden_act" not in used
    assert profile.rotary is None


def test_keys_are_named_as_in_the_file_and_none_is_passed_over(config):
    moe = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
           "n_shared_experts": 1}  # fmt: skip
    strange = {"kv_lora_rank": 8, "hidden_sze": 64, "auto_map": {"AutoModel": "a.B"},
               "transformers_version": "4.46"}  # fmt: skip
    profile = profile_start(config(model_type="mine", **moe, **strange))
    _, used, open_, unread, code = profile.notes
    assert profile.sizes.ff_width == 24
    assert "moe_intermediate_size" in used
    assert open_ == (
        "could not be used: intermediate_size = 96 (24 was taken), n_shared_experts = 1"
    )
    assert unread == "not understood, so not used: kv_lora_rank, hidden_sze"
    assert code.startswith("auto_map: ")
    assert not any("expert_ff_width" in note for note in profile.notes)


def test_what_was_read_from_within_a_table_is_not_called_unread(config):
    profile = profile_start(config(model_type="mine", rope_parameters={"rope_theta": 5e4}))
    assert profile.rotary.theta == 5e4
    assert len(profile.notes) == 2
    assert "rope_theta" in profile.notes[1]


def test_another_name_of_the_inner_width_is_taken(config):
    profile = profile_start(config(model_type="mine", intermediate_size=None, d_ff=80))
    assert profile.sizes.ff_width == 80
    assert "d_ff" in profile.notes[1]


def test_fewer_experts_stand_for_many(config, monkeypatch):
    """32 of 256: what is measured is that of all, and bounds are the same."""
    path = config(model_type="mine", n_routed_experts=256, num_experts_per_tok=4,
                  moe_intermediate_size=32)  # fmt: skip
    whole = profile_start(path)
    assert (whole.sizes.experts, whole.measured_experts) == (256, 256)
    monkeypatch.setattr("surefoot.probe.reduce.DRAWN", 2 * 32 * 3 * 64 * 32)
    some = profile_start(path)
    assert (some.sizes.experts, some.measured_experts) == (256, 32)
    assert some.notes[0].startswith("built 32 of 256 experts in a layer, of which a token passes 4")
    for a, b in zip(whole.layers, some.layers, strict=True):
        assert b.feed_forward_rms == pytest.approx(a.feed_forward_rms, rel=0.1)
        assert b.feed_forward_bound == pytest.approx(a.feed_forward_bound, rel=0.05)
    assert some.gradient_growth == pytest.approx(whole.gradient_growth, rel=0.1)


@pytest.mark.parametrize("renormalised", [True, False])
def test_experts_of_a_class_are_left_out_where_its_router_allows(renormalised, config, monkeypatch):
    """Weights that do not sum to 1 would be larger over fewer experts."""
    pytest.importorskip("transformers")
    monkeypatch.setattr("surefoot.probe.reduce.DRAWN", 2 * 8 * 3 * 64 * 32)
    profile = profile_start(
        config(model_type="qwen3_moe", num_experts=32, num_experts_per_tok=2,
               moe_intermediate_size=32, norm_topk_prob=renormalised)
    )  # fmt: skip
    assert profile.measured_experts == (8 if renormalised else 32)


def test_of_a_dense_model_nothing_is_said_of_experts(config):
    profile = profile_start(config())
    assert (profile.sizes.experts, profile.measured_experts) == (1, 1)
    assert not any("experts" in note for note in profile.notes)


ENCODERS = [
    ({"model_type": "t5", "is_encoder_decoder": True}, "is_encoder_decoder = true"),
    ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "BertForMaskedLM"),
    ({"model_type": "mine", "architectures": ["MineForConditionalGeneration"]}, "architectures"),
]


@pytest.mark.parametrize(("settings", "says"), ENCODERS)
def test_what_is_no_decoder_is_refused(settings, says, config):
    with pytest.raises(ConfigError, match="this is no decoder") as caught:
        profile_start(config(**settings))
    assert says in str(caught.value)


def test_an_encoder_without_a_named_class_is_known_by_its_family(config):
    pytest.importorskip("transformers")
    with pytest.raises(ConfigError, match=r"model_type = 'roberta': this is no decoder"):
        profile_start(config(model_type="roberta"))
    assert profile_start(config(model_type="roberta", is_decoder=True)).loss > 0
    assert profile_start(config(model_type="mine", architectures=["MineForCausalLM"])).loss > 0


def test_an_unknown_activation_names_its_key_and_what_is_known(config):
    pytest.importorskip("transformers")
    with pytest.raises(ConfigError, match=r"hidden_act = 'gelu_nev': .*mean 'gelu_new'.*: silu,"):
        profile_start(config(hidden_act="gelu_nev"))


@pytest.mark.filterwarnings("error")
def test_a_vocabulary_of_one_is_measured_without_a_warning(config):
    profile = profile_start(config(model_type="mine", vocab_size=1))
    assert (profile.loss, profile.ln_vocab, profile.logit_std) == (0, 0, 0)


def test_code_of_the_model_is_never_run(config):
    evil = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    assert profile_start(config(auto_map=evil)).loss > 0


HOSTILE = {
    "no sizes": ({"hidden_size": None}, "hidden_size"),
    "text for a size": ({"hidden_size": "big"}, "hidden_size"),
    "no layers": ({"num_hidden_layers": 0}, "num_hidden_layers: expected a whole number of 1"),
    "negative": ({"num_hidden_layers": -3}, "got -3"),
    "a fraction": ({"hidden_size": 64.5}, "hidden_size"),
    "a truth": ({"hidden_size": True}, "hidden_size"),
    "a huge width": ({"hidden_size": 10**12}, "got 1000000000000"),
    "a huge vocabulary": ({"vocab_size": 10**9}, "vocab_size"),
    "huge depth": ({"num_hidden_layers": 10**4, "max_position_embeddings": 2048}, "memory"),
    "heads that do not divide": ({"num_key_value_heads": 3, "num_attention_heads": 8}, "divide"),
    "an odd head": ({"head_dim": 3}, "does not run"),
    "no such activation": ({"hidden_act": "nope"}, "nope"),
    "text for a spread": ({"initializer_range": "a"}, "initializer_range"),
    "an unknown family without sizes": ({"model_type": "x", "hidden_size": None}, "hidden_size"),
    "an unknown family, 7 heads": ({"model_type": "x", "num_attention_heads": 7}, "7"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_settings_are_refused_in_one_line(case, config):
    settings, says = HOSTILE[case]
    with pytest.raises(SurefootError) as caught:
        profile_start(config(**settings))
    message = str(caught.value)
    assert says in message
    assert "\n" not in message
    assert len(message) < 400


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"\xff\xfe", b'{"a":' * 3000, b"7"])
def test_what_is_no_json_is_refused(raw, tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match="expected a"):
        profile_start(path)


def test_sizes_that_nobody_stated_are_not_made_up(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(ConfigError, match="it states no hidden_size"):
        profile_start(path)


def test_a_language_model_within_another_is_found(config, tmp_path):
    inner = json.loads(config().read_text())
    path = tmp_path / "outer.json"
    path.write_text(json.dumps({"model_type": "llava", "text_config": inner}))
    assert "llama of transformers" in profile_start(path).model


def test_sizes_of_a_large_model_are_read_without_building_it(config):
    pytest.importorskip("transformers")
    path = config(hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
                  intermediate_size=14336, num_hidden_layers=32, vocab_size=128256,
                  max_position_embeddings=131072, rope_theta=5e5)  # fmt: skip
    target = read_target(path)
    assert (target.sizes.width, target.sizes.ff_matrices, target.length) == (4096, 3, 131072)
    assert (target.rope_theta, target.rotary_size) == (5e5, 128)
    neox = class_config({**json.loads(config().read_text()), "model_type": "gpt_neox"}, "x")
    assert class_sizes(neox, "x").ff_matrices == 2


@pytest.mark.slow
def test_a_7b_model_in_time(config):
    """20 s on two cores is promised; here the processor time of one thread, imports left out."""
    import time

    path = config(hidden_size=4096, num_attention_heads=32, num_key_value_heads=32, head_dim=128,
                  intermediate_size=11008, num_hidden_layers=32, vocab_size=32000,
                  max_position_embeddings=4096)  # fmt: skip
    start = time.process_time()
    profile = profile_start(path)
    assert time.process_time() - start < 30
    assert profile.sizes.width == 4096
    assert (profile.measured_length, profile.sequences) == (2048, 1)
    # 0.02 at 4096 channels: logits of standard deviation 0.02 · 64 cost half its square.
    assert profile.logit_std == pytest.approx(1.28, abs=0.02)
    assert profile.loss - profile.ln_vocab == pytest.approx(1.28**2 / 2, abs=0.15)
    assert profile.layers[0].logit_std == pytest.approx(1.28**2, rel=0.1)
    assert [found.code for found in verdicts(profile)] == ["INI001", "INI002", "INI003", "INI004"]
