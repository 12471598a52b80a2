"""Signals that nobody knows the healthy range of change nothing that the detector says."""

import math

import numpy as np
import pytest

from surefoot.detect import SpikeDetector
from surefoot.detect.bank import SignalBank
from surefoot.detect.transforms import KINDS, NOT_FOLLOWED, kind_of
from surefoot.records import CATALOGUE, StepRecord

PLACES = ("embedding.weight", "layers.0.attention.wq.weight", "layers.1.norm.weight")


def _records(wild):
    """A run with one spike, with or without the signals in question taking every course."""
    noise = np.random.default_rng(5)
    for step in range(1, 401):
        jump = 3.0 if 300 <= step < 305 else 0.0
        values = {
            "loss": 4.0 - 0.002 * step + 0.02 * noise.standard_normal() + jump,
            "grad_norm": float(np.exp(0.1 * noise.standard_normal() + jump)),
            "learning_rate": 1e-3,
            "adam_rms": float(np.exp(0.03 * noise.standard_normal())),
        }
        places = {"grad_norm": np.exp(0.1 * noise.standard_normal(3)).astype(np.float32)}
        if wild:
            course = [0.0, math.nan, math.inf, 1e30, 0.3][step // 50 % 5] if step > 200 else 0.3
            for name in NOT_FOLLOWED:
                values[name] = course
                places[name] = np.full(3, course, np.float32)
        yield StepRecord(step=step, attempt=0, values=values, places=places)


@pytest.fixture(scope="module")
def said():
    """All verdicts of the detector, without and with them."""
    found = []
    for wild in (False, True):
        detector = SpikeDetector(vocab_size=512, places={"grad_norm": PLACES})
        verdicts = [detector.update(record) for record in _records(wild)]
        found.append([*verdicts, detector.finish()])
    return found


def test_the_verdicts_are_the_same(said):
    without, with_them = said
    assert with_them == without
    assert any(v.findings for v in without[:-1])  # the spike: there is something to change


def test_the_bank_does_not_know_them():
    banks = [SignalBank({name: PLACES for name in ("grad_norm", *NOT_FOLLOWED)}) for _ in range(2)]
    for bank, wild in zip(banks, (False, True), strict=True):
        for record in _records(wild):
            bank.update(record)
    first, second = (bank.state_dict() for bank in banks)
    assert first == second


def test_each_signal_of_a_model_is_followed_or_left_out_on_purpose():
    """What the catalogue gains must be decided; the others are no measurements of the model."""
    others = {
        "loss", "validation_loss", "learning_rate", "loss_scale", "update_skipped", "batch_size",
        "tokens", "consumed_samples", "consumed_tokens", "data_phase", "step_time",
        "tokens_per_second", "memory",
    }  # fmt: skip
    assert {*KINDS} | NOT_FOLLOWED | others == {*CATALOGUE}
    assert not {*KINDS} & NOT_FOLLOWED
    assert all(kind_of(name) is None for name in NOT_FOLLOWED)
    assert all(kind_of(f"{name}@layers.0") is None for name in NOT_FOLLOWED)
