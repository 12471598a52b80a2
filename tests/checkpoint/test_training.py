"""Model and optimizer to tensors and back, by name, bit for bit."""

import copy
import json
import os

import pytest
import torch
import torch.distributed as dist
from torch import nn

from surefoot.checkpoint import CheckpointStore, TensorInfo, restore_training, training_tensors
from surefoot.errors import CheckpointError


class Tied(nn.Module):
    """Embedding and head share a weight; with a buffer and one that is not saved."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.layer = nn.Linear(6, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.tensor(0.5))
        self.register_buffer("cache", torch.zeros(3), persistent=False)

    def forward(self, tokens):
        return self.head(torch.tanh(self.layer(self.embedding(tokens) * self.scale)))


def build(seed=0, **options):
    torch.manual_seed(seed)
    model = Tied()
    decay = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay}, {"params": others, "weight_decay": 0.0}]
    options = {"lr": 1e-2, "betas": (0.9, 0.95), "weight_decay": 0.1, "fused": True, **options}
    return model, torch.optim.AdamW(groups, **options)


def train(model, optimizer, first, steps):
    losses = []
    for step in range(first, first + steps):
        generator = torch.Generator().manual_seed(step)
        tokens = torch.randint(0, 11, (4, 7), generator=generator)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


CONTINUE = """
import json, sys, torch
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_training import build, train
from surefoot.checkpoint import CheckpointStore, restore_training, training_tensors
store = CheckpointStore(Path(sys.argv[1]), interval=5)
model, optimizer = build(seed=99)
tensors, _ = training_tensors(model, optimizer)
state = store.load(store.resumable(), tensors)
assert restore_training(model, optimizer, tensors, state["hyper"]) == ()
losses = train(model, optimizer, first=state["step"], steps=5)
tensors, hyper = training_tensors(model, optimizer)
store.save(10, tensors, {"hyper": hyper, "step": 10, "losses": losses})
"""


def test_a_continued_run_equals_an_uninterrupted_one(root, run_python, bits_equal):
    model, optimizer = build()
    train(model, optimizer, first=0, steps=5)
    tensors, hyper = training_tensors(model, optimizer)
    store = CheckpointStore(root, interval=5)
    store.save(5, tensors, {"hyper": hyper, "step": 5})
    losses = train(model, optimizer, first=5, steps=5)
    straight, straight_hyper = training_tensors(model, optimizer)

    done = run_python(CONTINUE, root, os.path.dirname(__file__))
    assert done.returncode == 0, done.stderr
    continued = {name: torch.empty_like(tensor) for name, tensor in straight.items()}
    state = store.load(10, continued)
    assert state["losses"] == losses
    assert bits_equal(continued, straight)
    assert state["hyper"] == straight_hyper


def test_names_come_from_the_model_and_tied_parameters_come_once():
    model, optimizer = build()
    tensors, hyper = training_tensors(model, optimizer, extra={"scale": torch.tensor(8.0)})
    parameters = {"embedding.weight", "layer.weight", "layer.bias"}
    assert set(tensors) == (
        {f"model.{name}" for name in parameters | {"scale"}}
        | {f"optimizer.{n}.{k}" for n in parameters for k in ("step", "exp_avg", "exp_avg_sq")}
        | {"extra.scale"}
    )
    assert tensors["model.layer.weight"].data_ptr() == model.layer.weight.data_ptr()
    assert not any(tensor.requires_grad for tensor in tensors.values())
    assert json.loads(json.dumps(hyper, allow_nan=False)) == hyper
    groups = hyper["groups"]
    assert [group["parameters"] for group in groups] == [
        ["embedding.weight", "layer.weight"],
        ["layer.bias"],
    ]
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert groups[0]["betas"] == [0.9, 0.95]
    assert "fused" not in groups[0]


def test_the_model_alone_can_be_read(store):
    model, optimizer = build()
    train(model, optimizer, 0, 1)
    store.save(1, *training_tensors(model, optimizer))
    other, _ = build(seed=5)
    tensors, hyper = training_tensors(other, None)
    assert hyper == {}
    store.load(1, tensors, partial=True)
    assert torch.equal(other.layer.weight, model.layer.weight)


@pytest.mark.parametrize(
    "options",
    [
        {"fused": True},
        {"fused": False, "foreach": True},
        {"fused": True, "amsgrad": True},
        {"fused": False, "foreach": False, "capturable": False},
    ],
)
@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.Adam])
def test_the_zero_state_is_the_one_adam_makes_itself(kind, options):
    """Same keys, shapes, dtypes and devices; and the same first update, bit for bit."""

    def make():
        torch.manual_seed(0)
        model = Tied()
        return model, kind(model.parameters(), lr=1e-2, **options)

    model, optimizer = make()
    training_tensors(model, optimizer)
    reference, reference_optimizer = make()
    for m, o in ((model, optimizer), (reference, reference_optimizer)):
        train(m, o, 0, 2)
    for mine, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        assert torch.equal(mine, theirs)
        state, expected = optimizer.state[mine], reference_optimizer.state[theirs]
        assert {k: (v.dtype, v.shape, v.stride(), v.device) for k, v in state.items()} == {
            k: (v.dtype, v.shape, v.stride(), v.device) for k, v in expected.items()
        }
        assert all(torch.equal(state[key], expected[key]) for key in state)


def test_a_frozen_parameter_has_no_state():
    model, optimizer = build()
    model.layer.bias.requires_grad_(False)
    tensors, _ = training_tensors(model, optimizer)
    assert not [name for name in tensors if name.startswith("optimizer.layer.bias")]


def test_the_state_of_another_optimizer_is_made_as_it_was_saved(store):
    def make(seed):
        torch.manual_seed(seed)
        model = Tied()
        return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    model, optimizer = make(0)
    train(model, optimizer, 0, 3)
    tensors, hyper = training_tensors(model, optimizer)
    store.save(3, tensors, {"hyper": hyper})
    expected = train(model, optimizer, 3, 3)

    model, optimizer = make(1)
    tensors, _ = training_tensors(model, optimizer, like=store.tensors(3))
    state = store.load(3, tensors)
    assert restore_training(model, optimizer, tensors, state["hyper"]) == ()
    assert train(model, optimizer, 3, 3) == expected


def test_values_that_are_no_tensors_are_restored():
    model, optimizer = build()
    train(model, optimizer, 0, 1)
    optimizer.state[model.layer.bias]["note"] = 7
    tensors, hyper = training_tensors(model, optimizer)
    assert hyper["values"] == {"layer.bias": {"note": 7}}
    other, other_optimizer = build(seed=1)
    restore_training(other, other_optimizer, tensors, hyper)
    assert other_optimizer.state[other.layer.bias]["note"] == 7


def test_restoring_from_tensors_that_are_not_the_live_ones():
    model, optimizer = build()
    train(model, optimizer, 0, 2)
    tensors, hyper = training_tensors(model, optimizer)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    expected = train(model, optimizer, 2, 2)
    other, other_optimizer = build(seed=1)
    restore_training(other, other_optimizer, tensors, hyper)
    assert train(other, other_optimizer, 2, 2) == expected
    del tensors["model.scale"]
    with pytest.raises(CheckpointError, match=r"lacks model\.scale"):
        restore_training(other, other_optimizer, tensors, hyper)


def test_the_current_hyper_parameters_prevail_and_differences_are_told():
    """The trap of OPT-175B: a restart with new betas that went on with the old ones."""
    model, optimizer = build()
    train(model, optimizer, 0, 1)
    tensors, hyper = training_tensors(model, optimizer)
    hyper = json.loads(json.dumps(hyper))
    other, other_optimizer = build(seed=1, betas=(0.9, 0.99), lr=5e-3)
    differences = restore_training(other, other_optimizer, tensors, hyper)
    assert [group["betas"] for group in other_optimizer.param_groups] == [(0.9, 0.99)] * 2
    assert [group["lr"] for group in other_optimizer.param_groups] == [5e-3] * 2
    assert {(d.field, str(d.a), str(d.b)) for d in differences} == {
        (f"optimizer.groups[{n}].{field}", a, b)
        for n in (0, 1)
        for field, a, b in (("betas", "[0.9, 0.95]", "[0.9, 0.99]"), ("lr", "0.01", "0.005"))
    }


def test_the_saved_hyper_parameters_are_taken_on_request():
    model, optimizer = build()
    optimizer.param_groups[0]["lr"] = 3e-4
    tensors, hyper = training_tensors(model, optimizer)
    hyper = json.loads(json.dumps(hyper))
    other, other_optimizer = build(seed=1, betas=(0.9, 0.99), fused=False, foreach=True)
    before = len(
        restore_training(other, other_optimizer, tensors, hyper, hyper_parameters="checkpoint")
    )
    assert before == 3
    groups = other_optimizer.param_groups
    assert [group["betas"] for group in groups] == [(0.9, 0.95)] * 2
    assert [group["lr"] for group in groups] == [3e-4, 1e-2]
    assert groups[0]["fused"] is False  # how this machine computes is not the checkpoint's to say
    assert groups[0]["foreach"] is True
    assert restore_training(other, other_optimizer, tensors, hyper) == ()


def test_a_learning_rate_on_the_device_stays_one():
    model, optimizer = build(lr=torch.tensor(0.25))
    tensors, hyper = training_tensors(model, optimizer)
    assert hyper["groups"][0]["lr"] == 0.25
    other, other_optimizer = build(seed=1, lr=torch.tensor(0.125))
    rate = other_optimizer.param_groups[0]["lr"]
    restore_training(other, other_optimizer, tensors, hyper, hyper_parameters="checkpoint")
    assert other_optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == 0.25


def test_groups_are_matched_by_their_parameters():
    model, optimizer = build()
    tensors, hyper = training_tensors(model, optimizer)
    other, other_optimizer = build(seed=1, lr=0.5)
    other_optimizer.param_groups.reverse()
    restore_training(other, other_optimizer, tensors, hyper, hyper_parameters="checkpoint")
    assert [group["weight_decay"] for group in other_optimizer.param_groups] == [0.0, 0.1]
    one_group = torch.optim.AdamW(other.parameters(), fused=True)
    differences = restore_training(other, one_group, tensors, hyper)
    assert ("optimizer.groups", 2, 1) in [(d.field, d.a, d.b) for d in differences]
    with pytest.raises(CheckpointError, match="group 0 of the optimizer holds other parameters"):
        restore_training(other, one_group, tensors, hyper, hyper_parameters="checkpoint")


def test_an_optimizer_of_another_model_is_refused():
    model, _ = build()
    _, optimizer = build()
    with pytest.raises(ValueError, match=r"group 0 .* parameter of shape \[11, 6\]"):
        training_tensors(model, optimizer)


def test_a_state_that_is_no_tensor_is_refused():
    class Extra(nn.Linear):
        def get_extra_state(self):
            return {"x": 1}

    with pytest.raises(TypeError, match=r"_extra_state of the model's state: expected a tensor"):
        training_tensors(Extra(2, 2), None)


@pytest.fixture
def process_group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("wrapping", ["compile", "ddp", "compile ddp", "ddp compile", "layers"])
def test_wrappers_leave_no_trace_in_names(process_group, wrapping):
    model, optimizer = build()
    expected = set(training_tensors(model, optimizer)[0])
    wrapped = model
    for wrapper in reversed(wrapping.split()):
        if wrapper == "compile":
            wrapped = torch.compile(wrapped, backend="eager")
        elif wrapper == "ddp":
            wrapped = nn.parallel.DistributedDataParallel(wrapped)
        else:
            model.layer = torch.compile(model.layer, backend="eager")
    tensors, hyper = training_tensors(wrapped, optimizer)
    assert set(tensors) == expected
    assert hyper["groups"][1]["parameters"] == ["layer.bias"]


def test_a_module_called_module_keeps_its_name():
    model = nn.Module()
    model.module = nn.Linear(2, 2)
    assert set(training_tensors(model, None)[0]) == {"model.module.weight", "model.module.bias"}


def test_like_does_not_touch_what_is_there():
    model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train(model, optimizer, 0, 1)
    before = copy.deepcopy(optimizer.state_dict())
    like = {"optimizer.layer.bias.momentum_buffer": TensorInfo((6,), torch.float32)}
    training_tensors(model, optimizer, like=like)
    assert str(optimizer.state_dict()) == str(before)


def test_adams_step_lives_where_adam_puts_it():
    """On the device where the update reads it there, else on the host."""
    parameter = nn.Parameter(torch.empty(2, device="meta"))
    model = nn.ParameterList([parameter])
    for capturable, device in ((True, "meta"), (False, "cpu")):
        optimizer = torch.optim.AdamW([parameter], capturable=capturable)
        tensors, _ = training_tensors(model, optimizer)
        assert tensors["optimizer.0.step"].device.type == device
        assert tensors["optimizer.0.exp_avg"].device.type == "meta"
