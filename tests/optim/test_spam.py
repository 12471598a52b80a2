"""SPAM's clipping acts, and a reset starts anew: both went wrong in public code."""

import math

import pytest
import torch
from torch import nn

from surefoot.optim import SPAM


def make(values=(0.0,), **settings):
    p = nn.Parameter(torch.tensor(values, dtype=torch.float64))
    settings = {"lr": 1.0, "betas": (0.9, 0.999), "eps": 1e-12, **settings}
    return p, SPAM([p], **settings)


def step(p, optimizer, *gradient):
    before = p.detach().clone()
    p.grad = torch.tensor(gradient, dtype=torch.float64)
    optimizer.step()
    return p.detach() - before


def test_a_spike_of_one_element_is_clipped():
    """An in-place operation on grad[mask] is lost: indexing by a mask makes a copy."""
    p, optimizer = make((0.0, 0.0, 0.0), betas=(0.9, 0.9), clip_after=20)
    for i in range(40):
        step(p, optimizer, *[(-1.0) ** i] * 3)
    v = optimizer.state[p]["exp_avg_sq"].clone()
    m = optimizer.state[p]["exp_avg"].clone()
    step(p, optimizer, 1e6, -1e6, 2.0)
    limit = torch.sqrt(5000 * v)
    taken = torch.stack([limit[0], -limit[1], torch.tensor(2.0, dtype=torch.float64)])
    torch.testing.assert_close(optimizer.state[p]["exp_avg"], 0.9 * m + 0.1 * taken)
    torch.testing.assert_close(optimizer.state[p]["exp_avg_sq"], 0.9 * v + 0.1 * taken**2)


@pytest.mark.parametrize("updates", [20, 21])
def test_the_first_twenty_updates_are_not_clipped(updates):
    p, optimizer = make()
    for i in range(updates - 1):
        step(p, optimizer, (-1.0) ** i)
    v = optimizer.state[p]["exp_avg_sq"].item()
    step(p, optimizer, 1e4)
    taken = 1e4 if updates <= 20 else math.sqrt(5000 * v)
    got = optimizer.state[p]["exp_avg_sq"].item()
    assert got == pytest.approx(0.999 * v + 0.001 * taken**2, rel=1e-9)


def test_nor_the_first_twenty_after_a_reset():
    p, optimizer = make(reset_every=30)
    for i in range(30 + 19):
        step(p, optimizer, (-1.0) ** i)
    v = optimizer.state[p]["exp_avg_sq"].item()
    step(p, optimizer, 1e4)
    assert optimizer.state[p]["exp_avg_sq"].item() == pytest.approx(0.999 * v + 1e5, rel=1e-9)


def test_an_element_that_never_had_a_gradient_can_get_one():
    p, optimizer = make((0.0, 0.0), clip_after=0)
    for i in range(5):
        step(p, optimizer, (-1.0) ** i, 0.0)
    moved = step(p, optimizer, 1.0, 1.0)
    assert moved[1] < 0


@pytest.mark.parametrize("reset_warmup", [0, 10])
def test_after_a_reset_the_first_update_is_as_the_very_first(reset_warmup):
    """With the old step counter it would be 0.1 / sqrt(0.001) = 3.2 times as large."""
    p, optimizer = make(reset_every=600, reset_warmup=reset_warmup)
    first = step(p, optimizer, 2.0).item()
    assert first == pytest.approx(-1.0)
    for i in range(599):
        step(p, optimizer, (-1.0) ** i)
    again = step(p, optimizer, 2.0).item()
    assert again == pytest.approx(-0.01 if reset_warmup else -1.0)
    state = optimizer.state[p]
    assert (state["step"], state["resets"]) == (1, 1)
    assert 0.1 / math.sqrt(0.001) == pytest.approx(3.16, abs=0.01)


def test_the_rate_climbs_back():
    """Gradients of equal size move by the rate alone, once bias is corrected."""
    p, optimizer = make(reset_every=12, reset_warmup=8)
    moves = [-step(p, optimizer, 1.0).item() for _ in range(36)]
    assert moves[:12] == pytest.approx([1.0] * 12)
    curve = [1 - 0.99 * (1 + math.cos(math.pi * k / 8)) / 2 for k in range(8)] + [1.0] * 4
    assert moves[12:24] == pytest.approx(curve)
    assert moves[24:] == pytest.approx(curve)
    assert curve[0] == pytest.approx(0.01)
    assert curve[4] == pytest.approx(0.505)


def test_decay_does_not_wait_for_the_climb():
    p, optimizer = make((1.0,), reset_every=2, reset_warmup=100, weight_decay=0.5, lr=0.1)
    for _ in range(2):
        step(p, optimizer, 0.0)
    before = p.item()
    step(p, optimizer, 0.0)
    assert p.item() == pytest.approx(before * 0.95)


def test_a_second_moment_that_overflowed_is_forgotten():
    """0 times infinity is NaN: the moments are set to 0, not multiplied by it."""
    p = nn.Parameter(torch.zeros(1))
    optimizer = SPAM([p], reset_every=3)
    for g in (1e30, 1.0, 1.0, 1.0):
        p.grad = torch.tensor([g])
        optimizer.step()
    assert optimizer.state[p]["exp_avg_sq"].item() == pytest.approx(0.001)
    assert p.isfinite().all()


def test_moments_that_are_not_finite_are_forgotten_by_the_code_of_devices_too(monkeypatch):
    monkeypatch.setattr("surefoot.optim.lists.HOSTS", ())
    test_a_second_moment_that_overflowed_is_forgotten()
