"""What LaProp is for: a momentum that outlives the second moment does no harm."""

import math

import pytest
import torch
from torch import nn

from surefoot.optim import AdamWUpdateClip, LaProp


def largest_move(kind, gradients, **settings):
    p = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = kind([p], lr=1.0, weight_decay=0.0, **settings)
    largest = 0.0
    for g in gradients:
        before = p.item()
        p.grad = torch.full_like(p, g)
        optimizer.step()
        largest = max(largest, abs(p.item() - before))
    return largest


def test_the_update_is_bounded_where_adams_is_not():
    # A burst, then nothing: beta1 > sqrt(beta2), so v decays faster than m.
    gradients = [1.0] * 50 + [1000.0] + [1e-6] * 100
    betas = (0.95, 0.6)
    ours = largest_move(LaProp, gradients, betas=betas, eps=1e-15)
    assert ours <= 1 / math.sqrt(1 - betas[1])
    adam = largest_move(AdamWUpdateClip, gradients, betas=betas, eps=1e-15, update_clip=math.inf)
    assert adam > 1000


def test_with_beta1_0_it_is_adam():
    torch.manual_seed(0)
    gradients = torch.randn(30).tolist()
    found = [
        largest_move(kind, gradients, betas=(0.0, 0.9), eps=1e-8, **more)
        for kind, more in ((LaProp, {}), (AdamWUpdateClip, {"update_clip": math.inf}))
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-12)


def test_each_gradient_keeps_the_rate_it_came_at():
    """The whole displacement of one gradient is its own rate, whatever the rate becomes."""
    p = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = LaProp([p], lr=0.5, betas=(0.9, 0.0), weight_decay=0.0)
    p.grad = torch.zeros_like(p)
    for _ in range(400):  # the bias correction is over
        optimizer.step()
    p.grad = torch.ones_like(p)
    optimizer.step()
    optimizer.param_groups[0]["lr"] = 100.0
    p.grad = torch.zeros_like(p)
    for _ in range(400):
        optimizer.step()
    assert p.item() == pytest.approx(-0.5, rel=1e-9)
