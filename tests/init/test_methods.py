"""The spread of every role under every method, and where each is refused."""

import hashlib
import math

import pytest
import torch
from torch import nn

from surefoot.errors import UsageError
from surefoot.init import METHODS, initialise, roles_of, start
from surefoot.recipe import Init
from surefoot.recipe.init import InitMethod

N, D, F, V = 3, 64, 192, 300
SMALL = math.sqrt(2 / (5 * D))
DEEP = math.sqrt(2 * N)


def xavier(fan_in: int, fan_out: int, gain: float = 1.0) -> float:
    return gain * math.sqrt(2 / (fan_in + fan_out))


# embedding, query (D to D), value (D to D/2), attention out, up (D to F), down (F to D), head.
EXPECTED = {
    "spike-no-more": (1.0, SMALL, SMALL, SMALL / DEEP, SMALL, SMALL / DEEP, SMALL),
    "vanilla": (SMALL, SMALL, SMALL, SMALL / DEEP, SMALL, SMALL / DEEP, SMALL),
    "small": (SMALL,) * 7,
    "megatron": (0.02, 0.02, 0.02, 0.02 / DEEP, 0.02, 0.02 / DEEP, 0.02),
    "gpt2": (0.02, 0.02, 0.02, 0.02 / DEEP, 0.02, 0.02 / DEEP, 0.02),
    "xavier": (
        D**-0.5,
        xavier(D, D),
        xavier(D, D // 2),
        xavier(D, D),
        xavier(D, F),
        xavier(F, D),
        xavier(D, V),
    ),
    "he": (D**-0.5, D**-0.5, D**-0.5, D**-0.5, D**-0.5, (2 / F) ** 0.5, D**-0.5),
    "torch": (1.0, *[(3 * D) ** -0.5] * 4, (3 * F) ** -0.5, (3 * D) ** -0.5),
    "deepnorm": (
        D**-0.5,
        xavier(D, D),
        xavier(D, D // 2, 24**-0.25),
        xavier(D, D, 24**-0.25),
        xavier(D, F, 24**-0.25),
        xavier(F, D, 24**-0.25),
        xavier(D, V),
    ),
    "t-fixup": (
        27**-0.25 * D**-0.5,
        xavier(D, D),
        xavier(D, D // 2, 27**-0.25),
        xavier(D, D, 27**-0.25),
        xavier(D, F, 27**-0.25),
        xavier(F, D, 27**-0.25),
        xavier(D, V),
    ),
    "mup": (1.0, SMALL, SMALL, SMALL / DEEP, SMALL, SMALL / DEEP, SMALL),
    "wesar": (
        math.sqrt(4e-5),
        D**-0.5,
        D**-0.5,
        (2 * N * D) ** -0.5,
        D**-0.5,
        (2 / (2 * N * F)) ** 0.5,
        D**-0.5,
    ),
}
NEEDS = {"deepnorm": {"norm_placement": "deepnorm"}, "t-fixup": {"norm_placement": "none"}}


def started(make_decoder, method: str, **settings):
    model = make_decoder(kv_heads=2, ff_width=F, **NEEDS.get(method, {}))
    if method == "mup":
        settings.setdefault("base_width", D)
    start(method, seed=1, **settings)(model)
    return model


def test_every_method_of_a_recipe_is_registered():
    assert set(METHODS) == set(EXPECTED) == set(InitMethod.__args__)


@pytest.mark.parametrize("method", EXPECTED)
def test_spread_of_each_role(make_decoder, method):
    model = started(make_decoder, method)
    block = model.layers[1]
    matrices = (
        model.embedding.weight,
        block.attention.wq.weight,
        block.attention.wv.weight,
        block.attention.wo.weight,
        block.feed_forward.w3.weight,
        block.feed_forward.w2.weight,
        model.head.weight,
    )
    for matrix, expected in zip(matrices, EXPECTED[method], strict=True):
        assert matrix.std().item() == pytest.approx(expected, rel=0.05)
        assert abs(matrix.mean().item()) < 0.05 * expected
        uniform = matrix.abs().max().item() < 1.8 * expected
        assert uniform == (method == "torch" and matrix is not model.embedding.weight)
    for name, role in model.roles().items():
        if role == "norm":
            assert (model.get_parameter(name) == 1).all(), name


@pytest.mark.parametrize("method", ["vanilla", "spike-no-more", "megatron", "small"])
def test_values_of_a_seed_are_for_ever(make_decoder, method):
    model = make_decoder()
    initialise(model, model.roles(), Init(method=method), seed=7)
    for name, std_at in (("embedding.weight", 0), ("layers.2.feed_forward.w2.weight", 5)):
        digest = hashlib.sha256(f"7:{name}".encode()).digest()
        seed = int.from_bytes(digest[:8], "little") >> 1
        parameter = model.get_parameter(name)
        expected = torch.empty(parameter.shape).normal_(
            0.0, EXPECTED[method][std_at], generator=torch.Generator().manual_seed(seed)
        )
        assert torch.equal(parameter, expected)


def test_width_and_layers_are_counted(make_decoder):
    by_hand, counted = make_decoder(), make_decoder()
    initialise(by_hand, by_hand.roles(), Init(), width=D, layers=N, seed=1)
    initialise(counted, counted.roles(), Init(), seed=1)
    for (name, one), two in zip(by_hand.named_parameters(), counted.parameters(), strict=True):
        assert torch.equal(one, two), name


def test_experts_count_as_one_block(make_decoder):
    model = make_decoder(experts=3, width=32)
    start("megatron", seed=1)(model)
    down = model.layers[0].feed_forward.experts[2].w2.weight
    assert down.std().item() == pytest.approx(0.02 / DEEP, rel=0.05)
    router = model.layers[0].feed_forward.router.weight
    assert router.std().item() == pytest.approx(0.02, rel=0.3)


def test_what_cannot_be_counted_is_asked_for():
    model = nn.Sequential(nn.Linear(4, 4, bias=False))
    with pytest.raises(UsageError, match=r"no parameter has the role \"embedding\".*give width="):
        start("small", seed=1, roles={"0.weight": "head"})(model)
    with pytest.raises(UsageError, match="to count the blocks by: give layers="):
        start("small", seed=1, width=4, roles={"0.weight": "head"})(model)
    start("small", seed=1, width=4, layers=1, roles={"0.weight": "head"})(model)


class Toy(nn.Module):
    """torch's own attention, whose query, key and value lie in one tensor."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 64, padding_idx=3)
        self.attention = nn.MultiheadAttention(64, 4)
        self.norm = nn.LayerNorm(64)
        self.up = nn.Linear(64, 256)


TOY_ROLES = {
    "table.weight": "embedding",
    "attention.in_proj_weight": "attention_in",
    "attention.in_proj_bias": "bias",
    "attention.out_proj.weight": "attention_out",
    "attention.out_proj.bias": "bias",
    "norm.weight": "norm",
    "norm.bias": "bias",
    "up.weight": "feed_forward_in",
    "up.bias": "bias",
}


def test_fused_matrices_have_fans_of_their_own():
    toy = Toy()
    start("xavier", seed=1, roles=TOY_ROLES)(toy)
    for part in toy.attention.in_proj_weight.chunk(3):
        assert part.std().item() == pytest.approx(xavier(64, 64), rel=0.05)  # not (64, 192)
    start("deepnorm", seed=1, roles=TOY_ROLES, placement="deepnorm")(toy)
    query, key, value = toy.attention.in_proj_weight.chunk(3)
    assert query.std().item() == pytest.approx(xavier(64, 64), rel=0.05)
    assert key.std().item() == pytest.approx(xavier(64, 64), rel=0.05)
    assert value.std().item() == pytest.approx(xavier(64, 64, 8**-0.25), rel=0.05)
    assert not torch.equal(query, key)


def test_only_torch_draws_biases_and_never_those_of_norms():
    toy = Toy()
    start("torch", seed=1, roles=TOY_ROLES)(toy)
    assert toy.up.bias.abs().max().item() <= 1 / 8
    assert toy.up.bias.std().item() == pytest.approx((3 * 64) ** -0.5, rel=0.1)
    assert toy.attention.in_proj_bias.std().item() == pytest.approx((3 * 64) ** -0.5, rel=0.1)
    assert not toy.norm.bias.any()
    start("he", seed=1, roles=TOY_ROLES)(toy)
    assert not toy.up.bias.any()
    assert not toy.attention.in_proj_bias.any()


def test_the_padding_row_is_zero():
    toy = Toy()
    start("small", seed=1, roles=TOY_ROLES)(toy)
    assert not toy.table.weight[3].any()
    assert toy.table.weight[4].any()


@pytest.mark.parametrize("uniform", [False, True])
def test_xavier_and_he_are_those_of_torch(uniform):
    layer = nn.Linear(24, 40, bias=False)
    roles = {"weight": "feed_forward_out"}
    kind = "uniform" if uniform else "normal"
    generator = torch.Generator().manual_seed(
        int.from_bytes(hashlib.sha256(b"3:weight").digest()[:8], "little") >> 1
    )
    state = generator.get_state()
    expected = getattr(nn.init, f"xavier_{kind}_")(torch.empty(40, 24), generator=generator)
    start("xavier", seed=3, roles=roles, width=40, layers=1, uniform=uniform)(layer)
    torch.testing.assert_close(layer.weight.detach(), expected, rtol=1e-6, atol=0)
    generator.set_state(state)
    expected = getattr(nn.init, f"kaiming_{kind}_")(torch.empty(40, 24), generator=generator)
    start("he", seed=3, roles=roles, width=40, layers=1, uniform=uniform)(layer)
    torch.testing.assert_close(layer.weight.detach(), expected, rtol=1e-6, atol=0)


def test_what_is_torchs_default_is_as_wide_as_torchs(make_decoder):
    ours, theirs = started(make_decoder, "torch"), make_decoder(kv_heads=2, ff_width=F)
    for (name, one), two in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if one.ndim == 2:
            assert one.std().item() == pytest.approx(two.std().item(), rel=0.05), name
            assert one.abs().max().item() == pytest.approx(two.abs().max().item(), rel=0.2), name


def test_settings_of_a_method(make_decoder):
    model = started(make_decoder, "deepnorm", gain=0.1, query_key_gain=0.5)
    block = model.layers[0]
    assert block.attention.wq.weight.std().item() == pytest.approx(xavier(D, D, 0.5), rel=0.05)
    assert block.attention.wo.weight.std().item() == pytest.approx(xavier(D, D, 0.1), rel=0.05)
    model = started(make_decoder, "megatron", std=0.006, embedding_std=1.0)
    assert model.embedding.weight.std().item() == pytest.approx(1.0, rel=0.05)
    assert model.head.weight.std().item() == pytest.approx(0.006, rel=0.05)
    model = started(make_decoder, "spike-no-more", embedding_std="scaled")
    assert model.embedding.weight.std().item() == pytest.approx(math.sqrt(D) * SMALL, rel=0.05)


def test_trained_factors_are_left_alone(make_decoder):
    model = make_decoder(layer_scale=0.125)
    start("small", seed=1)(model)
    scales = [name for name, role in model.roles().items() if role == "scale"]
    assert scales
    for name in scales:
        assert (model.get_parameter(name) == 0.125).all(), name


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("megatrn", {}, r"unknown initialisation 'megatrn' \(did you mean 'megatron'\?\)"),
        (
            "he",
            {"gian": 1.0},
            r"'he' has no setting 'gian' \(did you mean 'gain'\?\): its settings",
        ),
        ("torch", {"gain": 1.0}, "'torch' has no setting 'gain': it has no settings"),
        ("he", {"gain": -1.0}, "gain = -1.0: expected a number above 0"),
        ("he", {"gain": math.nan}, "gain = nan: expected a number above 0"),
        ("megatron", {"std": "tiny"}, "std = 'tiny': expected a number above 0 or \"small\""),
        ("vanilla", {"embedding_std": "scaled"}, "embedding_std = 'scaled': expected a number"),
        ("mup", {}, '"mup" needs base_width='),
    ],
)
def test_bad_settings(method, settings, message):
    with pytest.raises(UsageError, match=message):
        start(method, seed=1, **settings)


@pytest.mark.parametrize("placement", ["pre", "post", "sandwich", "none"])
def test_deepnorm_is_refused_elsewhere(make_decoder, placement):
    model = make_decoder(norm_placement=placement)
    before = model.embedding.weight.clone()
    with pytest.raises(UsageError, match=rf'of this model are placed "{placement}".*spike-no-more'):
        start("deepnorm", seed=1)(model)
    with pytest.raises(UsageError, match="enlarged shortcut"):
        initialise(model, model.roles(), Init(method="deepnorm"), seed=1)
    assert torch.equal(model.embedding.weight, before)


@pytest.mark.parametrize("placement", ["pre", "deepnorm"])
def test_t_fixup_is_refused_with_norms(make_decoder, placement):
    with pytest.raises(UsageError, match=r"replaces the norms.*norm_placement = \"none\""):
        start("t-fixup", seed=1)(make_decoder(norm_placement=placement))
    with pytest.raises(UsageError, match="replaces the norms, and this model has them: behind"):
        start("t-fixup", seed=1, roles=TOY_ROLES)(Toy())
    started_without = make_decoder(norm_placement="none", qk_norm=True)
    start("t-fixup", seed=1)(started_without)  # norms on queries and keys are not of the stream


def test_a_role_of_a_matrix_on_what_is_none():
    toy = Toy()
    before = {name: value.clone() for name, value in toy.state_dict().items()}
    with pytest.raises(UsageError, match=r"'norm.weight' of shape \(64,\) has the role 'head'"):
        start("small", seed=1, roles=TOY_ROLES | {"norm.weight": "head"})(toy)
    assert all(torch.equal(before[name], value) for name, value in toy.state_dict().items())


def test_a_method_in_one_file_of_ones_own(make_decoder):
    from dataclasses import dataclass

    from surefoot.init import Method, Spread

    @dataclass(frozen=True, kw_only=True)
    class ByDepth(Method):
        std: float = 0.5

        def spread(self, weight, shape):
            return Spread(self.std / shape.layers, uniform=weight.role == "head")

    METHODS.register("by-depth")(ByDepth)
    try:
        model = make_decoder()
        start("by-depth", seed=1, std=0.3)(model)
        assert model.embedding.weight.std().item() == pytest.approx(0.1, rel=0.05)
        assert model.head.weight.abs().max().item() == pytest.approx(0.1 * 3**0.5, rel=0.01)
    finally:
        METHODS._items.pop("by-depth")


def test_roles_of_the_decoder_are_its_own(make_decoder):
    model = make_decoder()
    assert roles_of(model) == model.roles()
