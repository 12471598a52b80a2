"""Synthetic faults lie where their truth says, and nowhere else."""

import numpy as np
import pytest

from surefoot.testing.curves import VOCABULARY
from surefoot.testing.planted import AFTER, FAULTS, NAN_BEFORE, SURVIVAL, plant, survival


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_the_curve_is_healthy_up_to_the_injection_and_ends_when_it_should(kind):
    case = plant(kind, rng(), seed=4)
    truth, fault = case.truth, FAULTS[kind]
    assert truth.injection_step == truth.manifest_step == fault.at
    assert truth.steps == fault.at - 1 + AFTER == sum(1 for _ in case.records())
    assert np.isfinite(case.columns["loss"][: fault.at - 1]).all()
    assert truth.faulty
    assert truth.case.endswith("#4")


def difference(kind):
    """Loss of the faulty curve less that of the same curve without the fault."""
    case = plant(kind, rng())
    # The same draws, the fault left out.
    plain = plant("one NaN", rng()) if FAULTS[kind].noise == 0.03 else None
    assert plain is not None
    return case.columns["loss"] - plain.columns["loss"], FAULTS[kind].at


@pytest.mark.parametrize(
    ("kind", "at_onset", "later"),
    [("spike +0.6", 0.6, 0.0), ("step +0.3", 0.3, 0.3), ("climb +0.4 in 800", 0.0, 0.4)],
)
def test_the_size_of_a_fault_is_its_name(kind, at_onset, later):
    above, at = difference(kind)
    assert above[at - 2] == 0.0
    assert np.isnan(above[at - 1])  # the plain curve's one NaN
    assert above[at] == pytest.approx(at_onset, abs=0.06)
    assert above[-1] == pytest.approx(later, abs=1e-9)


def test_recovered_is_what_the_curve_does():
    for kind, fault in FAULTS.items():
        loss = plant(kind, rng()).columns["loss"]
        if fault.recovered:
            before = np.mean(loss[max(0, fault.at - 101) : fault.at - 1])
            assert np.mean(loss[-100:]) < before, kind


def test_nan_for_good_and_once():
    lasting = plant("NaN for good", rng()).columns["loss"]
    assert np.isnan(lasting).sum() == AFTER
    assert np.isnan(plant("one NaN", rng()).columns["grad_norm"]).sum() == 1


def test_no_loss_is_absurd():
    worst = max(np.nanmax(plant(kind, rng()).columns["loss"]) for kind in FAULTS)
    assert worst <= 2 * np.log(VOCABULARY)


def test_the_survival_pair_differs_in_one_nan_only():
    plain, nan = (survival(rng(), nan=nan).columns for nan in (False, True))
    for name in ("loss", "grad_norm", "update_rms"):
        where = np.flatnonzero(np.isnan(nan[name]))
        assert where.tolist() == [SURVIVAL.at - NAN_BEFORE - 1]
        kept = np.delete(np.arange(len(nan[name])), where)
        assert np.array_equal(plain[name][kept], nan[name][kept])


def test_an_unknown_kind_is_refused_with_those_that_exist():
    with pytest.raises(ValueError, match=r"no synthetic fault 'x'; known: spike \+0\.6"):
        plant("x", rng())
