"""Watching any loop: right numbers under schedulers, clipping, scalers, closures and wrappers."""

import json
import math

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import surefoot
from surefoot.detect import LossDetector
from surefoot.errors import UsageError
from surefoot.protocols import Detector
from surefoot.signals import Meter
from surefoot.watching import Watch, watch


@pytest.fixture
def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def _grad_norm(model):
    return float(torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]))


def test_the_five_line_loop(model, optimizer, loss_of):
    """As in the documentation, with the real detector: NaN is found, and found one step late."""
    watching = surefoot.watch(model, optimizer)
    assert isinstance(watching, Watch)
    codes = []
    for step in range(1, 31):
        loss = loss_of(model)
        if step == 25:
            loss = loss * math.nan
        loss.backward()
        if step == 25:
            for p in model.parameters():
                p.grad.nan_to_num_()  # keeps the model alive, as a careful loop would
        optimizer.step()
        watching.loss(loss)
        verdict = watching.step()
        optimizer.zero_grad()
        assert verdict.step == step - 1
        codes += [(step, finding.code) for finding in verdict.findings]
    assert codes == [(26, "SPK004")]
    assert isinstance(LossDetector(), Detector)


def test_records_hold_what_the_loop_did(model, optimizer, loss_of, recorder):
    watching = watch(model, optimizer, detector=recorder, sample_every=2)
    assert watching.verdict.status == "warming_up"
    expected = []
    for _ in range(4):
        loss = loss_of(model)
        loss.backward()
        norm = _grad_norm(model)
        old = [p.detach().double().clone() for p in model.parameters()]
        optimizer.step()
        change = sum(
            float((p.detach().double() - o).square().sum())
            for p, o in zip(model.parameters(), old, strict=True)
        )
        watching.loss(loss)
        watching.step()
        optimizer.zero_grad()
        expected.append((float(loss.detach()), norm, math.sqrt(change)))
    assert recorder.seen == 3
    findings = watching.finish()
    assert [f.code for f in findings] == ["SPK000"]
    for step, (record, (loss, norm, change)) in enumerate(
        zip(recorder.records, expected, strict=True), start=1
    ):
        assert record.step == step
        assert record.values["loss"] == pytest.approx(loss, rel=1e-6)
        assert record.values["grad_norm"] == pytest.approx(norm, rel=1e-6)
        assert record.values["learning_rate"] == pytest.approx(1e-2)
        assert record.values["update_skipped"] == 0
        assert record.values["memory"] > 1e7
        assert ("step_time" in record.values) == (step > 1)
        if step in (1, 2, 4):
            weights = sum(p.numel() for p in model.parameters())
            rms = record.values["update_rms"] * math.sqrt(weights)
            assert rms == pytest.approx(change, rel=1e-4)
    assert watching.places["grad_norm"] == tuple(n for n, _ in model.named_parameters())
    assert watching.record is recorder.records[-1]


def test_it_measures_what_the_meter_measures(model, loss_of, recorder):
    """One implementation, two callers."""
    twin = torch.nn.Sequential(*model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    meter = Meter(twin, optimizer, sample_every=3)
    watching = watch(model, optimizer, detector=recorder, sample_every=3)
    records = []
    for step in range(1, 8):
        loss_of(model).backward()
        meter.norms(step)
        optimizer.step()
        meter.after_update(step)
        records.append(meter.record(step, 0, {}))
        watching.step()
        optimizer.zero_grad()
    for mine, theirs in zip(records[1:], recorder.records, strict=True):
        assert mine.values.items() <= theirs.values.items()
        for name, place in mine.places.items():
            np.testing.assert_array_equal(place, theirs.places[name])


def test_the_learning_rate_is_the_one_used_although_a_scheduler_went_on(
    model, optimizer, loss_of, recorder
):
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))
    watching = watch(model, optimizer, detector=recorder)
    for _ in range(3):
        loss_of(model).backward()
        optimizer.step()
        scheduler.step()
        watching.step()
        optimizer.zero_grad()
    watching.finish()
    rates = [record.values["learning_rate"] for record in recorder.records]
    assert rates == pytest.approx([1e-2, 1e-2 / 2, 1e-2 / 3])


def test_a_learning_rate_that_is_a_tensor(model, loss_of, recorder):
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(3e-2), fused=True)
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))], "lr": 1e-3})
    watching = watch(model, optimizer, detector=recorder)
    loss_of(model).backward()
    optimizer.step()
    optimizer.param_groups[0]["lr"].fill_(9.0)
    watching.step()
    watching.finish()
    assert recorder.records[0].values["learning_rate"] == pytest.approx(3e-2)


def test_gradients_may_be_dropped_before_watch_step(model, optimizer, loss_of, recorder):
    watching = watch(model, optimizer, detector=recorder)
    loss_of(model).backward()
    norm = _grad_norm(model)
    optimizer.step()
    optimizer.zero_grad()
    watching.step()
    watching.finish()
    assert recorder.records[0].values["grad_norm"] == pytest.approx(norm, rel=1e-6)


def test_clipping_is_undone_in_the_norms_if_the_total_is_given(model, optimizer, loss_of, recorder):
    watching = watch(model, optimizer, detector=recorder)
    expected = []
    for given in (True, False, True):
        (loss_of(model) * 50).backward()
        raw = np.array([float(p.grad.norm()) for p in model.parameters()])
        total = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        watching.step(grad_norm=total if given else None)
        optimizer.zero_grad()
        factor = 1.0 if given else 1 / float(total)
        expected.append((float(total) * factor, raw * factor))
    watching.finish()
    for record, (total, places) in zip(recorder.records, expected, strict=True):
        assert record.values["grad_norm"] == pytest.approx(total, rel=1e-4)
        np.testing.assert_allclose(record.places["grad_norm"], places, rtol=1e-4)
    factors = [record.values.get("clip_factor") for record in recorder.records]
    assert factors[1] is None
    for factor, (total, _) in zip(factors[::2], expected[::2], strict=True):
        assert factor == pytest.approx(1 / total, rel=1e-4)


def test_losses_before_one_step_are_averaged_by_tokens(model, optimizer, loss_of, recorder):
    watching = watch(model, optimizer, detector=recorder)
    for pairs in ([(4.0, None), (1.0, None)], [(4.0, 30), (1.0, torch.tensor(10))], [(2.5, None)]):
        for loss, tokens in pairs:
            watching.loss(torch.tensor([loss]), tokens)
        loss_of(model).backward()
        optimizer.step()
        watching.step()
        optimizer.zero_grad()
    watching.loss(7.0)
    loss_of(model).backward()
    optimizer.step()
    watching.step()
    watching.finish()
    assert [r.values["loss"] for r in recorder.records] == [2.5, 3.25, 2.5, 7.0]


@pytest.mark.parametrize("fused", [True, False])
def test_a_gradient_scaler_that_leaves_out_steps(model, loss_of, recorder, fused):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    watching = watch(model, optimizer, detector=recorder, sample_every=1)
    norms = []
    for step in range(4):
        scaler.scale(loss_of(model)).backward()
        norms.append(_grad_norm(model) / scaler.get_scale())
        if step in (0, 2):
            model[1].weight.grad[0, 0] = math.inf
        scaler.step(optimizer)
        scaler.update()
        watching.step()
        optimizer.zero_grad()
    watching.finish()
    records = recorder.records
    assert [r.values["update_skipped"] for r in records] == [1, 0, 1, 0]
    for step in (1, 3):
        assert records[step].values["grad_norm"] == pytest.approx(norms[step], rel=1e-5)
        assert records[step].values["update_rms"] > 0
    if fused:  # else the scaler does not call the optimizer, and nothing is measured
        assert not math.isfinite(records[2].values["grad_norm"])
        assert records[2].values["update_rms"] == 0


def test_whether_a_step_was_skipped_is_read_before_the_flag_is_used_again(model, loss_of, recorder):
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    watching = watch(model, optimizer, detector=recorder)
    loss_of(model).backward()
    optimizer.found_inf = torch.ones(())
    optimizer.step()
    optimizer.found_inf.zero_()
    watching.step()
    watching.finish()
    assert recorder.records[0].values["update_skipped"] == 1


def test_an_optimizer_that_is_given_a_closure(model, optimizer, loss_of, recorder):
    """As Lightning does: the gradient is made within the step."""
    watching = watch(model, optimizer, detector=recorder, sample_every=1)
    for call in (optimizer.step, lambda closure: optimizer.step(closure=closure)):

        def closure():
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            watching.loss(loss)
            return loss

        call(closure)
        norm = _grad_norm(model)
        watching.step()
    watching.finish()
    assert [r.step for r in recorder.records] == [1, 2]
    assert recorder.records[1].values["grad_norm"] == pytest.approx(norm, rel=1e-6)
    assert all(r.values["update_rms"] > 0 for r in recorder.records)


def test_an_optimizer_in_a_wrapper_is_found(model, optimizer, loss_of, recorder):
    class Wrapper(torch.optim.Optimizer):  # as accelerate's: no hooks of its own
        def __init__(self, inner):
            self.optimizer = inner

        def step(self):
            self.optimizer.step()

    wrapped = Wrapper(optimizer)
    watching = watch(model, wrapped, detector=recorder)
    loss_of(model).backward()
    wrapped.step()
    watching.step()
    watching.finish()
    assert recorder.records[0].values["grad_norm"] > 0


def test_of_several_updates_before_one_step_the_last_is_measured(
    model, optimizer, loss_of, recorder
):
    watching = watch(model, optimizer, detector=recorder, sample_every=1)
    for _ in range(2):
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(model).backward()
            old = [p.detach().double().clone() for p in model.parameters()]
            optimizer.step()
        watching.step()
    watching.finish()
    change = [
        float((p.detach().double() - o).square().mean().sqrt())
        for p, o in zip(model.parameters(), old, strict=True)
    ]
    record = recorder.records[1]
    assert record.values["grad_norm"] == pytest.approx(_grad_norm(model), rel=1e-6)
    np.testing.assert_allclose(record.places["update_rms"], change, rtol=1e-4)


def test_nothing_waits_for_the_device(model, optimizer, loss_of, recorder):
    class Forbid(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            name = func.overloadpacket.__name__
            assert name not in ("_local_scalar_dense", "equal", "nonzero"), name
            return func(*args, **(kwargs or {}))

    fused = torch.optim.AdamW(model.parameters(), fused=True)
    watching = watch(model, fused, detector=recorder, sample_every=2)
    for _ in range(5):
        loss = loss_of(model)
        loss.backward()
        with Forbid():
            fused.step()
            watching.loss(loss)
            watching.step()
        fused.zero_grad()
    assert recorder.seen == 4


def test_state_goes_on_where_it_was(model, optimizer, loss_of, recorder):
    watching = watch(model, optimizer, detector=recorder)

    def step(watching):
        loss_of(model).backward()
        optimizer.step()
        verdict = watching.step()
        optimizer.zero_grad()
        return verdict

    for _ in range(5):
        step(watching)
    state = json.loads(json.dumps(watching.state_dict()))
    assert state == {
        "format": 1, "step": 5, "attempt": 0, "checkpoints": [], "detector": {"seen": 5},
    }  # fmt: skip
    # Saving judges the step in flight; its verdict is not lost, and none comes twice.
    after = step(watching)
    assert (after.step, [f.code for f in after.findings]) == (5, ["SPK005"])
    assert step(watching).step == 6
    watching.finish()

    again = watch(model, optimizer, detector=type(recorder)())
    again.load_state_dict(state)
    assert again.record is None
    assert step(again).step == 5
    assert step(again).step == 6
    assert again.record.step == 6
    state = again.state_dict()
    assert (state["step"], state["detector"]) == (7, {"seen": 7})
    # What went on is another attempt, and says so to the detector.
    assert state["attempt"] == 1
    assert again.record.attempt == 1


def test_the_verdict_on_the_last_step_is_told_at_the_end(model, optimizer, loss_of, recorder):
    watching = watch(model, optimizer, detector=recorder)
    for _ in range(5):
        loss_of(model).backward()
        optimizer.step()
        assert watching.step().findings == ()
        optimizer.zero_grad()
    assert [f.code for f in watching.finish()] == ["SPK005", "SPK000"]


def test_after_finish_the_optimizer_is_as_before(model, optimizer, loss_of, recorder):
    watching = watch(model, optimizer, detector=recorder)
    watching.finish()
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks


def test_watching_changes_nothing_of_the_training(loss_of, recorder):
    weights = []
    for watched in (False, True):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Embedding(12, 6), torch.nn.Linear(6, 12))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        watching = watch(model, optimizer, detector=recorder) if watched else None
        for _ in range(3):
            loss = loss_of(model)
            loss.backward()
            optimizer.step()
            if watching:
                watching.loss(loss)
                watching.step()
            optimizer.zero_grad()
        weights.append([p.detach().clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


def test_step_before_the_optimizer_is_a_usage_error(model, optimizer, loss_of, recorder):
    watching = watch(model, optimizer, detector=recorder)
    loss_of(model).backward()
    with pytest.raises(UsageError, match=r"no optimizer.step\(\) with gradients: call loss.back"):
        watching.step()


def test_a_step_without_gradients_is_a_usage_error(model, optimizer, recorder):
    watching = watch(model, optimizer, detector=recorder)
    optimizer.step()
    with pytest.raises(UsageError, match=r"optimizer.step\(\), watch.step\(\) and then"):
        watching.step()


def test_a_loss_that_is_not_one_number_is_a_usage_error(model, optimizer, recorder):
    watching = watch(model, optimizer, detector=recorder)
    with pytest.raises(UsageError, match=r"shape \(3,\): type watch.loss\(loss.mean\(\)\)"):
        watching.loss(torch.ones(3))


def test_something_else_than_an_optimizer_is_a_usage_error(model, recorder):
    with pytest.raises(UsageError, match=r"takes a torch.optim.Optimizer, got dict"):
        watch(model, {}, detector=recorder)
