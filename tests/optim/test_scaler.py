import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.optim import LossScaler, scaler

YES, NO = torch.tensor(1.0), torch.tensor(0.0)


@settings(deadline=None, max_examples=40)
@given(bad=st.lists(st.integers(0, 60), max_size=12), interval=st.integers(1, 9))
def test_against_plain_arithmetic(bad, interval):
    before, scaler.INTERVAL = scaler.INTERVAL, interval
    try:
        ours = LossScaler(64.0)
        scale, good = 64.0, 0
        for step in range(60):
            ours.update(YES if step in bad else NO)
            if step in bad:
                scale, good = max(1.0, scale / 2), 0
            else:
                good += 1
                if good == interval:
                    scale, good = scale * 2, 0
            assert ours.scale.item() == scale
    finally:
        scaler.INTERVAL = before


def test_defaults_are_those_of_torch():
    theirs = torch.amp.GradScaler("cpu")
    ours = (scaler.GROWTH, scaler.BACKOFF, scaler.INTERVAL)
    assert ours == (
        theirs.get_growth_factor(), theirs.get_backoff_factor(), theirs.get_growth_interval()
    )  # fmt: skip


def test_floor_and_ceiling():
    ours = LossScaler(4.0)
    for _ in range(10):
        ours.update(YES)
    assert ours.scale == 1
    top = LossScaler(2.0**127)
    for _ in range(scaler.INTERVAL):
        top.update(NO)
    assert top.scale.isfinite()


def test_state_continues_mid_interval():
    one = LossScaler(64.0)
    for _ in range(scaler.INTERVAL - 1):
        one.update(NO)
    two = LossScaler(1.0)
    kept = two.scale
    two.load_state_dict({name: value.clone() for name, value in one.state_dict().items()})
    for s in (one, two):
        s.update(NO)
    assert one.scale == two.scale == 128
    assert two.scale is kept  # updated in place, so a holder of the tensor sees it


def test_state_needs_every_part():
    with pytest.raises(KeyError):
        LossScaler(1.0).load_state_dict({"scale": torch.tensor(1.0)})


def test_no_sync(counter):
    ours = LossScaler(64.0)
    with counter() as count:
        ours.update(NO)
        ours.update(YES)
    assert count.names
    assert not count.syncs
