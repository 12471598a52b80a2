"""Random generators go on where they were."""

import random

import pytest
import torch

from surefoot.checkpoint import capture_random, restore_random
from surefoot.errors import CheckpointError


@pytest.fixture(autouse=True)
def generators():
    python, cpu = random.getstate(), torch.get_rng_state()
    yield
    random.setstate(python)
    torch.set_rng_state(cpu)


def draw():
    return [random.random(), random.gauss(0, 1), torch.rand(3).tolist(), torch.randn(3).tolist()]


@pytest.mark.parametrize("kept_back", [False, True])
def test_the_same_numbers_follow(store, kept_back):
    random.seed(3)
    torch.manual_seed(4)
    if kept_back:
        random.gauss(0, 1)  # makes two deviates and keeps one for the next call
    states = capture_random()
    assert all(state.dtype is torch.uint8 for state in states.values())
    store.save(1, states, {})
    expected = draw()
    random.seed(5)
    torch.manual_seed(6)
    random.gauss(0, 1)
    into = capture_random()
    store.load(1, into)
    restore_random(into)
    assert draw() == expected


def test_captured_states_are_copies():
    states = capture_random()
    before = {name: state.clone() for name, state in states.items()}
    draw()
    assert all(torch.equal(states[name], before[name]) for name in states)


def test_what_is_no_state_is_refused():
    states = capture_random()
    with pytest.raises(CheckpointError, match=r"random\.rank0\.torch is missing"):
        restore_random({"random.rank0.python": states["random.rank0.python"]})
    for name in ("random.rank0.python", "random.rank0.torch"):
        with pytest.raises(CheckpointError, match="no state of a generator"):
            restore_random({**states, name: states[name][:-8]})
