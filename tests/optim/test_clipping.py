"""What all clippers promise: no trace of a step that is not finite, no wait, a usable history."""

import copy
import math

import pytest
import torch

from surefoot.errors import UsageError
from surefoot.optim import guarded_step
from surefoot.optim.clip import clip_factor
from surefoot.optim.clipping import CLIPPERS, Clipper, agc, build_clipper, tensors
from surefoot.recipe import Optimizer

METHODS = ["norm", "none", "zclip", "adagc", "agc", "autoclip"]


def norm_of(parameters):
    grads = [p.grad.double() for p in parameters if p.grad is not None]
    return torch.linalg.vector_norm(torch.stack([g.norm() for g in grads])).float()


def recipe(clip, **fields):
    return Optimizer(learning_rate=0.1, clip=clip, **fields)


@pytest.fixture(params=METHODS)
def method(request):
    return request.param


def run(clipper, parameters, set_gradients, steps, bad_at=()):
    """Factors, and all gradients after clipping, of a few steps of varied size."""
    found = []
    for step in steps:
        set_gradients(parameters, step, scale=1 + step % 7)
        if step in bad_at:
            parameters[1].grad[3] = math.nan
        found.append(clipper(norm_of(parameters)))
        found += [p.grad.clone() for p in parameters]
    return found


def test_the_recipe_s_names_are_all_here(method):
    assert sorted(METHODS) == sorted(CLIPPERS)
    clipper = build_clipper(recipe(method), [torch.nn.Parameter(torch.ones(3, 2))])
    assert isinstance(clipper, Clipper)


def test_recipe_fields_reach_the_methods(parameters):
    ps = parameters()
    z = build_clipper(recipe("zclip", clip_z=3.5, clip_norm=0.7), ps)
    assert (z.z, z.clip, z.decay, z.warmup) == (3.5, 0.7, 0.97, 25)
    ada = build_clipper(recipe("adagc", clip_norm=0.7), ps)
    assert (ada.ratio, ada.clip, ada.decay, ada.warmup) == (1.05, 0.7, 0.98, 100)
    assert build_clipper(recipe("adagc", clip_ratio=1.5), ps).ratio == 1.5
    assert build_clipper(recipe("agc"), ps).ratio == 0.01
    assert build_clipper(recipe("agc", clip_ratio=0.1), ps).ratio == 0.1
    assert build_clipper(recipe("autoclip", clip_percentile=50.0), ps).percentile == 50
    assert build_clipper(recipe("norm", clip_norm=0.3), ps)(torch.tensor(3.0)) == clip_factor(
        torch.tensor(3.0), 0.3
    )
    assert build_clipper(recipe("none"), ps)(torch.tensor(1e9)) == 1


def test_bad_arguments():
    with pytest.raises(UsageError, match="got none"):
        build_clipper(recipe("zclip"), [])
    typo = recipe("zclip").model_copy(update={"clip": "zclpi"})
    with pytest.raises(UsageError, match="did you mean 'zclip'"):
        build_clipper(typo, [torch.nn.Parameter(torch.ones(1))])


def test_factors_lie_in_the_half_open_interval(method, parameters, set_gradients):
    """Also for norms that only fp32 can hold; 0 would make inf of the divisor."""
    ps = parameters()
    clipper = build_clipper(recipe(method), ps)
    for norm in [1.0, 1e-30, 3e38, 0.0, 1e38, 1.0, 1e-38, 3e38] * 20:
        set_gradients(ps, 1)
        factor = clipper(torch.tensor(norm))
        assert factor.shape == ()
        assert factor.dtype == torch.float32
        assert 0 < factor <= 1
        assert torch.isfinite(1 / factor)
    assert all(v.isfinite().all() for v in clipper.state_dict().values())


def test_the_smallest_factor_is_told(method, parameters, set_gradients):
    """What is clipped tensor by tensor does not show in the factor on the whole."""
    ps = parameters()
    clipper = build_clipper(recipe(method), ps)
    for step in range(120):
        set_gradients(ps, step, scale=0.01)
        if step == 119:
            ps[2].grad *= 1e4
        before = [p.grad.clone() for p in ps]
        factor = clipper(norm_of(ps))
    assert clipper.smallest.shape == ()
    kept = min(float((p.grad / old).min()) for p, old in zip(ps, before, strict=True))
    assert float(clipper.smallest) == pytest.approx(kept * float(factor), rel=1e-5)
    assert (clipper.smallest < 0.1) == (method != "none")
    assert (factor < 1) == (method in ("norm", "zclip", "autoclip"))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("warm", [0, 3, 120])
def test_a_step_that_is_not_finite_leaves_no_trace(method, bad, warm, parameters, set_gradients):
    ps = parameters()
    clipper = build_clipper(recipe(method), ps)
    run(clipper, ps, set_gradients, range(warm))
    before = copy.deepcopy(clipper.state_dict())
    set_gradients(ps, 500, scale=100.0)
    ps[1].grad[3] = bad
    grads = [p.grad.clone() for p in ps]
    assert clipper(norm_of(ps)) == 1
    for p, grad in zip(ps, grads, strict=True):
        assert p.grad.numpy().tobytes() == grad.numpy().tobytes()
    for name, value in clipper.state_dict().items():
        assert torch.equal(value, before[name])


def test_later_steps_do_not_know_of_it(method, parameters, set_gradients):
    """As if the bad step had not been: the trap of a NaN that blinds an average for good."""
    plain, hit = parameters(), parameters()
    without = run(
        build_clipper(recipe(method), plain), plain, set_gradients, [*range(7), *range(8, 130)]
    )
    with_bad = run(build_clipper(recipe(method), hit), hit, set_gradients, range(130), bad_at=[7])
    each = 1 + len(hit)
    del with_bad[7 * each : 8 * each]
    assert all(torch.equal(a, b) for a, b in zip(without, with_bad, strict=True))


def test_the_history_round_trips(method, parameters, set_gradients, tmp_path):
    ps, others = parameters(), parameters()
    first = build_clipper(recipe(method), ps)
    run(first, ps, set_gradients, range(110))
    torch.save(first.state_dict(), tmp_path / "state")
    second = build_clipper(recipe(method), others)
    second.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    one = run(first, ps, set_gradients, range(110, 125))
    two = run(second, others, set_gradients, range(110, 125))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_the_history_keeps_its_tensors(method, parameters, set_gradients):
    """A checkpoint that holds the tensors sees their later values; shapes never change."""
    ps = parameters()
    clipper = build_clipper(recipe(method), ps)
    before = {name: (value, value.shape) for name, value in clipper.state_dict().items()}
    run(clipper, ps, set_gradients, range(5))
    for name, value in clipper.state_dict().items():
        assert value is before[name][0]
        assert value.shape == before[name][1]


def test_a_foreign_history_is_refused(parameters):
    zclip = build_clipper(recipe("zclip"), parameters())
    adagc = build_clipper(recipe("adagc"), parameters())
    fewer = build_clipper(recipe("adagc"), parameters()[:2])
    with pytest.raises(UsageError, match=r"that of AdaGC \(gamma \(4,\), steps \(\)\)"):
        adagc.load_state_dict(zclip.state_dict())
    with pytest.raises(UsageError, match=r"resume with the optimizer\.clip of the run"):
        adagc.load_state_dict(fewer.state_dict())
    with pytest.raises(UsageError, match=r"\(nothing\)"):
        build_clipper(recipe("none"), parameters()).load_state_dict(zclip.state_dict())


@pytest.fixture
def like_a_device(monkeypatch):
    """Take the way of a device on a CPU."""
    for module in (tensors, agc):
        monkeypatch.setattr(module, "reads_are_free", lambda tensor: False)


def test_the_host_never_waits(method, counter, parameters, set_gradients, like_a_device):
    ps = parameters()
    clipper = build_clipper(recipe(method), ps)
    run(clipper, ps, set_gradients, range(102))
    for size in (1.0, 100.0):
        set_gradients(ps, 1, scale=size)
        norm = norm_of(ps)
        with counter() as count:
            clipper(norm, torch.tensor(2.0))
        assert not count.syncs


def test_nothing_needs_a_value(method):
    """Tensors that have none: whatever reads one, fails."""
    ps = [torch.nn.Parameter(torch.empty(s, device="meta")) for s in [(4, 3), (5,), ()]]
    clipper = build_clipper(recipe(method), ps)
    for p in ps:
        p.grad = torch.empty_like(p)
    norm = torch.empty((), device="meta")
    assert clipper(norm, torch.empty((), device="meta")).device.type == "meta"
    assert clipper(norm).shape == ()


@pytest.mark.parametrize("method", ["adagc", "agc"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_both_ways_give_the_same_bits(method, dtype, parameters, set_gradients, monkeypatch):
    """What saves passes over memory on a CPU changes no value."""
    plain, other = parameters(dtype), parameters(dtype)
    one = run(build_clipper(recipe(method), plain), plain, set_gradients, range(104))
    for module in (tensors, agc):
        monkeypatch.setattr(module, "reads_are_free", lambda tensor: False)
    two = run(build_clipper(recipe(method), other), other, set_gradients, range(104))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_a_loss_scale_changes_nothing(method, parameters, set_gradients):
    """Gradients that carry a power of two, another one at each step, and the norm without it."""
    plain, scaled = parameters(), parameters()
    one, two = build_clipper(recipe(method), plain), build_clipper(recipe(method), scaled)
    for step in range(110):
        size, scale = 30.0 if step == 105 else 1.0, 2.0 ** (step % 11)
        set_gradients(plain, step, scale=size)
        set_gradients(scaled, step, scale=size * scale)
        norm = norm_of(plain)
        assert torch.equal(one(norm), two(norm, torch.tensor(scale)))
        for p, q in zip(plain, scaled, strict=True):
            assert torch.equal(p.grad * scale, q.grad)


def test_missing_gradients_and_empty_tensors(method, set_gradients):
    """An expert that got no token, a module that is not used, a parameter without elements."""
    ps = [torch.nn.Parameter(torch.ones(s)) for s in [(4, 3), (0,), (5,), (), (0, 5, 5)]]
    clipper = build_clipper(recipe(method), ps)
    for step in range(110):
        set_gradients(ps, step)
        if step % 3 == 0:
            ps[2].grad = None
        factor = clipper(norm_of(ps))
        assert torch.isfinite(factor)
        assert all(p.grad.isfinite().all() for p in ps if p.grad is not None)
    for p in ps:
        p.grad = None
    assert clipper(torch.tensor(0.0)) == 1


def test_with_the_guard(method, parameters, set_gradients):
    """The fused update takes the factor in; a NaN step changes neither weights nor moments."""
    ps = parameters()
    optimizer = torch.optim.AdamW(ps, lr=0.1, fused=True)
    clipper = build_clipper(recipe(method), ps)
    for step in range(8):
        set_gradients(ps, step, scale=5.0)
        if step == 4:
            ps[0].grad[0, 0] = math.nan
        norm = norm_of(ps)
        before = copy.deepcopy((ps, optimizer.state_dict()))
        found_inf = (~norm.isfinite()).float()
        guarded_step(optimizer, found_inf=found_inf, grad_divisor=1 / clipper(norm))
        same = all(torch.equal(a, b) for a, b in zip(ps, before[0], strict=True))
        assert same == (step == 4)
        moments = optimizer.state_dict()["state"][0]["exp_avg"]
        assert moments.isfinite().all()
        if step == 4:
            assert torch.equal(moments, before[1]["state"][0]["exp_avg"])
