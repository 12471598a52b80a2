"""What all of surefoot's own optimizers promise: skipped steps, checkpoints, groups, odd shapes."""

import io
import math
from typing import get_args

import pytest
import torch
from torch import nn

from surefoot.checkpoint import restore_training, training_tensors
from surefoot.errors import UsageError
from surefoot.optim import (
    OPTIMIZERS,
    SPAM,
    AdamWUpdateClip,
    LaProp,
    Muon,
    StableAdamW,
    build_optimizer,
    guarded_step,
    lists,
)
from surefoot.recipe import Optimizer
from surefoot.recipe.optimizer import OptimizerName

YES, NO = torch.tensor(1.0), torch.tensor(0.0)


def muon(params, **settings):
    """Muon on the matrices, AdamW on the rest."""
    params = list(params)
    if params and isinstance(params[0], dict):
        return Muon([{"method": "adamw", **group} for group in params], **settings)
    of = {"muon": [p for p in params if p.ndim >= 2], "adamw": [p for p in params if p.ndim < 2]}
    return Muon([{"params": ps, "method": method} for method, ps in of.items() if ps], **settings)


MAKERS = {
    "stable-adamw": StableAdamW,
    "adamw-update-clip": AdamWUpdateClip,
    "laprop": LaProp,
    "spam": lambda params, **kwargs: SPAM(params, reset_every=3, clip_after=1, **kwargs),
    "muon": muon,
}


@pytest.fixture(params=MAKERS, ids=str)
def make(request):
    return MAKERS[request.param]


@pytest.fixture(params=["cpu", "device"])
def where(request, monkeypatch):
    """As on a CPU, and by the code of devices, on which no value may be read."""
    if request.param == "device":
        monkeypatch.setattr(lists, "HOSTS", ())
    return request.param


def all_of(optimizer):
    return [p for group in optimizer.param_groups for p in group["params"]]


def bits(optimizer):
    found = {}
    for i, p in enumerate(all_of(optimizer)):
        found[i] = p.detach().view(torch.uint8 if p.ndim else p.dtype).numpy().tobytes()
        for name, value in optimizer.state[p].items():
            found[i, name] = value.numpy().tobytes()
    return found


def test_every_name_of_a_recipe_is_an_optimizer():
    assert set(OPTIMIZERS) == set(get_args(OptimizerName))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("divisor", [None, torch.tensor(3.0), torch.tensor(math.nan)], ids=str)
def test_skipped_steps_leave_no_trace(make, where, bad, divisor, parameters, set_gradients):
    watched, plain = make(parameters()), make(parameters())
    # A zero below 0 loses its sign where something is added to it.
    with torch.no_grad():
        for optimizer in (watched, plain):
            all_of(optimizer)[0].view(-1)[7] = -0.0
    for step in range(8):  # resets of SPAM among them
        for optimizer in (watched, plain):
            set_gradients(all_of(optimizer), step)
        plain.step()
        guarded_step(watched, found_inf=NO)
        before = bits(watched)
        set_gradients(all_of(watched), 50 + step)
        all_of(watched)[0].grad[3] = bad
        all_of(watched)[1].grad.view(-1)[2] = bad
        guarded_step(watched, found_inf=YES, grad_divisor=divisor)
        assert bits(watched) == before
    assert bits(watched) == bits(plain)


def test_a_skipped_first_step(make, where, parameters, set_gradients):
    watched, plain = make(parameters()), make(parameters())
    values = [p.detach().clone() for p in all_of(watched)]
    set_gradients(all_of(watched), 0)
    all_of(watched)[1].grad.view(-1)[0] = math.nan
    guarded_step(watched, found_inf=YES)
    for p, value in zip(all_of(watched), values, strict=True):
        assert torch.equal(p, value)
        assert not any(entry.any() for entry in watched.state[p].values())
    for optimizer in (watched, plain):
        set_gradients(all_of(optimizer), 1)
        guarded_step(optimizer, found_inf=NO)
    assert bits(watched) == bits(plain)


def test_both_ways_agree(make, parameters, set_gradients, monkeypatch):
    here, there = make(parameters()), make(parameters())
    for step in range(8):
        for optimizer in (here, there):
            set_gradients(all_of(optimizer), step, scale=10.0 ** (step % 3))
        divisor = torch.tensor(float(step + 1))
        guarded_step(here, found_inf=NO, grad_divisor=divisor)
        with monkeypatch.context() as patch:
            patch.setattr(lists, "HOSTS", ())
            guarded_step(there, found_inf=NO, grad_divisor=divisor)
        for a, b in zip(all_of(here), all_of(there), strict=True):
            torch.testing.assert_close(a.grad, b.grad)  # signals read them after the update
    for a, b in zip(all_of(here), all_of(there), strict=True):
        # Muon multiplies in bf16, where a stack of matrices may sum in another order.
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_a_device_is_not_waited_for(make, counter, parameters, set_gradients, monkeypatch):
    monkeypatch.setattr(lists, "HOSTS", ())
    optimizer = make(parameters())
    for step, flag in enumerate((NO, NO, YES, NO, NO)):
        set_gradients(all_of(optimizer), step)
        with counter() as count:
            guarded_step(optimizer, found_inf=flag, grad_divisor=torch.tensor(2.0))
        assert count.names
        assert count.syncs == []


def test_attributes_are_removed(make, parameters, set_gradients):
    optimizer = make(parameters())
    set_gradients(all_of(optimizer), 0)
    guarded_step(optimizer, found_inf=NO, grad_divisor=torch.tensor(2.0))
    assert not {"found_inf", "grad_scale"} & vars(optimizer).keys()


def test_a_derived_optimizer_is_guarded_too(parameters, set_gradients):
    class Twice(StableAdamW):
        @torch.no_grad()
        def step(self, closure=None):
            super().step(closure)
            for p in all_of(self):
                p.add_(p.grad)

    optimizer = Twice(parameters())
    set_gradients(all_of(optimizer), 0)
    guarded_step(optimizer, found_inf=NO)
    before = bits(optimizer)
    all_of(optimizer)[0].grad[0] = math.nan
    guarded_step(optimizer, found_inf=YES)
    assert bits(optimizer) == before


def test_the_grad_scaler_of_torch_skips_and_unscales(make, parameters, set_gradients):
    scaled, plain = make(parameters()), make(parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.tensor(0.0))  # makes its scale
    for step, bad in enumerate([False, True, False]):
        set_gradients(all_of(scaled), step, scale=scaler.get_scale())
        if bad:
            before = bits(scaled)
            all_of(scaled)[0].grad[0] = math.inf
        scaler.step(scaled)
        if bad:
            assert bits(scaled) == before
        else:
            set_gradients(all_of(plain), step)
            plain.step()
        scaler.update()
    assert scaler.get_scale() == 4.0
    for a, b in zip(all_of(scaled), all_of(plain), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


class Blocks(nn.Module):
    """A model with all kinds of parameters, of which two share one."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(9, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.gain = nn.Parameter(torch.tensor(1.0))
        self.head = nn.Linear(8, 9, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens) * self.gain
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.head(x)


def train(model, optimizer, steps):
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        tokens = torch.randint(0, 9, (4, 6), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()


@pytest.mark.parametrize("way", ["state_dict", "checkpoint"])
@pytest.mark.parametrize("name", sorted(MAKERS))
def test_a_continued_run_is_the_uninterrupted_one(name, way):
    section = Optimizer(learning_rate=0.01, name=name, reset_every=4, reset_warmup=3)
    model, straight = Blocks(), Blocks()
    optimizer, whole = (build_optimizer(m, section) for m in (model, straight))
    train(straight, whole, range(9))
    train(model, optimizer, range(5))
    other = Blocks(seed=1)
    fresh = build_optimizer(other, section)
    if way == "state_dict":
        file = io.BytesIO()
        torch.save([model.state_dict(), optimizer.state_dict()], file)
        file.seek(0)
        weights, state = torch.load(file, weights_only=True)
        other.load_state_dict(weights)
        fresh.load_state_dict(state)
    else:
        tensors, hyper = training_tensors(model, optimizer)
        assert restore_training(other, fresh, tensors, hyper) == ()
    train(other, fresh, range(5, 9))
    for a, b in zip(other.parameters(), straight.parameters(), strict=True):
        assert torch.equal(a, b)
    assert bits(fresh) == bits(whole)
    for p in fresh.state:
        steps = [v for k, v in fresh.state[p].items() if k in ("step", "resets")]
        assert all(v.dtype is torch.float32 and v.device == p.device for v in steps)


def test_loaded_counters_take_their_place_and_type(make, parameters, set_gradients):
    optimizer, fresh = make(parameters()), make(parameters())
    set_gradients(all_of(optimizer), 0)
    optimizer.step()
    state = optimizer.state_dict()
    for entry in state["state"].values():
        if "step" in entry:
            entry["step"] = entry["step"].double()  # torch keeps a counter as it comes, else
    fresh.load_state_dict(state)
    steps = [s["step"] for s in fresh.state.values() if "step" in s]
    assert steps
    assert all(step.dtype is torch.float32 for step in steps)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_each_learns(name):
    model = Blocks()
    optimizer = build_optimizer(model, Optimizer(learning_rate=0.02, name=name))
    tokens = torch.arange(54).view(6, 9) % 9

    def loss():
        return nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    before = loss().item()
    train(model, optimizer, range(40))
    assert loss().item() < before / 2


def test_groups_have_settings_of_their_own(make, parameters, set_gradients):
    both, apart = parameters(), parameters()
    settings = [{"lr": 0.1, "weight_decay": 0.5}, {"lr": 1e-3, "weight_decay": 0.0}]
    together = make([{"params": both[i::2], **s} for i, s in enumerate(settings)])
    alone = [make([{"params": apart[i::2]}], **s) for i, s in enumerate(settings)]
    for step in range(3):
        for ps in (both, apart):
            set_gradients(ps, step)
        for optimizer in (together, *alone):
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(both, apart, strict=True))


def test_a_parameter_without_gradient_is_not_counted(make, parameters, set_gradients):
    ps, alone = parameters(), parameters()
    optimizer, other = make(ps), make(alone[1:])
    for step in range(3):
        set_gradients(ps, step)
        for a, b in zip(alone, ps, strict=True):
            a.grad = b.grad.clone()
        ps[0].grad = None
        before = ps[0].detach().clone()
        guarded_step(optimizer, found_inf=NO)
        other.step()
        assert torch.equal(ps[0], before)
        assert not optimizer.state[ps[0]]
    assert all(torch.equal(a, b) for a, b in zip(ps[1:], alone[1:], strict=True))


def test_parameters_that_skip_steps_keep_their_own_count(where, parameters, set_gradients):
    for name in ("stable-adamw", "adamw-update-clip", "laprop", "spam"):
        ps, late = parameters(), parameters()[0]
        optimizer, other = MAKERS[name](ps), MAKERS[name]([late])
        for step in range(4):
            set_gradients(ps, step)
            if step % 2:
                late.grad = ps[0].grad.clone()
                other.step()
            else:
                ps[0].grad = None
            optimizer.step()
        assert [float(optimizer.state[p]["step"]) for p in ps[:2]] == (
            [2, 1] if name == "spam" else [2, 4]
        )
        torch.testing.assert_close(ps[0], late, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (), (1, 1)], ids=str)
def test_odd_shapes(make, where, shape):
    p = nn.Parameter(torch.ones(shape))
    optimizer = make([p, nn.Parameter(torch.ones(2))])
    for _ in range(4):
        p.grad = torch.ones(shape)
        optimizer.step()
    assert (p < 1).all()
    assert p.isfinite().all()
    assert all(v.isfinite().all() for v in optimizer.state[p].values())


@pytest.mark.parametrize("name", ["stable-adamw", "adamw-update-clip", "laprop", "spam"])
def test_pieces_make_no_difference(name, parameters, set_gradients, monkeypatch):
    whole, cut = MAKERS[name](parameters()), MAKERS[name](parameters())
    for step in range(5):
        for optimizer, size in ((whole, 2**16), (cut, 128)):
            monkeypatch.setattr(lists, "CHUNK_ON_CPU", size)
            set_gradients(all_of(optimizer), step)
            guarded_step(optimizer, found_inf=NO, grad_divisor=torch.tensor(0.1))
    for a, b in zip(all_of(whole), all_of(cut), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)
        assert torch.equal(a.grad, b.grad)


def test_batches_make_no_difference(make, parameters, set_gradients, monkeypatch):
    monkeypatch.setattr(lists, "HOSTS", ())
    one, many = make(parameters()), make(parameters())
    for step in range(5):
        for optimizer, size in ((one, 2**26), (many, 1)):
            monkeypatch.setattr(lists, "BATCH_ON_DEVICE", size)
            monkeypatch.setattr("surefoot.optim.muon.BATCH_ON_DEVICE", size)
            set_gradients(all_of(optimizer), step)
            optimizer.step()
    for a, b in zip(all_of(one), all_of(many), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_layout_makes_no_difference(make, monkeypatch):
    monkeypatch.setattr(lists, "CHUNK_ON_CPU", 4)
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(6, 5, generator=generator)
    plain, turned = nn.Parameter(values.clone()), nn.Parameter(values.t().contiguous().t())
    one, two = make([plain]), make([turned])
    for _ in range(4):
        plain.grad = torch.randn(6, 5, generator=generator)
        turned.grad = plain.grad.clone()  # laid out unlike its parameter
        one.step()
        two.step()
    torch.testing.assert_close(plain, turned, rtol=1e-6, atol=1e-7)


def test_gaps_and_sparse_gradients_are_refused(make):
    p = nn.Parameter(torch.ones(4, 10)[:, ::2])
    p.grad = torch.ones(4, 5)
    with pytest.raises(UsageError, match=r"\[4, 5\] has gaps in memory \(strides \[10, 2\]\)"):
        make([p]).step()
    p = nn.Parameter(torch.ones(4, 5))
    p.grad = torch.ones(4, 5).to_sparse()
    with pytest.raises(UsageError, match=r"\[4, 5\] is sparse: make .* sparse=False"):
        make([p]).step()


def test_sharded_parameters_are_refused(make):
    p = nn.Parameter(torch.ones(4, 5))
    p.grad = torch.ones(4, 5)
    p.device_mesh = object()  # what a DTensor has
    with pytest.raises(UsageError, match=r"\[4, 5\] is sharded .* use DistributedDataParallel"):
        make([p]).step()


def test_a_closure_is_called_with_gradients(make):
    p = nn.Parameter(torch.tensor([2.0]))
    optimizer = make([p])

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4.0
    assert p.item() < 2.0


def test_a_rate_may_be_a_tensor(make, where, parameters, set_gradients):
    plain, tensor = make(parameters(), lr=0.1), make(parameters(), lr=torch.tensor(0.1))
    for step in range(3):
        for optimizer in (plain, tensor):
            set_gradients(all_of(optimizer), step)
            optimizer.step()
    for a, b in zip(all_of(plain), all_of(tensor), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_moments_have_the_dtype_of_the_parameter(make, dtype, parameters, set_gradients):
    optimizer = make(parameters(dtype))
    set_gradients(all_of(optimizer), 0)
    optimizer.step()
    for p in all_of(optimizer):
        for name, value in optimizer.state[p].items():
            assert value.dtype is (torch.float32 if name in ("step", "resets") else dtype)


def test_a_rate_of_0_leaves_parameters(make, where, parameters, set_gradients):
    optimizer = make(parameters(), lr=0.0)
    before = [p.detach().clone() for p in all_of(optimizer)]
    set_gradients(all_of(optimizer), 0)
    optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(all_of(optimizer), before, strict=True))


@pytest.mark.parametrize(
    ("kind", "setting", "message"),
    [
        (StableAdamW, {"lr": -1.0}, "lr = -1.0: expected a number at least 0"),
        (StableAdamW, {"betas": (0.9, 1.0)}, r"betas\[1\] = 1.0: expected a number in \[0, 1\)"),
        (LaProp, {"betas": (-0.1, 0.9)}, r"betas\[0\] = -0.1"),
        (LaProp, {"eps": -1e-9}, "eps = -1e-09"),
        (SPAM, {"weight_decay": -1}, "weight_decay = -1"),
        (StableAdamW, {"update_clip": 0.0}, "update_clip = 0.0: expected a number above 0"),
        (AdamWUpdateClip, {"update_clip": -1.0}, "update_clip = -1.0"),
        (SPAM, {"element_clip": 0.0}, "element_clip = 0.0"),
        (SPAM, {"reset_every": 0}, "reset_every = 0: expected a number at least 1"),
        (SPAM, {"reset_warmup": -1}, "reset_warmup = -1"),
        (SPAM, {"clip_after": -1}, "clip_after = -1"),
        (Muon, {"momentum": 1.0}, r"momentum = 1.0: expected a number in \[0, 1\)"),
        (Muon, {"iterations": 0}, "iterations = 0"),
        (Muon, {"rate_match": "rsm"}, "rate_match = 'rsm': expected 'rms' or 'shape'"),
    ],
    ids=str,
)
def test_settings_out_of_range(kind, setting, message):
    with pytest.raises(UsageError, match=message):
        kind([nn.Parameter(torch.ones(2, 2))], **setting)


def test_muon_refuses_what_is_no_matrix():
    with pytest.raises(UsageError, match=r"muon updates matrices, got .* \[3\]: give .*'adamw'"):
        Muon([nn.Parameter(torch.ones(3))])
