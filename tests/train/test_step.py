"""The step: accumulation, non-finite gradients, precision; and nothing waits for the device."""

import copy

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from surefoot.init import initialise
from surefoot.model import Decoder
from surefoot.optim import LossScaler, build_optimizer
from surefoot.recipe import Architecture, Init, Optimizer
from surefoot.signals import Meter
from surefoot.train import IGNORE, Ranks, TrainStep

SHAPE = Architecture(layers=2, width=32, heads=4, vocab_size=50, sequence_length=16)
CPU = Ranks(rank=0, world=1, device=torch.device("cpu"))


def make_step(**changes) -> TrainStep:
    model = Decoder(SHAPE)
    initialise(model, model.roles(), Init(), width=32, layers=2, seed=1)
    optimizer = build_optimizer(model, Optimizer(learning_rate=1e-2))
    parts = {
        "model": model,
        "wrapped": model,
        "optimizer": optimizer,
        "meter": Meter(model, optimizer, sample_every=3),
        "ranks": CPU,
        "micro_size": 8,
        "clip_norm": 1.0,
        "z_loss_weight": 1e-3,
    }
    return TrainStep(**(parts | changes))


def make_batch(seed: int = 0, size: int = 8) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(50, (size, 17), generator=draw)


def gradients(step: TrainStep, batch: torch.Tensor) -> dict[str, torch.Tensor]:
    step._backward(batch[:, :-1].clamp(min=0), batch[:, 1:], sampled=False)
    return {name: p.grad.clone() for name, p in step.model.named_parameters()}


@pytest.mark.parametrize("micro_size", [1, 3, 4])
def test_accumulated_gradient_is_that_of_the_undivided_batch_with_uneven_masks(micro_size):
    batch = make_batch()
    # Rows with 1, 3, 5 ... counted targets: a mean of means would be far off.
    for row in range(8):
        batch[row, 1 + 2 * row + 1 :] = IGNORE
    whole = gradients(make_step(), batch)
    divided = gradients(make_step(micro_size=micro_size), batch)
    for name, gradient in whole.items():
        torch.testing.assert_close(divided[name], gradient, rtol=1e-5, atol=1e-7, msg=name)


def test_gradient_against_a_plain_loss_in_double_precision():
    batch = make_batch()
    batch[0, 5:] = IGNORE
    step = make_step(micro_size=3)
    exact = copy.deepcopy(step.model).double()
    logits = exact(batch[:, :-1].clamp(min=0)).flatten(0, 1)
    targets = batch[:, 1:].flatten()
    counted = targets != IGNORE
    z = logits[counted].logsumexp(-1)
    loss = torch.nn.functional.cross_entropy(logits[counted], targets[counted])
    (loss + 1e-3 * z.square().mean()).backward()
    expected = {name: p.grad for name, p in exact.named_parameters()}
    for name, gradient in gradients(step, batch).items():
        torch.testing.assert_close(gradient.double(), expected[name], rtol=2e-4, atol=1e-7)


def state_bytes(step: TrainStep) -> list[bytes]:
    tensors = [p.detach() for p in step.model.parameters()]
    for p in step.model.parameters():
        tensors += [v for v in step.optimizer.state[p].values() if isinstance(v, torch.Tensor)]
    return [t.numpy().tobytes() for t in tensors]


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_non_finite_gradient_leaves_everything_bit_equal_and_says_so(poison):
    step = make_step()
    for number in (1, 2):
        outcome = step(make_batch(number), number, 1e-2)
        step.meter.record(number, 0, outcome.values, sums=outcome.sums)
    step.meter.flush()
    before = state_bytes(step)

    hook = step.model.layers[1].attention.wo.weight.register_hook(lambda g: g * poison)
    outcome = step(make_batch(3), 3, 1e-2)
    hook.remove()
    step.meter.record(3, 0, outcome.values, sums=outcome.sums)
    assert state_bytes(step) == before
    values = step.meter.flush().values
    assert values["update_skipped"] == 1
    assert not torch.isfinite(torch.tensor(values["grad_norm"]))

    # And the next step is an ordinary one.
    outcome = step(make_batch(4), 4, 1e-2)
    step.meter.record(4, 0, outcome.values, sums=outcome.sums)
    assert step.meter.flush().values["update_skipped"] == 0
    assert state_bytes(step) != before


def test_a_step_takes_the_clipped_gradient():
    tight, loose = make_step(clip_norm=1e-3), make_step(clip_norm=0.0)
    for step in (tight, loose):
        outcome = step(make_batch(), 1, 1e-2)
        step.meter.record(1, 0, outcome.values, sums=outcome.sums)
    factor = tight.meter.flush().values["clip_factor"]
    assert loose.meter.flush().values["clip_factor"] == 1
    name = "layers.0.feed_forward.w2.weight"
    moments = [dict(step.model.named_parameters())[name] for step in (tight, loose)]
    first = [
        step.optimizer.state[p]["exp_avg"] for step, p in zip((tight, loose), moments, strict=True)
    ]
    assert factor < 0.01
    torch.testing.assert_close(first[0], first[1] * factor, rtol=1e-4, atol=1e-9)


class Syncs(TorchDispatchMode):
    """Counts what makes the host wait for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in ("_local_scalar_dense", "item", "is_nonzero", "nonzero", "equal"):
            self.found.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_no_step_waits_for_the_device(precision):
    scaler = LossScaler(1024.0) if precision == "fp16" else None
    step = make_step(micro_size=4, precision=precision, scaler=scaler)
    with Syncs() as syncs:
        for number in range(1, 5):  # sampled at 1 and 3
            outcome = step(make_batch(number), number, 1e-2)
            step.meter.record(
                number, 0, outcome.values, sums=outcome.sums, attention=outcome.attention
            )
    assert syncs.found == []


def test_the_counter_of_syncs_can_count():
    with Syncs() as syncs:
        torch.ones(3).sum().item()
        bool(torch.ones(1).sum() > 0)
    assert len(syncs.found) == 2


def test_fp16_overflow_halves_the_scale_and_goes_on():
    step = make_step(precision="fp16", scaler=LossScaler(2.0**40))
    before = [p.detach().clone() for p in step.model.parameters()]
    outcome = step(make_batch(), 1, 1e-2)
    step.meter.record(1, 0, outcome.values, sums=outcome.sums)
    values = step.meter.flush().values
    assert values["update_skipped"] == 1
    assert values["loss_scale"] == 2.0**40
    assert step.scaler.scale.item() == 2.0**39
    after = list(step.model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_fp16_gives_the_unscaled_gradient_norm():
    plain, scaled = make_step(), make_step(precision="fp16", scaler=LossScaler(4096.0))
    for step in (plain, scaled):
        outcome = step(make_batch(), 1, 1e-2)
        step.meter.record(1, 0, outcome.values, sums=outcome.sums)
    a, b = (step.meter.flush().values for step in (plain, scaled))
    assert b["grad_norm"] == pytest.approx(a["grad_norm"], rel=2e-2)
    assert b["loss"] == pytest.approx(a["loss"], rel=2e-3)


def test_bf16_step_is_near_fp32():
    plain, low = make_step(), make_step(precision="bf16")
    for step in (plain, low):
        outcome = step(make_batch(), 1, 1e-2)
        step.meter.record(1, 0, outcome.values, sums=outcome.sums)
    a, b = (step.meter.flush().values for step in (plain, low))
    assert b["loss"] == pytest.approx(a["loss"], rel=2e-2)
    assert b["loss"] != a["loss"]


def test_a_wholly_masked_batch_changes_nothing_but_decay():
    step = make_step()
    batch = make_batch()
    batch[:, 1:] = IGNORE
    outcome = step(batch, 1, 1e-2)
    step.meter.record(1, 0, outcome.values, sums=outcome.sums)
    values = step.meter.flush().values
    assert values["grad_norm"] == 0
    assert all(torch.isfinite(p).all() for p in step.model.parameters())
