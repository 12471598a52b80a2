"""Attention of plain operations: caps, layer scaling, and that blocks of rows change nothing."""

import math

import pytest
import torch
import torch.nn.functional as F

from surefoot.model import softcap, softmax, softmax_attention


def inputs(dtype=torch.float64, *, length=9, heads=4, kv=2, size=6, scale=1.0):
    generator = torch.Generator().manual_seed(1)
    made = []
    for n, factor in ((heads, scale), (kv, scale), (kv, 1.0)):
        drawn = torch.randn(2, n, length, size, generator=generator, dtype=torch.float64)
        made.append((factor * drawn).to(dtype))
    return made


@pytest.mark.parametrize("rows", [1, 4, 9, 128])
@pytest.mark.parametrize("number", [1, 5])
def test_without_a_cap_it_is_the_fused_kernel(rows, number, monkeypatch):
    monkeypatch.setattr(softmax, "_ROWS", rows)
    q, k, v = inputs()
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3, enable_gqa=True)
    got = softmax_attention(q, k, v, scale=0.3, layer_number=number)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("rows", [4, 128])
def test_cap_against_the_formula(rows, monkeypatch):
    monkeypatch.setattr(softmax, "_ROWS", rows)
    q, k, v = inputs(scale=3.0)
    got = softmax_attention(q, k, v, scale=0.5, cap=2.0, layer_number=3)
    for head in range(4):
        for t in range(9):
            z = 0.5 * k[1, head // 2, : t + 1] @ q[1, head, t]
            assert z.abs().max() > 2 or t == 0
            expected = torch.softmax(2 * torch.tanh(z / 2), 0) @ v[1, head // 2, : t + 1]
            torch.testing.assert_close(got[1, head, t], expected, rtol=0, atol=1e-13)


def test_gradients(monkeypatch):
    monkeypatch.setattr(softmax, "_ROWS", 2)
    q, k, v = (x.requires_grad_() for x in inputs(length=5, heads=2, kv=1, size=2))

    def capped(q, k, v):
        return softmax_attention(q, k, v, scale=0.7, cap=1.5, layer_number=2)

    assert torch.autograd.gradcheck(capped, (q, k, v))


def test_layer_scaling_keeps_the_fp16_product_finite():
    # q·k/sqrt(size) is near 1e5, beyond fp16's 65504; the layer's share of it is not.
    q, k, v = inputs(torch.float16, scale=150.0)
    k[:, :, :, 0] = q[:, ::2, :, 0] = 500.0
    scale = 1 / math.sqrt(6)
    product = torch.matmul(q * scale, k.repeat_interleave(2, 1).transpose(-1, -2))
    assert product.isinf().any()
    assert softmax_attention(q, k, v, scale=scale).isnan().any()
    got = softmax_attention(q, k, v, scale=scale, layer_number=4)
    expected = softmax_attention(*(x.double() for x in (q, k, v)), scale=scale)
    assert got.dtype == torch.float16
    # Logits of 1e5 are rounded to steps of 4 · 16: the largest still wins nearly everywhere.
    close = (got.double() - expected).abs().amax(-1) < 1e-2
    assert got.isfinite().all()
    assert close.float().mean() > 0.95


def test_an_overflowing_product_is_capped():
    q, k, v = inputs(torch.float16, scale=300.0)
    q[..., 0] = k[..., 0] = 600.0
    got = softmax_attention(q, k, v, scale=1.0, cap=50.0)
    expected = softmax_attention(*(x.double() for x in (q, k, v)), scale=1.0, cap=50.0)
    torch.testing.assert_close(got.double(), expected, rtol=0, atol=1e-2)


def test_queries_are_rounded_once():
    # The factor comes before the rounding: 1/3 of a number with 11 bits has more than 11.
    q, k, v = inputs(torch.float32, length=64)
    k, v = k.half(), v.half()
    exact = softmax_attention(q, k, v.double(), scale=1 / 3)
    once = (softmax_attention(q, k, v, scale=1 / 3).double() - exact).abs().mean()
    twice = (softmax_attention(q.half(), k, v, scale=1 / 3).double() - exact).abs().mean()
    assert once < twice


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_soft_cap(dtype):
    z = torch.tensor([-1e4, -3.0, 0.0, 1e-2, 3.0, 1e4], dtype=torch.float64).to(dtype)
    got = softcap(z, 2.0)
    assert got.dtype == dtype
    expected = (2 * torch.tanh(z.double() / 2)).to(dtype)
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=0)
    assert got[0] == -2
    assert got[-1] == 2
    assert softcap(torch.tensor([math.nan, 1.0]), 2.0)[0].isnan()


def test_gradient_of_a_capped_logit_is_1_less_the_squared_tanh():
    z = torch.tensor([0.0, 3.0, 100.0], dtype=torch.float64, requires_grad=True)
    softcap(z, 2.0).sum().backward()
    torch.testing.assert_close(z.grad, 1 - torch.tanh(z.detach() / 2) ** 2, rtol=0, atol=1e-15)
