"""Upper bounds: the paper's constants, and bounds against measured spectral norms."""

import math

import pytest
import torch

from surefoot.probe.bounds import attention_bound, feed_forward_bound, matrix_norm, slope


def test_the_constants_are_the_papers():
    """C_ffn = (sqrt d + sqrt dff)^2, C_attn = 2 sqrt d ||J^Z||; the identity as F."""
    small = math.sqrt(2 / (5 * 64))
    out = small / math.sqrt(24)
    bound = feed_forward_bound(
        width=64, ff_width=256, inner_std=small, output_std=out, sigma=0.0791, activation="relu"
    )
    # Table in the same units, N = 12, d = 64: 10.3, 2.16 and 1.74 at three sigmas.
    assert bound == pytest.approx(1 + small * out / 0.0791 * (8 + 16) ** 2)
    assert bound == pytest.approx(10.3, abs=0.05)
    for sigma, wanted in ((0.632, 2.16), (1.0, 1.74)):
        found = feed_forward_bound(
            width=256, ff_width=1024, inner_std=math.sqrt(2 / 1280),
            output_std=math.sqrt(2 / 1280 / 24), sigma=sigma, activation="relu",
        )  # fmt: skip
        assert found == pytest.approx(wanted, abs=0.01)
    attention = attention_bound(
        width=64, heads=2, kv_heads=2, head_size=32, value_std=0.1, output_std=0.2, sigma=0.5
    )
    assert attention == pytest.approx(1 + 0.2 / 0.5 * 2 * 8 * (2 * 0.1 * 2 * 8))


def test_shared_values_and_a_shortcut_of_zero():
    given = {"width": 64, "heads": 8, "head_size": 8, "value_std": 0.1, "output_std": 0.1}
    alone = attention_bound(kv_heads=8, sigma=1.0, **given)
    shared = attention_bound(kv_heads=2, sigma=1.0, **given)
    # Fewer value channels, each of which four heads pass on.
    assert shared - 1 == pytest.approx((alone - 1) * 2 * (8 + 4) / (8 + 8))
    assert attention_bound(kv_heads=8, sigma=0.0, **given) == math.inf
    assert math.isnan(attention_bound(kv_heads=8, sigma=math.nan, **given))
    zero = {**given, "output_std": 0.0}
    assert attention_bound(kv_heads=8, sigma=0.0, **zero) == 1.0


def test_a_gaussian_matrix_has_the_norm_that_is_expected():
    torch.manual_seed(0)
    matrix = torch.randn(256, 64) * 0.3
    measured = float(torch.linalg.matrix_norm(matrix, 2))
    assert matrix_norm(0.3, 256, 64) == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("spread", [0.1, 0.63, 1.3, 3.0])
def test_the_slope_of_a_gated_unit_is_that_of_samples(spread):
    torch.manual_seed(0)
    a = (torch.randn(200_000, dtype=torch.float64) * spread).requires_grad_()
    b = torch.randn(200_000, dtype=torch.float64) * spread
    for name, function in (
        ("swiglu", torch.nn.functional.silu), ("geglu", torch.nn.functional.gelu),
        ("reglu", torch.relu),
    ):  # fmt: skip
        (derivative,) = torch.autograd.grad(function(a).sum(), a)
        wanted = (derivative * b).square().mean().sqrt() + function(a).square().mean().sqrt()
        assert slope(name, spread) == pytest.approx(float(wanted.detach()), rel=0.02)


def test_slopes_of_plain_activations_are_their_largest():
    x = torch.linspace(-8, 8, 100_001, dtype=torch.float64, requires_grad=True)
    for name in ("gelu", "silu"):
        (derivative,) = torch.autograd.grad(getattr(torch.nn.functional, name)(x).sum(), x)
        assert slope(name, 1.0) == pytest.approx(float(derivative.max()), abs=1e-3)
    assert slope("relu", 1.0) == slope("tanh-like", 9.0) == 1.0
    assert math.isnan(slope("swiglu", math.nan))


def spectral_norm(function, x, steps=20):
    """Of the Jacobian J at x, by power iteration; J v by differentiating J^T u in u."""
    x = x.requires_grad_()
    y = function(x)
    u = torch.zeros_like(y, requires_grad=True)
    (pulled,) = torch.autograd.grad(y, x, u, create_graph=True)
    v = torch.randn_like(x)
    for _ in range(steps):
        (pushed,) = torch.autograd.grad(pulled, u, v / v.norm(), retain_graph=True)
        (v,) = torch.autograd.grad(y, x, pushed, retain_graph=True)
    return float(pushed.norm())


def normalised(x):
    return x / x.square().mean(-1, keepdim=True).sqrt()


@pytest.mark.parametrize("sigma", [0.05, 1.0])
@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_no_feed_forward_jacobian_exceeds_its_bound(activation, sigma):
    torch.manual_seed(0)
    d, inner = 64, 176
    std, out = math.sqrt(2 / (5 * d)), math.sqrt(2 / (5 * d) / 24)
    w1, w3 = torch.randn(inner, d) * std, torch.randn(inner, d) * std
    w2 = torch.randn(d, inner) * out
    plain = torch.relu if activation == "relu" else torch.nn.functional.gelu

    def sub_layer(x):
        z = normalised(x)
        up = z @ w3.T
        hidden = torch.nn.functional.silu(z @ w1.T) * up if activation == "swiglu" else plain(up)
        return x + hidden @ w2.T

    measured = spectral_norm(sub_layer, torch.randn(32, d) * sigma)
    bound = feed_forward_bound(
        width=d, ff_width=inner, inner_std=std, output_std=out, sigma=sigma, activation=activation
    )
    # An upper bound, and one that says something.
    assert 1 < measured <= bound
    assert bound - 1 < 6 * (measured - 1)


def attention_of(std, out, heads, kv_heads, size, d):
    wq, wk, wv, wo = (
        torch.randn(n, d) * std for n in (heads * size, kv_heads * size, kv_heads * size, 0)
    )
    wo = torch.randn(d, heads * size) * out

    def sub_layer(x):
        z, length = normalised(x), len(x)
        q = (z @ wq.T).view(length, heads, size).transpose(0, 1)
        k = (z @ wk.T).view(length, kv_heads, size).transpose(0, 1)
        v = (z @ wv.T).view(length, kv_heads, size).transpose(0, 1)
        k, v = (t.repeat_interleave(heads // kv_heads, 0) for t in (k, v))
        logits = q @ k.transpose(-1, -2) / math.sqrt(size)
        ahead = torch.ones(length, length, dtype=torch.bool).triu(1)
        shares = logits.masked_fill(ahead, -torch.inf).softmax(-1)
        return x + (shares @ v).transpose(0, 1).reshape(length, -1) @ wo.T

    return sub_layer


@pytest.mark.parametrize("kv_heads", [1, 4])
@pytest.mark.parametrize("sigma", [0.05, 1.0])
def test_no_attention_jacobian_exceeds_its_bound(kv_heads, sigma):
    torch.manual_seed(0)
    d, heads, size = 64, 4, 16
    std, out = math.sqrt(2 / (5 * d)), math.sqrt(2 / (5 * d) / 24)
    sub_layer = attention_of(std, out, heads, kv_heads, size, d)
    measured = spectral_norm(sub_layer, torch.randn(96, d) * sigma)
    bound = attention_bound(
        width=d, heads=heads, kv_heads=kv_heads, head_size=size, value_std=std, output_std=out,
        sigma=sigma,
    )  # fmt: skip
    assert 1 < measured <= bound
    assert bound - 1 < 5 * (measured - 1)


def test_where_the_attention_bound_ends():
    """What its docstring says of logits far from 0: the path through the softmax is not in it."""
    torch.manual_seed(0)
    d, heads, size, std = 256, 8, 32, 0.1
    sub_layer = attention_of(std, std / 5, heads, heads, size, d)
    measured = spectral_norm(sub_layer, torch.randn(32, d) * 0.05)
    bound = attention_bound(
        width=d, heads=heads, kv_heads=heads, head_size=size, value_std=std, output_std=std / 5,
        sigma=0.05,
    )  # fmt: skip
    assert bound < measured < 3 * bound
