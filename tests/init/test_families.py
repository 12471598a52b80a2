"""Role maps against the real classes of transformers, and every method on them."""

import math
from collections import Counter

import pytest
import torch

from surefoot.errors import UsageError
from surefoot.init import METHODS, insert_embedding_norm, roles_of, shape_of, start

from .conftest import FAMILIES

N, D, V = 3, 64, 300
SMALL = math.sqrt(2 / (5 * D))
TOKENS = torch.randint(3, V, (2, 12), generator=torch.Generator().manual_seed(1))

# Per block: query and key, value, out, up and gate, down, norm gains, biases.
PER_BLOCK = {
    "llama": (2, 1, 1, 2, 1, 2, 3),
    "mistral": (2, 1, 1, 2, 1, 2, 0),
    "qwen2": (2, 1, 1, 2, 1, 2, 3),
    "qwen3": (2, 1, 1, 2, 1, 4, 4),
    "gemma": (2, 1, 1, 2, 1, 2, 0),
    "gemma2": (2, 1, 1, 2, 1, 4, 0),
    "gemma3_text": (2, 1, 1, 2, 1, 6, 0),
    "olmo2": (2, 1, 1, 2, 1, 4, 0),
    "olmo3": (2, 1, 1, 2, 1, 4, 0),
    "arcee": (2, 1, 1, 1, 1, 2, 0),
    "apertus": (2, 1, 1, 1, 1, 4, 0),
    "stablelm": (2, 1, 1, 2, 1, 2 + 4 + 2, 2),
    "starcoder2": (2, 1, 1, 1, 1, 2, 8),
    "mixtral": (2, 1, 1, 1, 1, 2, 0),
    "qwen3_moe": (2, 1, 1, 1, 1, 4, 0),
    "gpt2": (1, 0, 1, 1, 1, 2, 6),
    "gptj": (2, 1, 1, 1, 1, 1, 3),
    "gpt_neox": (1, 0, 1, 1, 1, 2, 6),
}
TIED = ("gemma", "gemma2", "gemma3_text", "gpt2", "starcoder2")
# Of the last norm, and of GPT-J's head.
WITH_FINAL_BIAS = {"gpt2": 1, "gptj": 2, "gpt_neox": 1, "stablelm": 1, "starcoder2": 1}
PLACEMENT = {
    "gemma2": "sandwich",
    "gemma3_text": "sandwich",
    "olmo2": "reordered",
    "olmo3": "reordered",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parameter_has_its_role(make_foreign, family):
    model = make_foreign(family)
    roles = roles_of(model)
    assert set(roles) == {name for name, _ in model.named_parameters()}
    query, value, out, up, down, norms, biases = PER_BLOCK[family]
    norm = "norm_offset" if family.startswith("gemma") else "norm"
    expected = {
        "embedding": 1,
        "position": int(family == "gpt2"),
        "attention_in": N * query,
        "attention_value": N * value,
        "attention_out": N * out,
        "feed_forward_in": N * up,
        "feed_forward_out": N * down,
        "router": N * (family in ("mixtral", "qwen3_moe")),
        "head": int(family not in TIED),
        norm: N * norms + 1,
        "scale": N * 2 * (family == "apertus"),
        "bias": N * biases + WITH_FINAL_BIAS.get(family, 0),
    }
    assert Counter(roles.values()) == {role: n for role, n in expected.items() if n}
    shape = shape_of(model, roles)
    assert (shape.width, shape.layers) == (D, N)
    assert shape.placement == PLACEMENT.get(family, "pre")
    assert shape.tied == (family in TIED)
    assert shape.input_factor == (8.0 if family.startswith("gemma") else 1.0)


@pytest.mark.parametrize("family", FAMILIES)
def test_norms_start_as_the_identity(make_foreign, family):
    """What a norm gives has RMS 1, whether its gain is w or 1 + w."""
    model = make_foreign(family)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.3)
    start("he", seed=1)(model)
    seen = []
    for name, module in model.named_modules():
        if "norm" in name.rpartition(".")[2] or name.rpartition(".")[2].startswith("ln_"):
            module.register_forward_hook(lambda m, args, y: seen.append(y.detach()))
    with torch.no_grad():
        model(TOKENS)
    assert len(seen) >= N
    for y in seen:
        rms = y.float().square().mean().sqrt().item()
        assert rms == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("family", FAMILIES)
def test_spread_by_role(make_foreign, family):
    model = make_foreign(family)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(math.nan)  # whatever is left out shows
    start("megatron", seed=1, embedding_std=0.5)(model)
    deep = 0.02 / math.sqrt(2 * N)
    constant = {"norm": 1.0, "norm_offset": 0.0, "bias": 0.0}
    special = {"embedding": 0.5, "position": 0.5, "attention_out": deep, "feed_forward_out": deep}
    for name, role in roles_of(model).items():
        parameter = model.get_parameter(name)
        if role in constant:
            assert (parameter == constant[role]).all(), name
        elif role == "scale":
            assert parameter.isnan().all(), name
        else:
            rows = parameter[1:] if role == "embedding" else parameter  # row 0 is padding, or not
            within = 0.3 if role == "router" else 0.07
            assert rows.std().item() == pytest.approx(special.get(role, 0.02), rel=within), name


@pytest.mark.parametrize(
    "family",
    [
        "llama",
        "gpt2",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("gemma2", "mixtral", "olmo2", "gptj", "gpt_neox")
        ),
    ],
)
def test_every_method_gives_finite_logits(make_foreign, family):
    model = make_foreign(family, tie_word_embeddings=False)
    for method in METHODS:
        settings = {"base_width": 32} if method == "mup" else {}
        if method in ("deepnorm", "t-fixup"):
            with pytest.raises(UsageError, match=f'"{method}"'):
                start(method, seed=1, **settings)(model)
            continue
        start(method, seed=1, **settings)(model)
        with torch.no_grad():
            logits = model(TOKENS).logits
        assert torch.isfinite(logits).all(), method
        assert 1e-3 < logits.std().item() < 3, method


def parts(model, family):
    """Query, key and value of the first block, each (out, in), by what the class does with them."""
    if family == "gpt2":
        return model.transformer.h[0].attn.c_attn.weight.t().chunk(3)
    fused = model.gpt_neox.layers[0].attention.query_key_value.weight
    by_head = fused.view(4, 3, D // 4, D)  # heads of 3 x 16 rows, as attention splits them
    return [by_head[:, i].reshape(D, D) for i in range(3)]


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox"])
def test_query_key_and_value_of_a_fused_tensor(make_foreign, family):
    model = make_foreign(family, tie_word_embeddings=False)
    start("xavier", seed=1)(model)
    for part in parts(model, family):
        assert part.std().item() == pytest.approx(math.sqrt(2 / (2 * D)), rel=0.05)
    start("deepnorm", seed=1, placement="deepnorm")(model)
    gains = [part.std().item() / math.sqrt(2 / (2 * D)) for part in parts(model, family)]
    assert gains == pytest.approx([1, 1, 24**-0.25], rel=0.05)


def test_conv1d_reads_its_first_dimension(make_foreign):
    model = make_foreign("gpt2")
    start("he", seed=1)(model)
    up, down = (getattr(model.transformer.h[1].mlp, name).weight for name in ("c_fc", "c_proj"))
    assert up.shape == (D, 4 * D)
    assert up.std().item() == pytest.approx(D**-0.5, rel=0.05)
    assert down.std().item() == pytest.approx((2 / (4 * D)) ** 0.5, rel=0.05)
    start("torch", seed=1)(model)
    assert model.transformer.h[1].mlp.c_fc.bias.abs().max().item() <= D**-0.5
    assert down.abs().max().item() == pytest.approx((4 * D) ** -0.5, rel=0.01)


def test_experts_in_a_stack_have_fans_of_their_own(make_foreign):
    model = make_foreign("mixtral")
    start("xavier", seed=1)(model)
    experts = model.model.layers[0].mlp.experts
    assert experts.gate_up_proj.shape == (3, 2 * 192, D)
    for gate_up, down in zip(experts.gate_up_proj, experts.down_proj, strict=True):
        for part in gate_up.chunk(2):
            assert part.std().item() == pytest.approx(math.sqrt(2 / (D + 192)), rel=0.05)
        assert down.std().item() == pytest.approx(math.sqrt(2 / (D + 192)), rel=0.05)


def test_positions_of_gpt2(make_foreign):
    model = make_foreign("gpt2")
    for method, settings, expected in (
        ("gpt2", {}, 0.01),
        ("gpt2", {"position_std": 0.02}, 0.02),
        ("megatron", {}, 0.02),
        ("vanilla", {}, SMALL),
    ):
        start(method, seed=1, **settings)(model)
        assert model.transformer.wpe.weight.std().item() == pytest.approx(expected, rel=0.05)


def test_large_embeddings_need_a_head_of_their_own(make_foreign):
    tied, untied = make_foreign("gpt2"), make_foreign("gpt2", tie_word_embeddings=False)
    for settings in ({}, {"embedding_std": "scaled"}):
        with pytest.raises(UsageError, match=r"tied to the embedding.*tie_word_embeddings = False"):
            start("spike-no-more", seed=1, **settings)(tied)
        start("spike-no-more", seed=1, **settings)(untied)
    start("spike-no-more", seed=1, embedding_std=0.5)(tied)  # said in so many words
    assert tied.transformer.wte.weight.std().item() == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize(("embedding_std", "stream"), [(None, 1.0), ("scaled", math.sqrt(2 / 5))])
def test_a_factor_of_the_models_own_counts(make_foreign, embedding_std, stream):
    model = make_foreign("gemma")
    start("spike-no-more", seed=1, embedding_std=embedding_std)(model)
    entered = model.get_input_embeddings()(TOKENS)
    assert entered.std().item() == pytest.approx(stream, rel=0.05)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_norm_behind_the_embedding(make_foreign, family):
    model = make_foreign(family)
    before = {name for name, _ in model.named_parameters()}
    insert_embedding_norm(model)
    start("vanilla", seed=1)(model)
    added = {name for name, _ in model.named_parameters()} - before
    assert len(added) == 2
    roles = roles_of(model)
    assert {roles[name] for name in added} == {"norm", "bias"}
    entered = model.get_input_embeddings()(TOKENS)
    assert entered.std().item() == pytest.approx(1, rel=0.01)
    assert torch.isfinite(model(TOKENS).logits).all()
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert tied == (family in TIED)
    with pytest.raises(UsageError, match="has a norm behind it already"):
        insert_embedding_norm(model)


def test_where_no_norm_is_put_behind_the_embedding(make_foreign, make_decoder):
    with pytest.raises(UsageError, match=r"architecture\.embedding_norm"):
        insert_embedding_norm(make_decoder())
    with pytest.raises(UsageError, match=r"multiplies its embedding by sqrt\(width\)"):
        insert_embedding_norm(make_foreign("gemma"))
    with pytest.raises(UsageError, match=r"expected one nn.Embedding .*, found 0"):
        insert_embedding_norm(torch.nn.Linear(2, 2))


def test_a_model_within_a_wrapper(make_foreign):
    model = make_foreign("qwen3")
    wrapped = torch.nn.ModuleDict({"module": model})
    assert list(roles_of(wrapped).values()) == list(roles_of(model).values())
    assert shape_of(wrapped, roles_of(wrapped)) == shape_of(model, roles_of(model))
