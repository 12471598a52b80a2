"""torch's fused AdamW as built here, against a plain one in float64."""

import copy
import math

import pytest
import torch
from torch import nn

from surefoot.errors import UsageError
from surefoot.optim import build_optimizer, guarded_step, parameter_groups
from surefoot.recipe import Optimizer

NO = torch.tensor(0.0)


class PlainAdamW:
    """AdamW as in the paper, one tensor at a time, float64."""

    def __init__(self, values, section: Optimizer, decays):
        self.section, self.decays, self.t = section, decays, 0
        self.values = [v.detach().double() for v in values]
        self.m = [torch.zeros_like(v) for v in self.values]
        self.v = [torch.zeros_like(v) for v in self.values]

    def step(self, gradients, rate):
        s = self.section
        self.t += 1
        for i, gradient in enumerate(gradients):
            g = gradient.double()
            self.m[i] = s.beta1 * self.m[i] + (1 - s.beta1) * g
            self.v[i] = s.beta2 * self.v[i] + (1 - s.beta2) * g * g
            m = self.m[i] / (1 - s.beta1**self.t)
            v = self.v[i] / (1 - s.beta2**self.t)
            decay = s.weight_decay if self.decays[i] else 0.0
            self.values[i] = self.values[i] - rate * (
                m / (torch.sqrt(v) + s.eps) + decay * self.values[i]
            )


class Model(nn.Module):
    def __init__(self, tied=False):
        super().__init__()
        self.embedding = nn.Embedding(7, 6)
        self.linear = nn.Linear(6, 5)
        self.norm = nn.LayerNorm(5)
        self.frozen = nn.Linear(5, 5).requires_grad_(False)
        self.head = nn.Linear(6, 7, bias=False)
        if tied:
            self.head.weight = self.embedding.weight


def named(model, groups):
    names = {id(p): name for name, p in model.named_parameters()}
    return {g["name"]: ([names[id(p)] for p in g["params"]], g["weight_decay"]) for g in groups}


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("decay_embeddings", [False, True])
def test_what_decays(tied, decay_embeddings):
    model = Model(tied)
    section = Optimizer(learning_rate=1e-3, weight_decay=0.3, decay_embeddings=decay_embeddings)
    assert named(model, parameter_groups(model, section)) == {
        "matrices": (["linear.weight"] + ([] if tied else ["head.weight"]), 0.3),
        "embeddings": (["embedding.weight"], 0.3 if decay_embeddings else 0.0),
        "vectors": (["linear.bias", "norm.weight", "norm.bias"], 0.0),
    }


def test_groups_of_the_decoder():
    from surefoot.model import Decoder
    from surefoot.recipe import Architecture

    shape = {"layers": 2, "width": 8, "heads": 2, "vocab_size": 9, "sequence_length": 4}
    section = Optimizer(learning_rate=1e-3)
    for tied in (False, True):
        model = Decoder(Architecture(tied_embeddings=tied, **shape))
        groups = named(model, parameter_groups(model, section))
        assert groups["embeddings"] == (["embedding.weight"], 0.0)
        assert all(name.endswith("norm.weight") for name in groups["vectors"][0])
        assert ("head.weight" in groups["matrices"][0]) is not tied
        assert sum(len(names) for names, _ in groups.values()) == len(list(model.parameters()))


def test_nothing_to_train():
    with pytest.raises(UsageError, match="no parameter with requires_grad"):
        build_optimizer(nn.Linear(2, 2).requires_grad_(False), Optimizer(learning_rate=1.0))


def test_absent_groups_are_left_out():
    groups = parameter_groups(nn.Linear(2, 2, bias=False), Optimizer(learning_rate=1.0))
    assert [g["name"] for g in groups] == ["matrices"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"eps": 1e-2, "beta1": 0.5, "beta2": 0.999},
        {"weight_decay": 0.0},
        {"weight_decay": 5.0, "beta1": 0.0},
    ],
    ids=str,
)
def test_twenty_steps_against_plain_adamw(settings):
    torch.manual_seed(0)
    model = Model()
    section = Optimizer(learning_rate=3e-2, **settings)
    optimizer = build_optimizer(model, section)
    assert all(group["fused"] for group in optimizer.param_groups)
    order = [p for group in optimizer.param_groups for p in group["params"]]
    decays = [g["name"] == "matrices" for g in optimizer.param_groups for _ in g["params"]]
    plain = PlainAdamW(order, section, decays)
    for step in range(20):
        rate = 3e-2 * (1 - step / 40)
        for group in optimizer.param_groups:
            group["lr"] = rate
        # Gradients of very different size, some of them near eps.
        scale = 10.0 ** (step % 5 - 4)
        for p in order:
            p.grad = scale * torch.randn_like(p)
        plain.step([p.grad for p in order], rate)
        guarded_step(optimizer, found_inf=NO)
    for got, want, m, v in zip(order, plain.values, plain.m, plain.v, strict=True):
        torch.testing.assert_close(got.detach().double(), want, rtol=1e-5, atol=1e-6)
        state = optimizer.state[got]
        torch.testing.assert_close(state["exp_avg"].double(), m, rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(state["exp_avg_sq"].double(), v, rtol=1e-5, atol=1e-9)
        assert state["step"] == 20


def test_division_in_the_kernel_is_clipping_beforehand(parameters, set_gradients):
    section = Optimizer(learning_rate=1e-2)
    inside, before = (
        torch.optim.AdamW(parameters(), lr=1e-2, betas=(section.beta1, section.beta2), fused=True)
        for _ in range(2)
    )
    for step in range(5):
        divisor = torch.tensor(math.pi * (step + 1))
        for optimizer in (inside, before):
            set_gradients(optimizer.param_groups[0]["params"], step)
        guarded_step(inside, found_inf=NO, grad_divisor=divisor)
        for p in before.param_groups[0]["params"]:
            p.grad.div_(divisor)
        before.step()
    for a, b in zip(
        inside.param_groups[0]["params"], before.param_groups[0]["params"], strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_foreach_where_fused_is_not_available():
    with torch.device("meta"):
        model = nn.Linear(2, 2)
    optimizer = build_optimizer(model, Optimizer(learning_rate=1.0))
    assert [(g["fused"], g["foreach"]) for g in optimizer.param_groups] == [(False, True)] * 2


def test_state_survives_a_round_trip(parameters, set_gradients):
    model = nn.ParameterList(parameters())
    optimizer = build_optimizer(model, Optimizer(learning_rate=1e-2))
    set_gradients(model, 1)
    guarded_step(optimizer, found_inf=NO)
    other_model = nn.ParameterList(nn.Parameter(p.detach().clone()) for p in model)
    other = build_optimizer(other_model, Optimizer(learning_rate=1e-2))
    # A copy: loading shares the step counters with the dict it loads from.
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for m, o in ((model, optimizer), (other_model, other)):
        set_gradients(m, 2)
        guarded_step(o, found_inf=NO)
    assert all(torch.equal(a, b) for a, b in zip(model, other_model, strict=True))
    assert [g["name"] for g in other.param_groups] == ["matrices", "vectors"]
