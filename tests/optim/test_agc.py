"""AGC against a loop over units in float64."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from surefoot.optim.clipping import AGC


def reference(weight, gradient, ratio=0.01, transposed=False):
    """The public code's rule, a unit at a time."""
    if transposed:
        return reference(weight.T, gradient.T, ratio).T
    if sum(n > 1 for n in weight.shape) <= 1:
        units = [(weight, gradient, ...)]
    else:
        units = [(weight[i], gradient[i], i) for i in range(len(weight))]
    out = gradient.copy()
    for w, g, at in units:
        largest = ratio * max(np.linalg.norm(w), 1e-3)
        n = np.linalg.norm(g)
        if n > largest:
            out[at] = g * (largest / n)
    return out


SHAPES = [(6, 4), (4, 6), (1, 5), (5, 1), (7,), (), (3, 2, 4), (1,), (2, 3, 2, 2)]


def filled(shape, seed, size, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return (size * torch.randn(shape, generator=generator)).to(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("dtype", "rtol"), [(torch.float32, 3e-6), (torch.bfloat16, 1e-2), (torch.float64, 1e-12)]
)
@pytest.mark.parametrize("size", [1e-4, 5e-3, 1.0])
def test_is_the_rule(shape, dtype, rtol, size):
    p = nn.Parameter(filled(shape, 1, 0.5, dtype))
    p.grad = filled(shape, 2, size, dtype)
    wanted = reference(p.detach().double().numpy(), p.grad.double().numpy())
    assert AGC([p])(torch.tensor(1.0)) == 1
    np.testing.assert_allclose(p.grad.double().numpy(), wanted, rtol=rtol)


def test_the_streams_meet_both_sides():
    """Of the units above some are clipped and some are not, so that the test means something."""
    p = nn.Parameter(filled((6, 4), 1, 0.5))
    p.grad = filled((6, 4), 2, 5e-3)
    before = p.grad.clone()
    AGC([p])(torch.tensor(1.0))
    clipped = (p.grad != before).any(1)
    assert 0 < clipped.sum() < 6
    assert torch.equal(p.grad[~clipped], before[~clipped])


def test_a_unit_is_a_row_and_of_a_transposed_matrix_a_column():
    """One output of GPT-2's Conv1D, (in, out), is a column."""
    p = nn.Parameter(torch.ones(4, 3))
    for transposed in (False, True):
        p.grad = torch.full((4, 3), 1e-3)
        p.grad[1, 2] = 1.0
        AGC([p], transposed=[p] if transposed else [])(torch.tensor(1.0))
        touched = p.grad < 1e-3
        wanted = torch.zeros(4, 3, dtype=torch.bool)
        if transposed:
            wanted[:, 2] = True
        else:
            wanted[1] = True
        wanted[1, 2] = False
        assert torch.equal(touched, wanted)
        unit = p.grad[:, 2] if transposed else p.grad[1]
        assert float(unit.norm()) == pytest.approx(0.01 * math.sqrt(len(unit)), rel=1e-6)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6)])
def test_transposed_is_the_rule(shape):
    p = nn.Parameter(filled(shape, 1, 0.5))
    p.grad = filled(shape, 2, 1.0)
    wanted = reference(p.detach().double().numpy(), p.grad.double().numpy(), transposed=True)
    AGC([p], transposed=[p])(torch.tensor(1.0))
    np.testing.assert_allclose(p.grad.numpy(), wanted, rtol=3e-6)


def test_the_head_is_left_alone():
    head, other = nn.Parameter(torch.ones(4, 3)), nn.Parameter(torch.ones(4, 3))
    for p in (head, other):
        p.grad = torch.full((4, 3), 5.0)
    AGC([head, other], head=[head])(torch.tensor(1.0))
    assert (head.grad == 5).all()
    assert (other.grad < 0.02).all()


def test_a_unit_that_is_zero_can_leave_it():
    p = nn.Parameter(torch.zeros(2, 4))
    p.grad = torch.ones(2, 4)
    AGC([p])(torch.tensor(1.0))
    np.testing.assert_allclose(p.grad.norm(dim=1).numpy(), 1e-5, rtol=1e-6)


def test_a_zero_gradient_stays():
    p = nn.Parameter(torch.zeros(2, 4))
    p.grad = torch.zeros(2, 4)
    AGC([p])(torch.tensor(0.0))
    assert (p.grad == 0).all()


def test_bf16_gradients_are_clipped_to_their_own_rounding():
    """The factor is not rounded before it multiplies: 8 bits would add half a percent."""
    p = nn.Parameter(torch.ones(8, 64, dtype=torch.bfloat16))
    p.grad = filled((8, 64), 3, 3.0, torch.bfloat16)
    wanted = reference(p.detach().double().numpy(), p.grad.double().numpy(), ratio=0.5)
    AGC([p], ratio=0.5)(torch.tensor(1.0))
    assert torch.equal(p.grad, torch.tensor(wanted).to(torch.bfloat16))


def test_a_unit_whose_norm_overflows_is_left_alone():
    """Its factor would be 0, and make a zero of what is visibly too large."""
    p = nn.Parameter(torch.ones(2, 4))
    p.grad = torch.full((2, 4), 1e30)
    p.grad[1] = 1.0
    AGC([p])(torch.tensor(1.0))
    assert (p.grad[0] == 1e30).all()
    assert (p.grad[1] < 0.02).all()
