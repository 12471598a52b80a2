"""Groups by role, rate factors, and a decay that does not depend on the rate."""

import pytest
import torch
from torch import nn

from surefoot.errors import UsageError
from surefoot.init import ROLES
from surefoot.model import Decoder
from surefoot.optim import build_optimizer, guarded_step, learning_rate, parameter_groups
from surefoot.optim.groups import KINDS
from surefoot.recipe import Architecture, Optimizer, Schedule

SHAPE = {"layers": 2, "width": 8, "heads": 2, "vocab_size": 9, "sequence_length": 4}


class Odd(nn.Module):
    """Names that say nothing: only roles can tell them apart."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.ones(4, 4))
        self.b = nn.Parameter(torch.ones(4, 4))
        self.c = nn.Parameter(torch.ones(4, 1))
        self.d = nn.Parameter(torch.ones(4, 4))


def named(model, groups):
    names = {id(p): name for name, p in model.named_parameters()}
    return [(g["name"], [names[id(p)] for p in g["params"]], g["rate_factor"]) for g in groups]


def test_every_role_has_a_kind():
    assert set(ROLES) <= set(KINDS)


def test_roles_decide():
    model = Odd()
    roles = {"a": "position", "b": "feed_forward_in", "c": "scale", "d": "head"}
    section = Optimizer(learning_rate=0.1, weight_decay=0.3)
    assert [(g["name"], g["weight_decay"]) for g in parameter_groups(model, section)] == [
        ("matrices", 0.3)
    ]
    groups = parameter_groups(model, section, roles=roles)
    assert named(model, groups) == [
        ("matrices", ["b", "d"], 1.0),
        ("embeddings", ["a"], 1.0),
        ("vectors", ["c"], 1.0),
    ]
    assert [g["weight_decay"] for g in groups] == [0.3, 0.0, 0.0]
    muon = parameter_groups(model, section.model_copy(update={"name": "muon"}), roles=roles)
    assert named(model, muon)[:2] == [("blocks", ["b"], 1.0), ("matrices", ["d"], 1.0)]


@pytest.mark.parametrize("tied", [False, True])
def test_roles_of_the_decoder_give_the_groups_that_names_give(tied):
    model = Decoder(Architecture(tied_embeddings=tied, **SHAPE))
    for name in ("adamw", "muon"):
        section = Optimizer(learning_rate=0.1, name=name)
        with_roles = parameter_groups(model, section, roles=model.roles())
        assert named(model, with_roles) == named(model, parameter_groups(model, section))


def test_rate_factors_make_groups_of_their_own():
    model = Decoder(Architecture(**SHAPE))
    inner = {n: 0.25 for n, _ in model.named_parameters() if n.endswith(("wq.weight", "w2.weight"))}
    section = Optimizer(learning_rate=0.1, weight_decay=0.2)
    groups = parameter_groups(model, section, rate_factors=inner)
    found = [(g["name"], g["rate_factor"], g["lr"], g["weight_decay"]) for g in groups]
    assert found == [
        ("matrices", 1.0, 0.1, 0.2),
        ("matrices", 0.25, 0.025, 0.2),
        ("embeddings", 1.0, 0.1, 0.0),
        ("vectors", 1.0, 0.1, 0.0),
    ]
    assert sum(len(g["params"]) for g in groups) == len(list(model.parameters()))


@pytest.mark.parametrize("name", ["adamw", "stable-adamw", "laprop", "muon"])
@pytest.mark.parametrize("peak", [0.1, 0.4])
def test_independent_decay_follows_the_shape_of_the_schedule_only(name, peak):
    section = Optimizer(
        learning_rate=peak, name=name, weight_decay=0.01, independent_decay=True, eps=1e-8
    )
    schedule = Schedule(steps=8, warmup_steps=4)
    model = nn.ModuleList([nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)])
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(1.0)
    optimizer = build_optimizer(model, section, rate_factors={"1.weight": 0.5})
    kept = 1.0
    for step in range(1, 9):
        rate = learning_rate(schedule, section.learning_rate, step)
        kept *= 1 - 0.01 * rate / peak
        for group in optimizer.param_groups:
            group["lr"] = rate * group["rate_factor"]
        for p in model.parameters():
            p.grad = torch.zeros_like(p)  # nothing moves but by the decay
        guarded_step(optimizer, found_inf=torch.tensor(0.0))
    for p in model.parameters():
        torch.testing.assert_close(p.detach(), torch.full((4, 4), kept), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rate_factors": {"layer.weight": 1.0}}, r"rate_factors: no parameter 'layer.weight'"),
        ({"rate_factors": {"wieght": 1.0}}, r"did you mean 'weight'\?"),
        ({"rate_factors": {"weight": 0.0}}, "rate_factors: weight has 0.0; expected .* above 0"),
        ({"rate_factors": {"weight": float("nan")}}, "rate_factors: weight has nan"),
        ({"rate_factors": {"weight": float("inf")}}, "rate_factors: weight has inf"),
        ({"roles": {"bais": "bias"}}, r"roles: no parameter 'bais' .*did you mean 'bias'\?"),
        ({"roles": {"bias": "gain"}}, "roles: unknown role 'gain' of bias; known: attention_in"),
    ],
    ids=str,
)
def test_what_cannot_be_meant(given, message):
    with pytest.raises(UsageError, match=message):
        parameter_groups(nn.Linear(3, 3), Optimizer(learning_rate=0.1), **given)
