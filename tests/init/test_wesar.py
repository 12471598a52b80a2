"""WeSaR: every matrix as alpha W, W of one spread."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from surefoot.errors import UsageError
from surefoot.init import ScaledMatrix, initialise, reparametrise, roles_of, start
from surefoot.model import loss_sums
from surefoot.optim import build_optimizer
from surefoot.recipe import Init, Optimizer

INIT = Init(method="wesar")
STORED = math.sqrt(4e-5)
TOKENS = torch.randint(300, (2, 13), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def model(make_decoder):
    model = make_decoder()
    reparametrise(model, model.roles(), INIT)
    initialise(model, model.roles(), INIT, seed=1)
    return model


def test_one_spread_is_stored_for_all(model):
    roles = model.roles()
    originals = [name for name in roles if name.endswith(".original")]
    assert len(originals) == 2 + 3 * 7
    for name in originals:
        assert model.get_parameter(name).std().item() == pytest.approx(STORED, rel=0.05), name
    factors = {name: model.get_parameter(name) for name in roles if roles[name] == "scale"}
    assert len(factors) == len(originals)
    assert all(factor.ndim == 0 and factor.requires_grad for factor in factors.values())
    assert model.embedding.parametrizations.weight[0].alpha == 1
    up = model.layers[0].feed_forward.w3.parametrizations.weight[0].alpha
    assert up.item() == pytest.approx(1 / math.sqrt(64) / STORED)


def test_values_do_not_depend_on_the_reparametrisation(model, make_decoder):
    plain = make_decoder()
    initialise(plain, plain.roles(), Init(method="vanilla", std=STORED), seed=1)
    torch.testing.assert_close(
        model.layers[0].attention.wq.parametrizations.weight.original,
        plain.layers[0].attention.wq.weight,
    )


def test_once_more_changes_nothing(model):
    before = dict(model.named_parameters())
    reparametrise(model, model.roles(), INIT)
    after = dict(model.named_parameters())
    assert before.keys() == after.keys()
    assert all(before[name] is after[name] for name in before)


def test_other_methods_change_no_parameter(make_decoder):
    model = make_decoder()
    before = [name for name, _ in model.named_parameters()]
    reparametrise(model, model.roles(), Init())
    assert [name for name, _ in model.named_parameters()] == before


def test_folding_gives_the_same_outputs(model, make_decoder):
    model.double()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, ScaledMatrix):
                module.alpha.mul_(1.5)
        expected = model(TOKENS[:, :-1])
    folded = copy.deepcopy(model)
    for module in list(folded.modules()):
        if parametrize.is_parametrized(module):
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)
    plain = make_decoder().double()
    plain.load_state_dict(folded.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(plain(TOKENS[:, :-1]), expected, rtol=1e-12, atol=1e-12)


def test_assigning_a_weight_keeps_the_product(model):
    layer = model.layers[0].attention.wq
    wanted = torch.randn_like(layer.weight)
    layer.weight = wanted
    torch.testing.assert_close(layer.weight, wanted)


def updates(alpha: float, optimizer: type, **settings) -> tuple[torch.Tensor, torch.Tensor]:
    """Two steps of W under a loss whose gradient is the same for any alpha W at the start."""
    layer = nn.Linear(8, 8, bias=False, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    product = torch.randn(8, 8, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(product / alpha)
    parametrize.register_parametrization(layer, "weight", ScaledMatrix().double())
    scaled = layer.parametrizations.weight
    with torch.no_grad():
        scaled.original.copy_(product / alpha)
        scaled[0].alpha.fill_(alpha)
    matrix = scaled.original
    slopes = torch.randn(2, 8, 8, generator=generator, dtype=torch.float64)
    before = matrix.detach().clone()
    train = optimizer([matrix], **settings)
    for slope in slopes:
        train.zero_grad()
        (layer.weight * slope).sum().backward()
        train.step()
    return matrix.detach() - before, before


def test_adams_step_does_not_depend_on_alpha():
    adam = {"lr": 1e-3, "eps": 1e-30}
    steps = [updates(alpha, torch.optim.Adam, **adam)[0] for alpha in (0.2, 1.0, 30.0)]
    torch.testing.assert_close(steps[0], steps[1], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(steps[2], steps[1], rtol=1e-9, atol=1e-12)
    # It is Adam's property: under SGD the step is alpha times as large ...
    sgd = [updates(alpha, torch.optim.SGD, lr=1e-3)[0] for alpha in (1.0, 30.0)]
    torch.testing.assert_close(sgd[1], 30 * sgd[0])
    # ... and an eps that counts breaks it.
    coarse = [updates(alpha, torch.optim.Adam, lr=1e-3, eps=1.0)[0] for alpha in (0.2, 30.0)]
    assert (coarse[1] / coarse[0]).median() > 2


def test_update_ratios_are_uniform(make_decoder):
    """What the method is for: one step moves every matrix by the same share of its norm."""

    def spread_of_ratios(init: Init) -> float:
        model = make_decoder()
        reparametrise(model, model.roles(), init)
        initialise(model, model.roles(), init, seed=1)
        # Tables aside: rows whose token is not in the batch do not move.
        matrices = [
            parameter
            for name, parameter in model.named_parameters()
            if parameter.ndim == 2 and "embedding" not in name and "head" not in name
        ]
        before = [parameter.detach().clone() for parameter in matrices]
        optimizer = build_optimizer(model, Optimizer(learning_rate=1e-4, weight_decay=0.0))
        sums = loss_sums(model(TOKENS[:, :-1]), TOKENS[:, 1:])
        sums.cross_entropy.backward()
        optimizer.step()
        ratios = [
            ((now - then).norm() / then.norm()).item()
            for now, then in zip(matrices, before, strict=True)
        ]
        return max(ratios) / min(ratios)

    assert spread_of_ratios(INIT) < 1.1
    assert spread_of_ratios(Init(method="megatron")) > 2


def test_experts_in_a_stack_have_a_factor_each(make_foreign):
    model = make_foreign("mixtral")
    start("wesar", seed=1)(model)
    experts = model.model.layers[0].mlp.experts
    assert experts.parametrizations.down_proj[0].alpha.shape == (3, 1, 1)
    assert experts.down_proj.std().item() == pytest.approx((3 * 192) ** -0.5, rel=0.05)
    assert torch.isfinite(model(TOKENS).logits).all()


def test_a_fused_tensor_and_conv1d(make_foreign):
    model = make_foreign("gpt2", tie_word_embeddings=False)
    start("wesar", seed=1)(model)
    assert roles_of(model)["transformer.h.0.attn.c_attn.parametrizations.weight.0.alpha"] == "scale"
    down = model.transformer.h[0].mlp.c_proj.weight
    assert down.std().item() == pytest.approx((3 * 256) ** -0.5, rel=0.05)


def test_another_method_afterwards_starts_the_factors_at_one(make_decoder):
    model = make_decoder()
    start("wesar", seed=1)(model)
    start("megatron", seed=1)(model)
    assert model.layers[0].attention.wq.weight.std().item() == pytest.approx(0.02, rel=0.05)


def test_refusals(make_decoder, make_foreign):
    model = make_decoder()
    with pytest.raises(UsageError, match=r"'embedding.weight' has no factor.*reparametrise\("):
        initialise(model, model.roles(), INIT, seed=1)
    with pytest.raises(UsageError, match=r"head is the embedding's table.*untie them"):
        start("wesar", seed=1)(make_foreign("gpt2"))
    with pytest.raises(UsageError, match=r"re-parameterised already.*sigma_reparam"):
        start("wesar", seed=1)(make_decoder(sigma_reparam=True))
    convolution = nn.Sequential(nn.Conv2d(3, 3, 3, bias=False))
    with pytest.raises(UsageError, match=r"'0.weight' of shape \(3, 3, 3, 3\) in Conv2d is none"):
        start("wesar", seed=1, roles={"0.weight": "attention_in"})(convolution)
    assert not parametrize.is_parametrized(convolution[0])


def test_a_map_by_hand_is_carried_over():
    model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4))
    roles = {"0.weight": "embedding", "1.weight": "attention_out", "1.bias": "bias"}
    start("wesar", seed=1, roles=roles)(model)
    assert model[1].parametrizations.weight[0].alpha.item() == pytest.approx(8**-0.5 / STORED)
