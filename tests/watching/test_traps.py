"""What loops do to a watch: each works, or says what to type."""

import gc
import math
import warnings
import weakref

import numpy as np
import pytest
import torch
from torch import nn

from surefoot import runs
from surefoot.detect import LossDetector
from surefoot.errors import UsageError
from surefoot.watching import watch
from surefoot.watching.wiring import PATIENCE


@pytest.fixture
def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


@pytest.fixture
def step(model, loss_of):
    def take(watching, optimizer, tell=True, **signals):
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        if tell:
            watching.loss(loss)
        verdict = watching.step(**signals)
        optimizer.zero_grad()
        return verdict

    return take


def test_a_second_call_for_one_step(model, optimizer, step):
    watching = watch(model, optimizer)
    step(watching, optimizer)
    with pytest.raises(UsageError, match="called twice for step 1: call it once for each"):
        watching.step()
    step(watching, optimizer)
    assert watching.record.step == 1
    assert "loss" in watching.record.values


def test_an_optimizer_that_replaced_the_watched_one(model, optimizer, step, recorder):
    watching = watch(model, optimizer, detector=recorder)
    step(watching, optimizer)
    other = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(PATIENCE - 1):
        step(watching, other)
    with pytest.warns(UserWarning, match="no update of the optimizer that was given") as caught:
        step(watching, other)
    assert caught[0].filename == __file__  # it points at the loop, not at us
    for _ in range(2 * PATIENCE):  # said once
        step(watching, other)
    assert watching.record.values["update_skipped"] == 1


def test_another_optimizer_than_the_watched_one_from_the_start(model, optimizer, step):
    watching = watch(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    with pytest.raises(UsageError, match="with the optimizer that was given to watch"):
        step(watching, optimizer)


def test_a_scaler_leaves_out_the_first_steps_and_gradients_are_dropped_early(
    model, loss_of, recorder
):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=False)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    watching = watch(model, optimizer, detector=recorder)
    for number in range(4):
        loss = loss_of(model)
        scaler.scale(loss).backward()
        if number < 3:
            model[1].weight.grad[0, 0] = math.inf
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        watching.loss(loss)
        watching.step(loss_scale=scaler.get_scale())
    watching.finish()
    values = [record.values for record in recorder.records]
    assert [v["update_skipped"] for v in values] == [1, 1, 1, 0]
    assert [v["loss_scale"] for v in values] == [2.0**15, 2.0**14, 2.0**13, 2.0**13]


def test_a_loop_whose_gradients_are_always_dropped_is_told_in_the_end(model, recorder):
    watching = watch(model, torch.optim.SGD(model.parameters()), detector=recorder)
    for _ in range(PATIENCE - 1):
        watching.step()
    with pytest.raises(UsageError, match=r"has seen no optimizer.step\(\)"):
        watching.step()


def test_parameters_that_come_later(model, optimizer, step):
    model[0].weight.requires_grad_(False)
    watching = watch(model, optimizer)
    assert watching.places["grad_norm"][0] == "1.weight"
    for _ in range(PATIENCE):
        step(watching, optimizer)
    model[0].weight.requires_grad_(True)
    with pytest.warns(UserWarning, match="has 5 trainable parameters, 4 when"):
        step(watching, optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2 * PATIENCE):
            step(watching, optimizer)
    assert watching.record.places["grad_norm"].shape == (4,)


def test_tied_frozen_and_shared_parameters_in_several_groups(recorder):
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(12, 6)
            self.shared = nn.Linear(6, 6)
            self.frozen = nn.Linear(6, 6)
            self.frozen.requires_grad_(False)
            self.head = nn.Linear(6, 12, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens):
            x = self.embedding(tokens)
            return self.head(self.shared(torch.tanh(self.shared(self.frozen(x)))))

    model = Tied()
    matrices = [p for p in model.parameters() if p.ndim > 1]
    optimizer = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": 0.1},
            {"params": [model.shared.bias], "weight_decay": 0.0, "lr": 3e-2},
        ],
        lr=1e-2,
    )
    watching = watch(model, optimizer, detector=recorder, sample_every=1)
    for _ in range(2):
        tokens = torch.randint(12, (4, 5))
        model(tokens).logsumexp(-1).mean().backward()
        norms = [float(p.grad.norm()) for p in model.parameters() if p.grad is not None]
        optimizer.step()
        watching.step()
        optimizer.zero_grad()
    watching.finish()
    names = ("embedding.weight", "shared.weight", "shared.bias")
    assert watching.places["grad_norm"] == names
    record = recorder.records[1]
    np.testing.assert_allclose(record.places["grad_norm"], norms, rtol=1e-5)
    assert record.values["learning_rate"] == pytest.approx(3e-2)


def test_lbfgs(model, loss_of, recorder):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    watching = watch(model, optimizer, detector=recorder)
    for _ in range(2):

        def closure():
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            watching.loss(loss)
            return loss

        optimizer.step(closure)
        watching.step()
    watching.finish()
    assert [record.step for record in recorder.records] == [1, 2]
    for record in recorder.records:
        assert record.values["grad_norm"] > 0
        assert 1 < record.values["loss"] < 5


@pytest.mark.parametrize("kind", ["Muon", "Adafactor", "RMSprop", "NAdam", "Adagrad", "Rprop"])
def test_torchs_other_optimizers(kind, loss_of, model, recorder):
    build = getattr(torch.optim, kind, None)
    if build is None:
        pytest.skip(f"this torch has no {kind}")
    weights = [p for p in model.parameters() if p.ndim == 2]
    optimizer = build(weights, lr=1e-3)
    watching = watch(model, optimizer, detector=recorder, level="full")
    for _ in range(3):
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        watching.loss(loss)
        watching.step()
        optimizer.zero_grad()
        model.zero_grad()
    watching.finish()
    assert recorder.records[2].values["grad_norm"] > 0
    assert recorder.records[2].places["param_norm"].shape == (5,)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64])
def test_losses_of_any_dtype(model, optimizer, step, recorder, dtype):
    watching = watch(model, optimizer, detector=recorder)
    watching.loss(torch.tensor([2.0]).to(dtype), tokens=torch.tensor(10))
    watching.loss(np.float32(4.0), tokens=np.int64(30))
    step(watching, optimizer, tell=False)
    watching.finish()
    assert recorder.records[0].values["loss"] == 3.5
    assert recorder.records[0].values["tokens"] == 40


def test_a_pass_over_no_token_does_not_count(model, optimizer, step, recorder):
    watching = watch(model, optimizer, detector=recorder)
    watching.loss(torch.tensor(math.nan), tokens=0)  # a mean over nothing
    watching.loss(torch.tensor(2.0), tokens=10)
    step(watching, optimizer, tell=False)
    watching.loss(torch.tensor(math.nan), tokens=10)  # but this one is what it is
    step(watching, optimizer, tell=False)
    watching.finish()
    assert recorder.records[0].values["loss"] == 2.0
    assert math.isnan(recorder.records[1].values["loss"])


@pytest.mark.parametrize("loss", [None, "2.0 nats", {"loss": 2.0}])
def test_a_loss_that_is_no_number(model, optimizer, loss):
    with pytest.raises(UsageError, match="takes loss as a number or a tensor of one, got"):
        watch(model, optimizer).loss(loss)


def test_a_signal_that_is_not_known(model, optimizer, step):
    with pytest.raises(UsageError, match=r"no signal 'batchsize' \(did you mean 'batch_size'\?\)"):
        step(watch(model, optimizer), optimizer, batchsize=3)


def test_after_the_end(model, optimizer, step, recorder):
    watching = watch(model, optimizer, detector=recorder)
    step(watching, optimizer)
    assert len(watching.finish()) == 1
    assert watching.finish() == ()
    for call in (watching.step, watching.state_dict, lambda: watching.loss(1.0)):
        with pytest.raises(UsageError, match=r"call surefoot\.watch again to go on"):
            call()


@pytest.mark.parametrize("state", [{}, None, {"format": 2, "step": 1}, {"model": 1}])
def test_a_state_that_is_none(model, optimizer, state):
    with pytest.raises(UsageError, match=r"takes what watch.state_dict\(\) gave"):
        watch(model, optimizer).load_state_dict(state)


def test_the_state_of_another_detector(model, optimizer, step, recorder):
    watching = watch(model, optimizer, detector=recorder)
    step(watching, optimizer)
    state = watching.state_dict()
    again = watch(model, optimizer, detector=LossDetector())
    with pytest.raises(UsageError, match=r"of another detector .*type surefoot.watch\(..., resume"):
        again.load_state_dict(state)


@pytest.mark.filterwarnings("ignore:.*torch.jit")  # what dynamo itself imports
@pytest.mark.parametrize("how", ["module", "in place", "step"])
def test_what_torch_compiles(model, optimizer, loss_of, recorder, how):
    reference = watch(model, optimizer, detector=type(recorder)())
    watched, update = model, optimizer.step
    if how == "module":
        watched = torch.compile(model, backend="eager")
    elif how == "in place":
        model.compile(backend="eager")
    watching = watch(watched, optimizer, detector=recorder, level="full")
    if how == "step":
        update = torch.compile(optimizer.step, backend="eager")
    for _ in range(3):
        loss = loss_of(watched)
        loss.backward()
        update()
        watching.loss(loss)
        watching.step()
        reference.step()
        optimizer.zero_grad()
    watching.finish()
    reference.finish()
    for mine, theirs in zip(recorder.records, reference._recorder.detector.records, strict=True):
        assert mine.values["grad_norm"] == theirs.values["grad_norm"]
        np.testing.assert_array_equal(mine.places["param_norm"], theirs.places["param_norm"])
    assert watching.places["grad_norm"] == tuple(n for n, _ in model.named_parameters())


def test_distributed_data_parallel(model, optimizer, loss_of, recorder, tmp_path):
    import torch.distributed as dist

    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        wrapped = nn.parallel.DistributedDataParallel(model)
        watching = watch(
            wrapped,
            optimizer,
            detector=recorder,
            run=tmp_path / "x",
            process_group=dist.group.WORLD,
        )
        for _ in range(2):
            loss = loss_of(wrapped)
            loss.backward()
            optimizer.step()
            watching.loss(loss, tokens=8)
            watching.step()
            optimizer.zero_grad()
        watching.finish()
    finally:
        dist.destroy_process_group()
    assert recorder.records[1].values["loss"] == pytest.approx(float(loss.detach()), rel=1e-6)
    assert watching.places["grad_norm"] == tuple(n for n, _ in model.named_parameters())
    assert (tmp_path / "x" / "spec.toml").is_file()


def test_the_checkpoints_that_are_remembered_are_bounded(model, optimizer, step, recorder):
    watching = watch(model, optimizer, detector=recorder)
    for _ in range(70):
        step(watching, optimizer)
        watching.saved()
    assert watching.state_dict()["checkpoints"] == list(range(7, 71))


def test_a_watch_that_nobody_holds_is_over(model, optimizer, step, tmp_path):
    """As in a notebook whose cell is run again."""
    watching = watch(model, optimizer, run=tmp_path / "x")
    step(watching, optimizer)
    reference = weakref.ref(watching)
    del watching
    gc.collect()
    assert reference() is None
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    with watch(model, optimizer, run=tmp_path / "x", resume_at=1) as watching:
        assert watching.steps == watching.verdict.step == 1
        step(watching, optimizer)
    assert runs.open(tmp_path / "x").signals["step"].to_list() == [1, 2]


def test_numbers_of_the_loop_arrive_exactly(model, optimizer, step, recorder):
    many = 2**40 + 1
    watching = watch(model, optimizer, detector=recorder)
    step(
        watching, optimizer, consumed_tokens=torch.tensor(many), batch_size=np.int64(7),
        data_phase=2.0, validation_loss=None, clip_factor=torch.tensor([0.5]),
    )  # fmt: skip
    step(watching, optimizer, tokens=torch.tensor(math.nan), log_z=math.inf)
    watching.finish()
    first, second = (record.values for record in recorder.records)
    assert first["consumed_tokens"] == many
    assert (first["batch_size"], first["data_phase"], first["clip_factor"]) == (7, 2, 0.5)
    assert type(first["data_phase"]) is int
    assert "validation_loss" not in first
    assert "tokens" not in second  # a counter that is no number counts nothing
    assert second["log_z"] == math.inf


@pytest.mark.parametrize(
    ("signals", "told"),
    [
        ({"batch_size": 2.5}, r"batch_size=...\) takes a whole number, got 2.5"),
        ({"data_phase": "two"}, r"data_phase=...\) takes a number, got str"),
        ({"log_z": torch.zeros(2)}, r"one number, got a tensor of shape \(2,\)"),
        ({"grad_norm": "1"}, None),
        ({"grad_norm": [1.0]}, "takes a number, got list"),
    ],
)
def test_numbers_that_are_none(model, optimizer, step, signals, told, recorder):
    watching = watch(model, optimizer, detector=recorder)
    if told is None:  # what float() can read is a number
        step(watching, optimizer, **signals)
        return
    with pytest.raises(UsageError, match=told):
        step(watching, optimizer, **signals)
