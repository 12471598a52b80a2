"""Skipping against a plain list in float64; that it never locks up; that no trace is left."""

import copy
import math
import statistics

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.errors import UsageError
from surefoot.optim import StableAdamW, guarded_step
from surefoot.optim.skip import SpikeSkip

CALM = 2.0


def reference(steps, *, window=128, sigmas=6.0, most=None, skipped_enter=False, above=None):
    """[(loss, norm)] -> decisions; lists instead of rings."""
    most = max(4, window // 8) if most is None else most
    seen, flags, out = [], [], []
    for step in steps:
        if not all(map(math.isfinite, step)):
            out.append(1)
            continue
        skip = False
        if len(seen) >= window // 2:
            for i, value in enumerate(step):
                past = [entry[i] for entry in seen[-window:]]
                mean = statistics.fmean(past)
                limit = mean + sigmas * max(statistics.stdev(past), 1e-6 * abs(mean))
                if i == 0 and above is not None:
                    limit = min(limit, above)
                skip = skip or value > limit
        if skipped_enter or not skip:
            seen.append(step)
        flags = [*flags, skip][-window:]
        if sum(flags) >= most:
            seen, flags = [], []
        out.append(int(skip))
    return out


def run(skipping, steps):
    found = []
    for loss, norm in steps:
        skip = skipping.skip(torch.tensor(loss), torch.tensor(norm))
        assert skip.shape == ()
        assert skip.dtype == torch.float32
        found.append(int(skip))
    return found


def stream(seed, steps):
    """Pairs of float32 with spikes of each, falls, bursts, shifts, NaN and inf."""
    rng = np.random.default_rng(seed)
    loss = 3 + np.cumsum(rng.normal(0, 0.01, steps)) + rng.normal(0, 0.05, steps)
    norm = rng.lognormal(-1, 0.2, steps)
    loss[rng.random(steps) < 0.02] += 3
    norm[rng.random(steps) < 0.02] *= 20
    loss[rng.random(steps) < 0.02] -= 2
    start = steps // 2
    norm[start : start + 8] *= 30
    loss[start + 40 :] += 2
    loss[rng.random(steps) < 0.02] = np.nan
    norm[rng.random(steps) < 0.02] = np.inf
    return [(float(a), float(b)) for a, b in zip(loss.astype("f4"), norm.astype("f4"), strict=True)]


OPTIONS = [
    {},
    {"window": 32},
    {"window": 32, "skipped_enter": True},
    {"window": 32, "most": 2},
    {"window": 20, "sigmas": 3.0, "above": 3.2},
    {"window": 5, "sigmas": 4.0},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_is_the_rule(options, seed):
    steps = stream(seed, 360)
    decisions = run(SpikeSkip(**options), steps)
    assert decisions == reference(steps, **options)
    finite = [d for d, s in zip(decisions, steps, strict=True) if all(map(math.isfinite, s))]
    assert sum(finite) > 3  # it does skip here


def calm(n, seed=0, spread=0.01):
    rng = np.random.default_rng(seed)
    return [(CALM + spread * a, 1 + spread * b) for a, b in rng.normal(0, 1, (n, 2)).tolist()]


def test_a_spike_of_either_is_skipped_and_a_fall_is_not():
    """The older public code judged |z|: a sudden fall of the loss was skipped too."""
    skipping = SpikeSkip()
    run(skipping, calm(128))
    assert run(skipping, [(CALM + 1, 1.0)]) == [1]
    assert run(skipping, [(CALM, 2.0)]) == [1]
    assert run(skipping, [(CALM - 1, 1.0)]) == [0]
    assert run(skipping, [(CALM, 0.1)]) == [0]


def test_nothing_is_judged_before_half_a_window():
    for before, wanted in ((63, 0), (64, 1)):
        skipping = SpikeSkip()
        run(skipping, calm(before))
        assert run(skipping, [(100.0, 100.0)]) == [wanted]
        assert torch.isinf(skipping.limits).all() == (before < 64)


def test_the_step_is_judged_by_those_before_it():
    """Among n values no score exceeds (n - 1) / sqrt(n): 5.9 of 37, its own included."""
    skipping = SpikeSkip(window=36)
    run(skipping, calm(36))
    assert run(skipping, [(1e6, 1.0)]) == [1]


def test_bessel_s_deviation():
    skipping = SpikeSkip(window=4, sigmas=2.0)
    run(skipping, [(float(v), 0.0) for v in (5, 4, 2, 1)])
    run(skipping, [(3.0, 0.0)])
    assert skipping.limits[0] == pytest.approx(3 + 2 * math.sqrt(10 / 3), rel=1e-6)


def test_a_skipped_value_does_not_widen_the_bounds():
    """With the public code's choice the second of two spikes passes; a window of steps long."""
    for enters, wanted in ((False, 1), (True, 0)):
        skipping = SpikeSkip(skipped_enter=enters)
        run(skipping, calm(128))
        assert run(skipping, [(12.0, 1.0)]) == [1]
        run(skipping, calm(20, seed=1))
        assert run(skipping, [(7.0, 1.0)]) == [wanted]


def test_a_level_that_rises_for_good_is_accepted():
    skipping = SpikeSkip()
    run(skipping, calm(200))
    decisions = run(skipping, [(loss + 1, norm) for loss, norm in calm(300, seed=1)])
    assert decisions == [1] * 16 + [0] * 284
    # and the new level is watched as the old one was
    assert run(skipping, [(CALM + 2, 1.0)]) == [1]


def test_spikes_at_every_second_step_are_accepted():
    """No run of skips is long here, and half of all steps would be left out for ever."""
    skipping = SpikeSkip()
    run(skipping, calm(128))
    steps = [(CALM + i % 2, 1.0) for i in range(400)]
    decisions = run(skipping, steps)
    assert sum(decisions) == 16
    assert not any(decisions[40:])


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sampled_from([1.0, 1.01, 1.02, 3.0, 100.0, 1e30, 3e38, math.nan]), min_size=40),
    st.booleans(),
    st.sampled_from([None, 0.5, 2.0]),
)
def test_it_never_locks_up(values, enters, above):
    """Of any window/2 finite steps at most `most` are left out, whatever comes."""
    skipping = SpikeSkip(window=16, most=4, skipped_enter=enters, above=above)
    decisions = run(skipping, [(v, v) for v in values * 3])
    finite = [d for d, v in zip(decisions, values * 3, strict=True) if math.isfinite(v)]
    for start in range(len(finite)):
        assert sum(finite[start : start + 8]) <= 4
    assert skipping.values.isfinite().all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("before", [0, 10, 200])
def test_not_finite_is_skipped_and_leaves_no_trace(bad, before):
    skipping = SpikeSkip()
    run(skipping, calm(before))
    state = copy.deepcopy(skipping.state_dict())
    assert run(skipping, [(bad, 1.0), (CALM, bad), (bad, bad)] * 100) == [1] * 300
    for name, value in skipping.state_dict().items():
        assert torch.equal(value, state[name])
    if before == 200:
        assert run(skipping, [(CALM + 1, 1.0)]) == [1]  # the spike behind a NaN is still found


def test_rounding_in_a_constant_series_is_no_spike():
    skipping = SpikeSkip()
    run(skipping, [(CALM, 1.0)] * 100)
    assert run(skipping, [(float(np.nextafter(np.float32(CALM), np.float32(9))), 1.0)]) == [0]
    assert run(skipping, [(CALM * 1.0001, 1.0)]) == [1]


def test_the_loss_threshold():
    skipping = SpikeSkip(above=2.5)
    # A fresh run starts above it: no judging yet, then `most` skips, then it is let go on.
    assert run(skipping, [(9.0, 1.0)] * 100) == [0] * 64 + [1] * 16 + [0] * 20
    skipping = SpikeSkip(above=2.5)
    run(skipping, [(2.0 + i % 2, 1.0) for i in range(64)])
    assert skipping.limits[0] == math.inf
    assert run(skipping, [(2.4, 1.0), (2.6, 1.0)]) == [0, 1]  # within 6 sigmas both
    assert skipping.limits[0] == 2.5
    skipping = SpikeSkip(above=2.5)
    assert (
        run(skipping, [(2.0 + i % 2 / 10, 5.0 + i % 2) for i in range(100)]) == [0] * 100
    )  # norms


def test_values_whose_squares_overflow_are_judged():
    skipping = SpikeSkip(window=16)
    run(skipping, [(loss, 1e25 * norm) for loss, norm in calm(16)])
    assert run(skipping, [(CALM, 1.01e25), (CALM, 2e25)]) == [0, 1]


def test_the_evidence_is_kept():
    skipping = SpikeSkip()
    steps = calm(100)
    run(skipping, steps)
    run(skipping, [(50.0, 1.0)])
    losses = [loss for loss, _ in steps]
    wanted = statistics.fmean(losses) + 6 * statistics.stdev(losses)
    assert float(skipping.limits[0]) == pytest.approx(wanted, rel=1e-6)


def test_state_round_trips_in_mid_window(tmp_path):
    steps = stream(5, 400)
    for at in (30, 100, 210):
        first = SpikeSkip()
        run(first, steps[:at])
        torch.save(first.state_dict(), tmp_path / "state")
        second = SpikeSkip()
        second.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
        assert run(first, steps[at:]) == run(second, steps[at:])
        assert second.state_dict()["values"] is second.values


def test_another_state_is_refused():
    small = SpikeSkip(window=64)
    with pytest.raises(UsageError, match=r"has 128 steps, optimizer\.skip_window = 64: resume"):
        small.load_state_dict(SpikeSkip().state_dict())
    with pytest.raises(UsageError, match="expected values, count, left_out, steps, got nothing"):
        small.load_state_dict({})
    with pytest.raises(UsageError, match="got mean"):
        small.load_state_dict({"mean": torch.zeros(())})


def test_bad_arguments():
    with pytest.raises(UsageError, match="window of 3 steps"):
        SpikeSkip(window=3)
    with pytest.raises(UsageError, match="most = 0 skips among 128 steps: use 1 to 128"):
        SpikeSkip(most=0)


def test_the_host_never_waits(counter):
    skipping = SpikeSkip(window=8, above=2.0)
    for step in range(6):
        loss, norm = torch.tensor(float(step)), torch.tensor(1.0)
        with counter() as count:
            skipping.skip(loss, norm)
        assert count.names
        assert not count.syncs
    nowhere = SpikeSkip(device="meta")
    value = torch.empty((), device="meta")
    assert nowhere.skip(value, value).device.type == "meta"


MAKERS = {
    "fused AdamW": lambda ps: torch.optim.AdamW(ps, lr=0.01, fused=True),
    "StableAdamW": lambda ps: StableAdamW(ps, lr=0.01),
    "SGD": lambda ps: torch.optim.SGD(ps, lr=0.01, momentum=0.9),
}


def everything(optimizer):
    state = optimizer.state_dict()["state"]
    kept = [p.detach() for group in optimizer.param_groups for p in group["params"]]
    kept += [v for values in state.values() for v in values.values() if v is not None]
    return [v.clone().numpy().tobytes() for v in kept]


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("bad", [50.0, math.nan, math.inf])
def test_a_skipped_update_changes_no_bit(name, bad, parameters, set_gradients):
    """Multiplying the update by 0 would let a NaN through, and decay weights and moments."""
    ps = parameters()
    optimizer, skipping = MAKERS[name](ps), SpikeSkip(window=8)
    for step in range(20):
        set_gradients(ps, step, scale=1 + 0.01 * (step % 3))
        spike = step in (12, 13, 17)
        if spike:
            for p in ps:
                p.grad *= bad
        norm = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in ps]))
        loss = torch.tensor(2.0 + 0.01 * (step % 3))
        before = everything(optimizer)
        skip = skipping.skip(loss, norm)
        guarded_step(optimizer, found_inf=skip, grad_divisor=torch.tensor(2.0))
        assert int(skip) == spike
        assert (everything(optimizer) == before) == spike
