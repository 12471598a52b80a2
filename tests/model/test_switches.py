"""What each switch of the architecture promises beside its formula."""

import math

import pytest
import torch
from torch import nn

from surefoot.model import PLACEMENTS, Block, LayerScale, loss_sums
from surefoot.recipe import Architecture


def gradients(model, tokens):
    model.zero_grad()
    sums = loss_sums(model(tokens[:, :-1]), tokens[:, 1:])
    (sums.cross_entropy / sums.tokens).backward()
    return sums.cross_entropy.detach(), {n: p.grad.clone() for n, p in model.named_parameters()}


class _Writes(nn.Module):
    """A sub-layer that writes what it was given at first."""

    def __init__(self, written):
        super().__init__()
        self.written = written

    def forward(self, x, *_):
        return self.written


def block_with(placement, f, g, **changes):
    shape = {"layers": 8, "width": 16, "heads": 2, "vocab_size": 9, "sequence_length": 4}
    block = Block(Architecture(**shape, norm="layernorm", norm_placement=placement, **changes))
    block.attention, block.feed_forward = _Writes(f), _Writes(g)
    return block


def layer_norm(x):
    return nn.functional.layer_norm(x, x.shape[-1:], eps=1e-6)


def test_deepnorm_is_the_norm_of_the_enlarged_shortcut_and_the_sub_layer():
    # Widely copied code has x + alpha f(x): no norm, and the factor on the wrong branch.
    x, f, g = torch.randn(3, 2, 4, 16, generator=torch.Generator().manual_seed(1))
    got = block_with("deepnorm", f, g)(x, None, None, None, 0)
    alpha = 16**0.25
    u = layer_norm(alpha * x + f)
    torch.testing.assert_close(got, layer_norm(alpha * u + g), rtol=0, atol=1e-6)
    wrong = x + alpha * f
    wrong = wrong + alpha * g
    assert (got - wrong).abs().max() > 0.5
    assert (got - layer_norm(u + alpha * g)).abs().max() > 0.5
    torch.testing.assert_close(got.square().mean(-1), torch.ones(2, 4), rtol=1e-4, atol=0)


def test_the_shortcut_of_b2t_skips_the_first_norm():
    x, f, g = 5 * torch.randn(3, 2, 4, 16, generator=torch.Generator().manual_seed(1))
    got = block_with("b2t", f, g)(x, None, None, None, 0)
    torch.testing.assert_close(got, layer_norm(x + layer_norm(x + f) + g), rtol=0, atol=1e-6)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_layer_scale_of_zero_writes_nothing(placement, make_model, tokens):
    """Nothing undoes the factor: with all of them 0 each block hands on its shortcut alone."""
    block = block_with(placement, torch.randn(2, 4, 16), torch.randn(2, 4, 16), layer_scale=0.5)
    for module in block.modules():
        if isinstance(module, LayerScale):
            assert (module.weight == 0.5).all()
            nn.init.ones_(module.weight)
            module.reset_parameters()
            assert (module.weight == 0.5).all()
            nn.init.zeros_(module.weight)
    x = torch.randn(2, 4, 16, generator=torch.Generator().manual_seed(1))
    got = block(x, None, None, None, 0)
    expected = x
    if placement in ("post", "deepnorm"):
        expected = layer_norm(layer_norm(x) * block.shortcut_factor)
    elif placement == "b2t":
        expected = layer_norm(x + layer_norm(x))
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("share", [0.1, 0.7])
@pytest.mark.parametrize("scale", [1.0, "sqrt_width"])
def test_embedding_gradient_changes_the_gradient_of_the_embedding_alone(
    share, scale, make_model, tokens
):
    plain = make_model(embedding_scale=scale)
    detached = make_model(embedding_scale=scale, embedding_gradient=share)
    loss, expected = gradients(plain, tokens)
    got_loss, got = gradients(detached, tokens)
    assert torch.equal(loss, got_loss)
    for name, gradient in expected.items():
        if name == "embedding.weight":
            # Exactly, but for the order of sum and product over a token's occurrences.
            torch.testing.assert_close(got[name], share * gradient, rtol=1e-5, atol=1e-9)
        else:
            assert torch.equal(got[name], gradient), name


def test_embedding_gradient_of_a_tied_head_shrinks_the_input_side_only(make_model, tokens):
    def of_table(share):
        return gradients(make_model(tied_embeddings=True, embedding_gradient=share), tokens)[1][
            "embedding.weight"
        ]

    whole, half, little = of_table(1.0), of_table(0.5), of_table(1e-6)
    torch.testing.assert_close(half, (whole + little) / 2, rtol=1e-3, atol=1e-6)
    unread = torch.ones(50, dtype=torch.bool)
    unread[tokens[:, :-1].flatten()] = False
    assert little[unread].any()  # what the head alone says
    assert torch.equal(little[unread], whole[unread])
    assert not torch.equal(little[~unread], whole[~unread])


@pytest.mark.parametrize("factor", ["kernel", "other"])
def test_the_usual_factor_as_a_number_is_the_usual_factor(factor, make_model, tokens):
    # A resolved recipe states it as a number; a resumed run must go on bit by bit.
    number = 1 / math.sqrt(8) if factor == "kernel" else 0.4
    with torch.no_grad():
        plain, stated = make_model(), make_model(attention_scale=number)
        logits = []
        for model in (plain, stated):
            with model.measure_attention_logits():
                logits.append((model(tokens), model.attention_head_logit_max))
    same = [torch.equal(a, b) for a, b in zip(*logits, strict=True)]
    assert same == [factor == "kernel"] * 2


def test_mup_attention_factor_is_8_over_the_head_size(make_model, tokens):
    with torch.no_grad():
        a, b = make_model(attention_scale="mup"), make_model(attention_scale=1.0)
        assert torch.equal(a(tokens), b(tokens))  # heads of 8


def test_layers_are_numbered_from_1_for_layer_scaling(make_model):
    on = make_model(layers=3, query_key_layer_scaling=True).layers
    assert [layer.attention.layer_number for layer in on] == [1, 2, 3]
    assert all(layer.attention.layer_number == 1 for layer in make_model(layers=3).layers)


def test_capped_logits_are_measured_before_the_cap(make_model, tokens):
    plain, capped = make_model(qk_norm=False), make_model(qk_norm=False, attention_softcap=0.01)
    measured = []
    with torch.no_grad():
        for model in (plain, capped):
            with model.measure_attention_logits():
                model(tokens)
            measured.append(model.attention_head_logit_max[0])
    assert torch.equal(*measured)
    assert measured[0].shape == (4,)
    assert (measured[0] > 0.01).all()


def test_head_that_grows_is_told_from_the_others(make_model, tokens):
    model = make_model(qk_norm=False)
    with torch.no_grad():
        with model.measure_attention_logits():
            model(tokens)
        before = model.attention_head_logit_max
        model.layers[1].attention.wq.weight[16:24] *= 10  # the third head
        with model.measure_attention_logits():
            model(tokens)
    ratio = model.attention_head_logit_max / before
    assert ratio.argmax() == 4 + 2
    assert ratio[1, 2] == pytest.approx(10, rel=1e-4)
    assert ratio.flatten().sort().values[-2] < 1.01


SWITCHES = [
    *({"norm_placement": placement} for placement in PLACEMENTS if placement != "pre"),
    {"layer_scale": 0.5, "qk_norm_over": "width", "attention_scale": "mup"},
    {"attention_softcap": 2.0, "logit_softcap": 5.0, "query_key_layer_scaling": True},
    {"embedding_norm": True, "embedding_gradient": 0.5, "tied_embeddings": True},
    {"sigma_reparam": True},
    {"experts": 3, "sigma_reparam": True},
]


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_bf16_is_near_fp32_and_gradients_reach_every_parameter(switches, make_model, tokens):
    model = make_model(width=64, **switches)
    model(tokens)  # so that both start at the same power iteration
    model.eval()
    with torch.no_grad():
        exact = model(tokens)
    model.train("sigma_reparam" not in switches)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = model(tokens)
    assert got.dtype == torch.bfloat16
    error = (got.float() - exact).square().mean().sqrt() / exact.std()
    assert error < (0.4 if "experts" in switches else 0.1)  # a token may go to another expert
    got.float().square().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.dtype == torch.float32, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_router_sums_are_those_of_the_last_pass(make_model, tokens):
    dense, mixed = make_model(), make_model(experts=3, expert_capacity=1.0)
    dense(tokens)
    assert dense.router_sums is None
    assert mixed.router_sums is None
    mixed(tokens)
    sums = mixed.router_sums
    assert sums.entropy.shape == sums.load_max.shape == sums.dropped.shape == (2,)
    assert sums.dropped.any()
    (sums.balance_loss + sums.router_z).backward()
    assert mixed.layers[0].feed_forward.router.weight.grad.any()
    mixed.eval()(tokens)
    assert mixed.router_sums is not sums
    assert not mixed.router_sums.dropped.any()
