"""Records come one step late, with exact integers and float32 numbers, under catalogued names."""

import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from surefoot.records import CATALOGUE, StepRecord
from surefoot.signals import LossSums, Meter, loss_values, peak_memory


@pytest.fixture
def meter(toy):
    return Meter(toy, torch.optim.AdamW(toy.parameters(), lr=1e-2), sample_every=2)


def _sums(**changed):
    sums = {
        "cross_entropy": torch.tensor(30.0),
        "tokens": torch.tensor(12.0),
        "log_z": torch.tensor(-6.0),
        "log_z_squared": torch.tensor(48.0),
        "log_z_abs_max": torch.tensor(5.5),
    }
    return sums | changed


def test_each_call_returns_the_record_of_the_step_before(meter):
    assert meter.record(1, 0, {"loss": torch.tensor(3.0)}) is None
    first = meter.record(2, 0, {"loss": torch.tensor(2.0)})
    second = meter.record(3, 1, {"loss": torch.tensor(1.0)})
    third = meter.flush()
    assert [r.step for r in (first, second, third)] == [1, 2, 3]
    assert [r.attempt for r in (first, second, third)] == [0, 0, 1]
    # What was handed out is not overwritten by what comes later.
    assert [r.values["loss"] for r in (first, second, third)] == [3.0, 2.0, 1.0]
    assert meter.flush() is None
    assert meter.record(4, 1, {}) is None


def test_a_record_handed_out_keeps_its_places(toy, backward, meter):
    records = []
    for step in (1, 2):
        toy.zero_grad()
        backward(toy)
        meter.norms(step)
        meter.after_update(step)
        records.append(meter.record(step, 0, {}))
    kept = records[1].places["grad_norm"].copy()
    meter.flush()
    np.testing.assert_array_equal(records[1].places["grad_norm"], kept)


def test_host_integers_stay_exact_and_device_integers_become_int(meter):
    consumed = 10**12 + 1
    meter.record(
        1, 0, {"consumed_tokens": consumed, "tokens": 7, "update_skipped": torch.tensor(1.0)}
    )
    values = meter.flush().values
    assert values == {"consumed_tokens": consumed, "tokens": 7, "update_skipped": 1}
    assert all(type(value) is int for value in values.values())


def test_every_other_value_is_a_float32_number(meter):
    meter.record(
        1, 0,
        {"learning_rate": 0.1, "memory": 123456789, "loss": torch.tensor(0.1, dtype=torch.float64)},
    )  # fmt: skip
    values = meter.flush().values
    expected = {"learning_rate": 0.1, "memory": 123456789, "loss": 0.1}
    assert values == {name: float(np.float32(value)) for name, value in expected.items()}
    assert all(type(value) is float for value in values.values())


def test_values_that_are_not_finite_arrive_as_they_are(meter):
    meter.record(1, 0, {"loss": torch.tensor(math.nan), "clip_factor": -math.inf})
    values = meter.flush().values
    assert math.isnan(values["loss"])
    assert values["clip_factor"] == -math.inf


def test_a_value_of_the_caller_replaces_the_one_measured(toy, backward, meter):
    backward(toy)
    meter.norms(1)
    meter.record(1, 0, {"grad_norm": torch.tensor(77.0)})
    assert meter.flush().values["grad_norm"] == 77.0


def test_the_record_of_another_step_than_was_measured_is_refused(toy, backward, meter):
    backward(toy)
    meter.norms(1)
    with pytest.raises(ValueError, match="step 1 was measured, got the record of step 2"):
        meter.record(2, 0, {})


def test_an_update_that_was_not_begun_is_refused(meter):
    with pytest.raises(ValueError, match="after_update of step 1 before its norms"):
        meter.after_update(1)


def test_loss_sums_become_means_and_the_maximum(meter):
    meter.record(1, 0, {}, sums=_sums())
    assert meter.flush().values == {
        "loss": 2.5, "log_z": -0.5, "z_loss": 4.0, "log_z_abs_max": 5.5
    }  # fmt: skip


def test_loss_sums_may_be_an_object_with_those_names(meter):
    class Sums:
        cross_entropy, tokens = torch.tensor(30.0), torch.tensor(12)
        log_z, log_z_squared = torch.tensor(-6.0), torch.tensor(48.0)
        log_z_abs_max = torch.tensor(5.5)

    sums: LossSums = Sums()
    meter.record(1, 0, {}, sums=sums)
    assert meter.flush().values["loss"] == 2.5


def test_token_counts_beyond_float32_stay_exact(meter):
    tokens = 2**24 + 1
    sums = {"cross_entropy": torch.tensor(float(2 * tokens), dtype=torch.float64)}
    meter.record(1, 0, {}, sums=sums | {"tokens": torch.tensor(tokens)})
    arrays, _ = meter._mailbox.receive()
    assert arrays["sums"].tolist() == [2.0 * tokens, tokens]


def test_a_batch_without_counted_tokens_has_no_loss():
    values = loss_values({"cross_entropy": 0.0, "tokens": 0.0, "log_z_abs_max": 0.0})
    assert math.isnan(values["loss"])
    assert values["log_z_abs_max"] == 0


def test_unknown_loss_sums_are_refused(meter):
    with pytest.raises(ValueError, match=r"unknown loss sums \['crossentropy'\]"):
        meter.record(1, 0, {}, sums={"crossentropy": torch.tensor(1.0)})


def test_attention_maxima_have_the_layers_as_places(toy):
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])

        def measure_attention_logits(self) -> None: ...

    model = Model()
    meter = Meter(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert meter.places["attention_logit_max"] == ("layers.0", "layers.1", "layers.2")
    meter.record(1, 0, {}, sums=_sums(), attention=torch.tensor([3.0, 9.0, 1.0]))
    record = meter.record(2, 0, {}, attention=torch.tensor([0.0, 1.0, 2.0]))
    assert record.places["attention_logit_max"].tolist() == [3.0, 9.0, 1.0]
    assert record.values["attention_logit_max"] == 9.0
    assert record.values["log_z_abs_max"] == 5.5
    assert meter.flush().values == {"attention_logit_max": 2.0}


def test_all_names_are_catalogued_and_all_places_have_names(toy, backward, meter):
    backward(toy)
    found_inf = meter.norms(1).found_inf
    meter.after_update(1)
    meter.record(1, 0, {"update_skipped": found_inf}, sums=_sums())
    record = meter.flush()
    assert isinstance(record, StepRecord)
    assert {*record.values, *record.places} <= CATALOGUE.keys()
    for name, place in record.places.items():
        assert CATALOGUE[name].per_place
        assert place.dtype == np.float32
        assert place.shape == (len(meter.places[name]),)


def test_growing_messages_are_kept_whole(meter):
    for step in range(1, 6):
        meter.record(step, 0, {f"x{i}": torch.tensor(float(i * step)) for i in range(4**step)})
        values = meter.flush().values
        assert values == {f"x{i}": float(i * step) for i in range(4**step)}


@pytest.mark.skipif(sys.platform != "linux", reason="compares with Linux's /proc")
def test_peak_memory_is_the_largest_resident_set_in_bytes():
    held = bytearray(2**26)
    held[::4096] = b"x" * len(held[::4096])
    found = peak_memory(torch.device("cpu"))
    status = Path("/proc/self/status").read_text()
    expected = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024
    assert found == pytest.approx(expected, rel=0.01)
