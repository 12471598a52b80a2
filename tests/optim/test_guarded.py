"""After a skipped step everything is equal bit for bit; after a made one, as without the guard."""

import copy
import math

import pytest
import torch

from surefoot.optim import guarded_step

YES, NO = torch.tensor(1.0), torch.tensor(0.0)


class Counting(torch.optim.Optimizer):
    """Counts in Python and keeps a list, as many an optimizer outside torch does."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr, "k": 0, "weights": [1.0]})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["k"] += 1
            group["weights"].append(group["k"])
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                state["step"] = state.get("step", 0) + 1
                state["sum"] = state.get("sum", torch.zeros_like(p)) + p.grad  # a new tensor
                p.sub_(state["sum"], alpha=group["lr"] / state["step"])


MAKERS = {
    "fused AdamW": lambda ps: torch.optim.AdamW(ps, lr=0.1, fused=True),
    "fused Adam, amsgrad": lambda ps: torch.optim.Adam(ps, lr=0.1, fused=True, amsgrad=True),
    "foreach AdamW": lambda ps: torch.optim.AdamW(ps, lr=0.1, foreach=True),
    "AdamW": lambda ps: torch.optim.AdamW(ps, lr=0.1, foreach=False),
    "AdamW, rate as tensor": lambda ps: torch.optim.AdamW(ps, lr=torch.tensor(0.1), fused=True),
    "SGD": lambda ps: torch.optim.SGD(ps, lr=0.1, weight_decay=0.1),
    "SGD with momentum": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
    "fused SGD": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, fused=True),
    "RMSprop": lambda ps: torch.optim.RMSprop(ps, lr=0.1, momentum=0.9, centered=True),
    "Adagrad": lambda ps: torch.optim.Adagrad(ps, lr=0.1),
    "NAdam": lambda ps: torch.optim.NAdam(ps, lr=0.1),
    "counting in Python": lambda ps: Counting(ps, lr=0.1),
}


@pytest.fixture(params=MAKERS, ids=str)
def make(request):
    return MAKERS[request.param]


def everything(optimizer):
    """All values by place, tensors as bytes, so that NaN equals itself."""

    def plain(value):
        if isinstance(value, torch.Tensor):
            return value.detach().numpy().tobytes()
        return copy.deepcopy(value)

    found = {}
    for i, group in enumerate(optimizer.param_groups):
        found |= {(i, k): plain(v) for k, v in group.items() if k != "params"}
        for j, p in enumerate(group["params"]):
            found[i, j] = plain(p)
            found |= {(i, j, k): plain(v) for k, v in optimizer.state.get(p, {}).items()}
    return found


def poison(parameters, bad):
    parameters[1].grad[3] = bad


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("divisor", [None, torch.tensor(3.0), torch.tensor(math.nan)], ids=str)
def test_skipped_steps_leave_no_trace(make, bad, divisor, parameters, set_gradients):
    watched, plain = make(parameters()), make(parameters())
    ps = watched.param_groups[0]["params"]
    for step in (1, 2, 3):
        set_gradients(ps, step)
        guarded_step(watched, found_inf=NO)
        before = everything(watched)
        set_gradients(ps, 50 + step)
        poison(ps, bad)
        guarded_step(watched, found_inf=YES, grad_divisor=divisor)
        assert everything(watched) == before
        set_gradients(plain.param_groups[0]["params"], step)
        plain.step()
    # The steps that were made are those of the plain optimizer.
    assert everything(watched) == everything(plain)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_skipped_first_step(make, bad, parameters, set_gradients):
    watched, plain = make(parameters()), make(parameters())
    values = [p.detach().clone() for p in watched.param_groups[0]["params"]]
    set_gradients(watched.param_groups[0]["params"], 0)
    poison(watched.param_groups[0]["params"], bad)
    guarded_step(watched, found_inf=YES)
    for p, value in zip(watched.param_groups[0]["params"], values, strict=True):
        assert torch.equal(p, value)
        for entry in watched.state.get(p, {}).values():
            assert entry is None or not torch.as_tensor(entry).any()
    for optimizer in (watched, plain):
        set_gradients(optimizer.param_groups[0]["params"], 1)
    guarded_step(watched, found_inf=NO)
    plain.step()
    assert everything(watched) == everything(plain)


def test_gradients_are_divided(make, parameters, set_gradients):
    watched, plain = make(parameters()), make(parameters())
    for step in range(3):
        set_gradients(watched.param_groups[0]["params"], step)
        guarded_step(watched, found_inf=NO, grad_divisor=torch.tensor(8.0))
        set_gradients(plain.param_groups[0]["params"], step, scale=1 / 8)
        for a, b in zip(
            watched.param_groups[0]["params"], plain.param_groups[0]["params"], strict=True
        ):
            assert torch.equal(a.grad, b.grad)  # signals read them after the update
        plain.step()
    for a, b in zip(
        watched.param_groups[0]["params"], plain.param_groups[0]["params"], strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_a_parameter_without_gradient(make, parameters, set_gradients):
    optimizer = make(parameters())
    ps = optimizer.param_groups[0]["params"]
    for step in range(2):
        set_gradients(ps, step)
        ps[0].grad = None
        before = ps[0].detach().clone()
        guarded_step(optimizer, found_inf=NO, grad_divisor=torch.tensor(2.0))
        assert torch.equal(ps[0], before)


@pytest.mark.parametrize("name", ["fused AdamW", "SGD with momentum", "SGD", "Adagrad"])
def test_the_host_never_waits(name, counter, parameters, set_gradients):
    optimizer = MAKERS[name](parameters())
    ps = optimizer.param_groups[0]["params"]
    set_gradients(ps, 0)
    guarded_step(optimizer, found_inf=NO)  # makes the state
    for found_inf in (NO, YES):
        set_gradients(ps, 1)
        with counter() as count:
            guarded_step(optimizer, found_inf=found_inf, grad_divisor=torch.tensor(2.0))
        assert count.names
        # torch's own Adagrad reads its step counter, which it keeps on the host.
        assert count.syncs == (["_local_scalar_dense"] * len(ps) if name == "Adagrad" else [])


def test_the_fused_path_makes_no_copy(counter, parameters, set_gradients):
    optimizer = MAKERS["fused AdamW"](parameters())
    ps = optimizer.param_groups[0]["params"]
    divisor = torch.tensor(2.0)
    for step in range(2):
        set_gradients(ps, step)
        with counter() as count:
            guarded_step(optimizer, found_inf=NO, grad_divisor=divisor)
    work = [name for name in count.names if "record_function" not in name]
    assert work == ["_foreach_add_", "_fused_adamw_", "_foreach_sub_"]
    assert "found_inf" not in vars(optimizer)
    assert "grad_scale" not in vars(optimizer)


def test_attributes_are_removed_when_the_step_fails(parameters, set_gradients):
    optimizer = MAKERS["fused AdamW"](parameters())
    set_gradients(optimizer.param_groups[0]["params"], 0)
    optimizer.param_groups[0]["params"][0].grad = torch.zeros(40, 33).to_sparse()
    with pytest.raises(RuntimeError):
        guarded_step(optimizer, found_inf=NO)
    assert "found_inf" not in vars(optimizer)


def test_a_subclass_with_a_step_of_its_own_is_guarded(parameters, set_gradients):
    class Twice(torch.optim.AdamW):
        @torch.no_grad()
        def step(self, closure=None):
            super().step(closure)
            for p in self.param_groups[0]["params"]:
                p.add_(p.grad)

    optimizer = Twice(parameters(), lr=0.1, fused=True)
    ps = optimizer.param_groups[0]["params"]
    set_gradients(ps, 0)
    guarded_step(optimizer, found_inf=NO)
    before = everything(optimizer)
    poison(ps, math.nan)
    guarded_step(optimizer, found_inf=YES)
    assert everything(optimizer) == before
