"""A factor on shallow gradients: where it acts, and that Adam undoes it but for three things."""

import math

import pytest
import torch
from torch import nn

from surefoot.errors import UsageError
from surefoot.optim import clip_factor, guarded_step, scale_shallow_gradients

NO = torch.tensor(0.0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(5, 6)
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(12))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


def test_which_gradients_are_scaled():
    model = Model()
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    model.layers[0].bias.grad = None
    scale_shallow_gradients(model, 0.25, 2)
    scaled = {n for n, p in model.named_parameters() if p.grad is not None and p.grad.max() != 1}
    # Block 10 and 11 begin with the digit of block 1.
    assert scaled == {"layers.0.weight", "layers.1.weight", "layers.1.bias"}
    assert torch.equal(model.layers[0].weight.grad, torch.full((6, 6), 0.25))


@pytest.mark.parametrize(
    ("name", "scaled"),
    [
        ("transformer.h.0.attn.c_attn.weight", True),
        ("transformer.h.3.attn.c_attn.weight", False),
        ("gpt_neox.layers.1.mlp.weight", True),
        ("module.layers.0.weight", True),
        ("layers.2.experts.0.weight", False),
        ("0.weight", True),
        ("wte.weight", False),
        ("layers1.weight", False),
    ],
)
def test_names(name, scaled):
    p = nn.Parameter(torch.ones(2))
    p.grad = torch.ones(2)
    other = nn.Parameter(torch.ones(2))  # without a gradient; its name has a number
    scale_shallow_gradients([(name, p), ("layers.0.other", other)], 0.5, 2)
    assert p.grad[0] == (0.5 if scaled else 1.0)


@pytest.mark.parametrize(("factor", "layers"), [(1.0, 3), (0.5, 0)])
def test_nothing_to_do(factor, layers):
    p = nn.Parameter(torch.ones(2))
    p.grad = torch.ones(2)
    scale_shallow_gradients([("weight", p)], factor, layers)
    assert torch.equal(p.grad, torch.ones(2))


def test_what_cannot_be_meant():
    with pytest.raises(UsageError, match=r"no parameter name has a block number"):
        scale_shallow_gradients(nn.Linear(2, 2), 0.5, 2)
    for factor in (-0.1, math.nan, math.inf):
        with pytest.raises(UsageError, match=r"factor = .*: expected a number of at least 0"):
            scale_shallow_gradients(Model(), factor, 2)


def trained(factor_at, *, steps=25, eps=1e-30, clip=0.0, beta2=0.95):
    """Parameters after steps of AdamW in float64, the factor of each step as asked."""
    model = Model().double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, beta2), eps=eps)
    trace = []
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        tokens = torch.randint(0, 5, (4, 3), generator=generator)
        optimizer.zero_grad()
        (model(tokens) - 1).square().mean().backward()
        scale_shallow_gradients(model, factor_at(step), 3)
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
        guarded_step(optimizer, found_inf=NO, grad_divisor=1 / clip_factor(norm, clip))
        trace.append(torch.cat([p.detach().reshape(-1) for p in model.parameters()]))
    return torch.stack(trace)


def apart(a, b):
    """Largest difference after the last step, in learning rates."""
    return float((a[-1] - b[-1]).abs().max()) / 1e-3


@pytest.mark.parametrize(
    ("settings", "difference"),
    [({}, 2e-13), ({"eps": 1e-8}, 5e-5), ({"eps": 1e-4}, 0.5), ({"clip": 0.1}, 0.147)],
    ids=str,
)
def test_under_adam_a_constant_factor_cancels_but_for_eps_and_the_clip(settings, difference):
    """The table of docs/how-to/choose-an-optimizer.md."""
    found = apart(*[trained(lambda step, f=f: f, **settings) for f in (1.0, 0.1)])
    assert found == pytest.approx(difference, rel=0.05, abs=1e-9)


@pytest.mark.parametrize("beta2", [0.95, 0.8])
def test_how_long_a_change_acts(beta2):
    """Until v forgot the larger gradients: some 2 ln(1/factor) / (1 - beta2) steps."""
    ps = [nn.Parameter(torch.zeros(1, dtype=torch.float64)) for _ in range(2)]
    optimizer = torch.optim.AdamW(
        ps, lr=1.0, betas=(0.0, beta2), eps=1e-30, weight_decay=0.0, fused=True
    )
    before, memory = 400, round(1 / (1 - beta2))
    ratios = []
    for step in range(before + 6 * memory):
        values = [p.item() for p in ps]
        for p in ps:
            p.grad = torch.ones_like(p)
        scale_shallow_gradients([("layers.0.weight", ps[1])], 0.1 if step >= before else 1.0, 1)
        optimizer.step()
        moves = [p.item() - value for p, value in zip(ps, values, strict=True)]
        ratios.append(moves[1] / moves[0])
    assert ratios[before - 1] == pytest.approx(1.0)
    after = ratios[before:]
    # The update is a tenth at once; then beta2^n of the larger v is left.
    left = [beta2**n for n in range(1, len(after) + 1)]
    assert after == pytest.approx([0.1 / math.sqrt(x + 0.01 * (1 - x)) for x in left], rel=1e-6)
    assert after[0] < 0.12
    assert after[memory - 1] < 0.2  # still after 1 / (1 - beta2) steps
    assert 0.65 < after[round(2 * math.log(10) * memory) - 1] < 0.85
