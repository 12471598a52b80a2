"""Numbers of update clipping that can be said by hand."""

import math

import pytest
import torch
from torch import nn

from surefoot.optim import AdamWUpdateClip, StableAdamW


def step(optimizer, gradient):
    (p,) = optimizer.param_groups[0]["params"]
    before = p.detach().clone()
    p.grad = torch.as_tensor(gradient, dtype=p.dtype).expand(p.shape).clone()
    optimizer.step()
    return (p.detach() - before).double()


def settled(kind, *params, **settings):
    """As after many gradients of size 1 and alternating sign: v is 1, m nearly 0, no bias left."""
    params = params or (nn.Parameter(torch.zeros(4, dtype=torch.float64)),)
    optimizer = kind(params, lr=0.1, weight_decay=0.0, **settings)
    for p in params:
        optimizer.state[p] = {
            "exp_avg": torch.zeros_like(p),
            "exp_avg_sq": torch.ones_like(p),
            "step": torch.tensor(1e6),
        }
    return optimizer


def test_a_burst_shrinks_the_rate_by_rms_t():
    optimizer = settled(StableAdamW, betas=(0.0, 0.99), eps=1e-12)
    moved = step(optimizer, 10.0)
    v = 0.99 + 0.01 * 100
    rms = 10 / math.sqrt(v)  # 7.09
    assert rms == pytest.approx(7.089, abs=1e-3)
    torch.testing.assert_close(moved, torch.full_like(moved, -0.1 / rms * 10 / math.sqrt(v)))
    # The next one of the usual size is small beside v and is not clipped.
    v = 0.99 * v + 0.01
    moved = step(optimizer, 1.0)
    torch.testing.assert_close(moved, torch.full_like(moved, -0.1 / math.sqrt(v)))


def test_one_element_slows_its_tensor_and_no_other():
    ps = [nn.Parameter(torch.zeros(100, dtype=torch.float64)) for _ in range(2)]
    optimizer = settled(StableAdamW, *ps, betas=(0.0, 0.99), eps=1e-12)
    before = [p.detach().clone() for p in ps]
    for p in ps:
        p.grad = torch.ones_like(p)
    ps[0].grad[5] = 100.0
    optimizer.step()
    v = 0.99 + 0.01 * 1e4
    rms = math.sqrt((99 + 1e4 / v) / 100)
    moved = [p.detach() - b for p, b in zip(ps, before, strict=True)]
    assert moved[0][0] == pytest.approx(-0.1 / rms, rel=1e-6)
    assert moved[1][0] == pytest.approx(-0.1, rel=1e-6)


def test_the_decay_shrinks_with_the_rate():
    """Not in AdamW with a clipped update, whose decay goes on at the full rate."""
    kept = {}
    for kind in (StableAdamW, AdamWUpdateClip):
        optimizer = settled(kind, betas=(0.0, 0.99), eps=1e-12)
        (p,) = optimizer.param_groups[0]["params"]
        with torch.no_grad():
            p.fill_(1.0)
        optimizer.param_groups[0]["weight_decay"] = 0.5
        kept[kind] = 1 + float(step(optimizer, 10.0)[0])
    v = 0.99 + 1.0
    rate = 0.1 / (10 / math.sqrt(v))
    assert kept[StableAdamW] == pytest.approx(1 - rate * 0.5 - rate * 10 / math.sqrt(v), rel=1e-9)
    update = 10 / math.sqrt(v)
    assert kept[AdamWUpdateClip] == pytest.approx(1 - 0.1 * 0.5 - 0.1 * update / update, rel=1e-9)


def test_without_clipping_both_are_adamw():
    def run(kind, **settings):
        torch.manual_seed(0)
        p = nn.Parameter(torch.randn(30, 7))
        optimizer = (
            kind([p], lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
            if kind is torch.optim.AdamW
            else kind([p], lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, **settings)
        )
        for _ in range(20):
            p.grad = torch.randn_like(p)
            optimizer.step()
        return p

    plain = run(torch.optim.AdamW)
    for kind in (StableAdamW, AdamWUpdateClip):
        torch.testing.assert_close(run(kind, update_clip=1e9), plain, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("beta2", "largest"), [(0.95, 1.165), (0.999, 7.27)])
def test_how_large_an_update_of_adamw_can_be(beta2, largest):
    """The bound of the docstring, reached by gradients that grow by beta2 / beta1 a step."""
    beta1 = 0.9
    bound = (1 - beta1) / math.sqrt((1 - beta2) * (1 - beta1**2 / beta2))
    assert bound == pytest.approx(largest, rel=1e-3)
    p = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    settings = {"betas": (beta1, beta2), "eps": 1e-300, "update_clip": math.inf}
    optimizer = settled(AdamWUpdateClip, p, **settings)
    optimizer.state[p]["exp_avg_sq"].zero_()
    for age in range(300, -1, -1):  # the inequality of Cauchy and Schwarz is an equality for these
        moved = step(optimizer, (beta1 / beta2) ** age)
    assert -float(moved) / 0.1 == pytest.approx(bound, rel=1e-6)


def test_independent_gradients_leave_a_limit_of_one_alone():
    torch.manual_seed(0)
    p = nn.Parameter(torch.zeros(20000, dtype=torch.float64))
    optimizer = AdamWUpdateClip([p], lr=1.0, weight_decay=0.0)
    for _ in range(100):
        moved = step(optimizer, torch.randn(20000))
    rms = float(moved.square().mean().sqrt())
    # sqrt((1 - beta1) / (1 + beta1)) = 0.229 if v were exact.
    assert rms == pytest.approx(0.229, abs=0.01)
