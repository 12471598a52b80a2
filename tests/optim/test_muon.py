"""Muon against torch's, and what makes it one optimizer with AdamW."""

import pytest
import torch
from torch import nn

from surefoot.errors import UsageError
from surefoot.optim import Muon, build_optimizer, functional, guarded_step
from surefoot.recipe import Optimizer

SHAPES = [(24, 16), (16, 24), (8, 8), (1, 5)]


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has it from 2.9")
@pytest.mark.parametrize("match", ["rms", "shape"])
@pytest.mark.parametrize("nesterov", [True, False])
def test_twenty_steps_are_those_of_torch(match, nesterov):
    generator = torch.Generator().manual_seed(0)
    ours = [nn.Parameter(torch.randn(s, generator=generator)) for s in SHAPES]
    theirs = [nn.Parameter(p.detach().clone()) for p in ours]
    settings = {"lr": 0.02, "momentum": 0.95, "weight_decay": 0.1, "nesterov": nesterov}
    adjust = {"rms": "match_rms_adamw", "shape": "original"}[match]
    mine = Muon(ours, rate_match=match, **settings)
    plain = torch.optim.Muon(theirs, adjust_lr_fn=adjust, **settings)
    for _ in range(20):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn(a.shape, generator=generator)
            b.grad = a.grad.clone()
        mine.step()
        plain.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=2e-3)  # both multiply in bf16
        buffers = [o.state[p]["momentum_buffer"] for o, p in ((mine, a), (plain, b))]
        torch.testing.assert_close(*buffers)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(64, 64), (48, 96), (96, 48), (3, 32, 48)], ids=str)
def test_singular_values_come_near_one(shape, dtype):
    torch.manual_seed(0)
    matrix = torch.randn(shape)
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    s = torch.linspace(1, 0.05, s.shape[-1])  # a condition number of 20
    found = functional.orthogonalize(u * s @ v, dtype=dtype)
    assert found.dtype is dtype
    values = torch.linalg.svdvals(found.float())
    assert 0.3 < values.min()
    assert values.max() < 1.4


def test_an_update_has_the_size_of_adamws():
    """RMS 0.2 times the rate, whatever the shape; the match is made for it."""
    torch.manual_seed(0)
    for shape in ((256, 64), (64, 256), (128, 128)):
        p = nn.Parameter(torch.zeros(shape))
        p.grad = torch.randn(shape)
        Muon([p], lr=1.0, weight_decay=0.0).step()
        assert p.square().mean().sqrt().item() == pytest.approx(0.2, rel=0.2)


def test_the_scale_of_gradients_is_lost():
    for scale in (1e-4, 1e4):
        torch.manual_seed(0)
        p = nn.Parameter(torch.zeros(12, 8))
        optimizer = Muon([p], lr=1.0, weight_decay=0.0)
        for _ in range(3):
            p.grad = torch.randn(12, 8) * scale
            optimizer.step()
        if scale == 1e-4:
            small = p.detach()
    torch.testing.assert_close(p.detach(), small, rtol=0.05, atol=0.05)


def test_a_zero_gradient_moves_nothing():
    p = nn.Parameter(torch.ones(4, 3))
    p.grad = torch.zeros(4, 3)
    Muon([p], weight_decay=0.0).step()
    assert torch.equal(p, torch.ones(4, 3))


def test_a_stack_is_its_matrices():
    torch.manual_seed(0)
    stack = nn.Parameter(torch.randn(3, 12, 8))
    single = [nn.Parameter(x.clone()) for x in stack.detach()]
    optimizers = [Muon([stack]), Muon(single)]
    for _ in range(3):
        stack.grad = torch.randn(3, 12, 8)
        for p, g in zip(single, stack.grad, strict=True):
            p.grad = g.clone()
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(stack, torch.stack(list(single)), rtol=0, atol=1e-4)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 8)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"wq": nn.Linear(8, 8), "router": nn.Linear(8, 2, bias=False)})
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 9, bias=False)


def methods(model, optimizer):
    names = {id(p): name for name, p in model.named_parameters()}
    return {names[id(p)]: g["method"] for g in optimizer.param_groups for p in g["params"]}


def test_matrices_of_blocks_are_muons():
    model = Model()
    section = Optimizer(learning_rate=0.01, name="muon", momentum=0.9)
    found = methods(model, build_optimizer(model, section))
    assert {name for name, method in found.items() if method == "muon"} == {
        f"layers.{i}.{part}.weight" for i in (0, 1) for part in ("wq", "router")
    }
    roles = {f"layers.{i}.router.weight": "router" for i in (0, 1)}
    roles |= {f"layers.{i}.wq.weight": "attention_in" for i in (0, 1)}
    optimizer = build_optimizer(model, section, roles=roles)
    found = methods(model, optimizer)
    assert {name for name, method in found.items() if method == "muon"} == {
        f"layers.{i}.wq.weight" for i in (0, 1)
    }
    assert optimizer.param_groups[0]["momentum"] == 0.9
    assert optimizer.param_groups[0]["weight_decay"] == 0.1


def test_the_rest_is_torchs_adamw():
    torch.manual_seed(0)
    model = Model()
    section = Optimizer(learning_rate=0.01, name="muon")
    optimizer = build_optimizer(model, section)
    plain_model = Model()
    plain_model.load_state_dict(model.state_dict())
    plain = build_optimizer(plain_model, Optimizer(learning_rate=0.01))
    for step in range(5):
        for p, q in zip(model.parameters(), plain_model.parameters(), strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad / 4
        for o in (optimizer, plain):
            divisor = torch.tensor(4.0) if o is optimizer else None
            guarded_step(o, found_inf=torch.tensor(0.0), grad_divisor=divisor)
        assert step < 5
    of = methods(model, optimizer)
    for (name, p), q in zip(model.named_parameters(), plain_model.parameters(), strict=True):
        assert torch.equal(p, q) is (of[name] == "adamw")


def test_a_model_without_numbered_blocks():
    with pytest.raises(UsageError, match="muon found no matrix of a block: give roles"):
        build_optimizer(nn.Linear(4, 4), Optimizer(learning_rate=0.1, name="muon"))
    found = build_optimizer(
        nn.Linear(4, 4),
        Optimizer(learning_rate=0.1, name="muon"),
        roles={"weight": "feed_forward_in"},
    )
    assert [g["method"] for g in found.param_groups] == ["muon", "adamw"]
