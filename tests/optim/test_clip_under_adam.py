"""What clipping and skipping do under Adam, in numbers; docs/how-to/clip-and-skip.md quotes them.

Every gradient is the same but for a hundredth of noise, so that every update is the learning rate.
Then one of them is a thousand times as large.
"""

import math

import pytest
import torch

from surefoot.optim import guarded_step
from surefoot.optim.clip import clip_factor
from surefoot.optim.clipping import ZClip
from surefoot.optim.skip import SpikeSkip

RATE, AT, AFTER = 1e-3, 150, 1200
NO = torch.tensor(0.0)
ONE = torch.tensor(1.0)


def lost(beta2, method, size=1000.0, after=AFTER):
    """Steps of progress lost to the spike, and the update right after it, over the usual one."""
    p = torch.nn.Parameter(torch.zeros(16, dtype=torch.float64))
    optimizer = torch.optim.AdamW(
        [p], lr=RATE, betas=(0.9, beta2), eps=1e-12, weight_decay=0.0, fused=True
    )
    generator = torch.Generator().manual_seed(0)
    skipping, zclip = SpikeSkip(), ZClip(clip=0.0)
    places = []
    for step in range(AT + after):
        p.grad = torch.full_like(p, 0.25 * (1 + 0.01 * torch.randn((), generator=generator)))
        if step == AT:
            p.grad *= size
        norm = p.grad.norm().float()  # 1, usually
        skip, factor = NO, ONE
        if method == "clip at 1":
            factor = clip_factor(norm, 1.0)
        elif method == "clip at 0.1":
            factor = clip_factor(norm, 0.1)
        elif method == "zclip":
            factor = zclip(norm)
        elif method == "skip":
            skip = skipping.skip(torch.tensor(2.0), norm)
        guarded_step(optimizer, found_inf=skip, grad_divisor=1 / factor)
        places.append(-float(p.detach()[0]) / RATE)
    return AT + after - places[-1], places[AT] - places[AT - 1]


@pytest.mark.parametrize(
    ("beta2", "steps", "first"), [(0.95, 180, 0.45), (0.99, 773, 0.89), (0.999, 1151, 1.19)]
)
def test_without_either_one_spike_stops_training(beta2, steps, first):
    """Adam bounds the update, so weights survive; v keeps the square of the spike, and holds all
    later updates down until it has decayed: at beta2 = 0.999 nearly all of the 1200 run here."""
    found = lost(beta2, "none")
    assert found[0] == pytest.approx(steps, rel=0.01)
    assert found[1] == pytest.approx(first, abs=0.01)


@pytest.mark.parametrize("beta2", [0.95, 0.99, 0.999])
@pytest.mark.parametrize("method", ["clip at 1", "clip at 0.1", "zclip"])
def test_clipping_protects_the_moments(beta2, method):
    assert abs(lost(beta2, method, after=150)[0]) < 0.3


@pytest.mark.parametrize("beta2", [0.95, 0.99, 0.999])
def test_skipping_costs_the_step(beta2):
    steps, first = lost(beta2, "skip", after=150)
    assert first == 0
    assert steps == pytest.approx(1.0, abs=0.2)


def test_a_constant_factor_cancels():
    """Clipping at a tenth of every norm: the same steps as without, spike aside."""
    always = lost(0.95, "clip at 0.1", size=1.0, after=150)
    never = lost(0.95, "none", size=1.0, after=150)
    assert always[0] == pytest.approx(never[0], abs=0.1)
    assert math.isclose(always[1], never[1], abs_tol=0.02)
