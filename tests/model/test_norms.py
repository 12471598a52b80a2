import pytest
import torch
import torch.nn.functional as F

from surefoot.model import LayerNorm, RMSNorm
from surefoot.model.norms import _RMSNorm


@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 4, 8)], ids=str)
@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e4])
def test_rms_norm_is_that_of_torch(shape, scale):
    generator = torch.Generator().manual_seed(1)
    x = (scale * torch.randn(shape, generator=generator)).requires_grad_()
    norm = RMSNorm(8, 1e-6)
    with torch.no_grad():
        norm.weight.copy_(torch.randn(8, generator=generator))
    up = torch.randn(shape, generator=generator)
    got = torch.autograd.grad((norm(x) * up).sum(), (x, norm.weight))
    plain = F.rms_norm(x, (8,), norm.weight, 1e-6)
    torch.testing.assert_close(norm(x), plain)
    for ours, theirs in zip(
        got, torch.autograd.grad((plain * up).sum(), (x, norm.weight)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * theirs.abs().max().item())


def test_rms_norm_gradients_of_both_orders():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 3, 5, dtype=torch.float64, generator=generator, requires_grad=True)
    w = torch.randn(5, dtype=torch.float64, generator=generator, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: _RMSNorm.apply(x, w, 0.1), (x, w))
    assert torch.autograd.gradgradcheck(lambda x, w: _RMSNorm.apply(x, w, 0.1), (x, w))


@pytest.mark.parametrize("kind", [RMSNorm, LayerNorm])
def test_norms_compute_in_the_dtype_of_their_weight(kind):
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(1)).bfloat16()
    norm = kind(64, 1e-6)
    assert norm(x).dtype == torch.float32
    torch.testing.assert_close(norm(x), norm(x.float()), rtol=0, atol=0)
    assert "64, eps=1e-06" in repr(norm)


def test_a_row_of_zeros_stays_zero():
    assert not RMSNorm(4, 1e-6)(torch.zeros(2, 4)).any()


def test_backward_within_autocast_is_exact():
    x = torch.randn(9, 64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    norm = RMSNorm(64, 1e-6)
    expected = torch.autograd.grad(norm(x).square().sum(), (x, norm.weight))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = torch.autograd.grad(norm(x).square().sum(), (x, norm.weight))
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
