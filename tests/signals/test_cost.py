"""What measuring costs, counted: calls, syncs and bytes, not seconds."""

import pytest
import torch
from torch import nn

from surefoot.signals import Meter, parameters


@pytest.fixture
def large():
    """2.1 million weights in 42 parameters, and their optimizer."""
    model = nn.Sequential(*(nn.Linear(320, 320) for _ in range(21)))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)


def _steps(model, optimizer, meter, count, steps):
    """Counts of the meter's own work at each of ``steps``."""
    found = {}
    for step in steps:
        optimizer.zero_grad()
        model(torch.randn(2, 320)).square().mean().backward()
        sums = {"cross_entropy": torch.tensor(2.0), "tokens": torch.tensor(1.0)}
        with count() as before:
            norms = meter.norms(step)
        optimizer.step()
        with count() as after:
            meter.after_update(step)
            values = {"clip_factor": norms.total, "update_skipped": norms.found_inf, "tokens": 1}
            meter.record(step, 0, values, sums=sums)
        found[step] = (before, after)
    return found


def test_no_step_reads_a_value_from_the_device(large, count):
    model, optimizer = large
    meter = Meter(model, optimizer, sample_every=2)
    for before, after in _steps(model, optimizer, meter, count, range(1, 6)).values():
        for name in ("_local_scalar_dense", "item", "nonzero", "is_nonzero", "equal"):
            assert before.calls[name] == after.calls[name] == 0


def test_gradients_and_parameters_are_passed_over_once_by_one_fused_call(large, count):
    model, optimizer = large
    meter = Meter(model, optimizer, sample_every=10)
    steps = _steps(model, optimizer, meter, count, range(1, 5))
    for step in (2, 3, 4):
        before, after = steps[step]
        assert before.calls["_foreach_norm"] == after.calls["_foreach_norm"] == 1
        # Nothing else is done to single parameters: one call more for each would be 42.
        views = {"view", "split", "detach", "slice"}
        assert sum(n for name, n in before.calls.items() if name not in views) <= 10
        assert sum(n for name, n in after.calls.items() if name not in views) <= 16


def test_the_number_of_calls_does_not_grow_with_the_number_of_small_parameters(count):
    totals = []
    for layers in (2, 20):
        model = nn.Sequential(nn.Linear(320, 320, bias=False))
        model.extend([nn.LayerNorm(320) for _ in range(layers)])
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        before, after = _steps(model, optimizer, Meter(model, optimizer), count, (2,))[2]
        totals.append((before.total, after.total))
    assert totals[0] == totals[1]


def test_a_step_takes_only_a_few_numbers_of_memory(large, count):
    model, optimizer = large
    meter = Meter(model, optimizer, sample_every=10)
    before, after = _steps(model, optimizer, meter, count, (1, 2))[2]
    chunks = sum(parameters.Parameters(model).counts)
    assert before.bytes + after.bytes < 64 * chunks


def test_a_sampled_step_takes_two_scratches_however_many_parameters_there_are(large, count):
    model, optimizer = large
    meter = Meter(model, optimizer, sample_every=2)
    steps = _steps(model, optimizer, meter, count, (1, 2, 4))
    scratch = 2 * 4 * parameters.CHUNK_ON_CPU
    assert scratch <= steps[1][1].bytes < scratch + 64_000
    for step in (2, 4):  # the scratch is there by now
        assert sum(c.bytes for c in steps[step]) < 64_000
    assert sum(p.nbytes for p in model.parameters()) > 15 * scratch


def test_the_scratch_is_no_larger_than_the_largest_parameter(toy, backward, count):
    optimizer = torch.optim.AdamW(toy.parameters(), fused=True)
    meter = Meter(toy, optimizer)
    backward(toy)
    meter.norms(1)
    optimizer.step()
    with count() as counted:
        meter.after_update(1)
    assert counted.bytes < 4_000


def test_moments_that_are_not_float32_are_copied_a_chunk_at_a_time(count, monkeypatch):
    monkeypatch.setattr(parameters, "CHUNK_ON_CPU", 1000)
    model = nn.Linear(100, 100, bias=False).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    meter = Meter(model, optimizer, sample_every=1)
    model(torch.randn(2, 100).to(torch.bfloat16)).square().mean().backward()
    for step in (1, 2):
        meter.norms(step)
        optimizer.step()
        if step == 1:
            meter.after_update(step)  # the scratches are there by now
            meter.record(step, 0, {})
    largest = []

    class Largest(count):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            before = self.bytes
            result = super().__torch_dispatch__(func, types, args, kwargs)
            largest.append(self.bytes - before)
            return result

    with Largest():
        meter.after_update(2)
    assert max(largest) == 4 * 1000


def test_a_chunk_of_the_state_is_passed_over_this_often(count):
    """What a sampled step costs; docs/how-to/watch-adam.md states it."""
    totals = []
    for width in (256, 512):  # one chunk, two chunks
        model = nn.Linear(256, width, bias=False)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        _, after = _step_of(model, optimizer, Meter(model, optimizer), count)
        views = {"view", "split", "detach", "slice", "alias", "unbind"}
        totals.append(sum(n for name, n in after.calls.items() if name not in views))
    # Two of them are of single numbers.
    assert totals[1] - totals[0] == 29


def _step_of(model, optimizer, meter, count):
    model(torch.randn(2, 256)).square().mean().backward()
    with count() as before:
        meter.norms(1)
    optimizer.step()
    with count() as after:
        meter.after_update(1)
    return before, after
