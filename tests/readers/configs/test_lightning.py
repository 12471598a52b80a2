"""Lightning CLI: a trainer, and classes with arguments."""

import pytest

from .trainer_samples import assumed, rows, sample, strange, text

ROWS = {
    "batch.accumulation": (1, 20),
    "batch.micro_size": (16, 30),
    "data.workers": (3, 31),
    "interval.checkpoint": (500, 15),
    "interval.evaluate": (1000, 17),
    "interval.evaluate_batches": (20, 18),
    "interval.log": (25, 19),
    "optimizer.beta1": (0.9, 36),
    "optimizer.beta2": (0.98, 36),
    "optimizer.clip_norm": (1.0, 21),
    "optimizer.learning_rate": (0.0004, 35),
    "optimizer.name": ("adamw", 33),
    "optimizer.weight_decay": (0.05, 37),
    "parallelism.devices_per_node": (4, 9),
    "parallelism.fsdp": ("full", 6),
    "parallelism.nodes": (2, 10),
    "precision.compute": ("bf16", 11),
    "precision.master": ("fp32", 11),
    "schedule.decay_steps": (30000, 41),
    "schedule.kind": ("cosine", 39),
    "schedule.min_learning_rate": (4e-05, 42),
    "schedule.steps": (30000, 16),
    "seed": (17, 2),
}


def test_every_field_has_its_line():
    found = sample("lightning.yaml")
    assert rows(found) == ROWS
    assert strange(found) == {}


def test_the_whole_batch_follows():
    assert sample("lightning.yaml").spec.batch.global_size == 16 * 8


def test_what_the_trainer_fills_in(read):
    found = read(a__yaml="seed_everything: 1\ntrainer:\n  max_epochs: 3\n")
    assert assumed(found, "Lightning 2.4") == {
        "parallelism.nodes": 1,
        "precision.compute": "fp32",
        "batch.accumulation": 1,
        "optimizer.clip_norm": 0.0,
        "interval.log": 50,
    }


@pytest.mark.parametrize(
    ("strategy", "fsdp", "stage"),
    [("ddp", "none", None), ("fsdp", "full", None), ("deepspeed_stage_2", None, 2)],
)
def test_strategies_by_name(read, strategy, fsdp, stage):
    found = read(a__yaml=f"seed_everything: 1\ntrainer:\n  strategy: {strategy}\n")
    assert (found.spec.parallelism.fsdp, found.spec.parallelism.zero_stage) == (fsdp, stage)


def test_clipping_by_value(read):
    lines = text("lightning.yaml").replace(
        "gradient_clip_val: 1.0", "gradient_clip_val: 0.5\n  gradient_clip_algorithm: value"
    )
    optimizer = read(a__yaml=lines).spec.optimizer
    assert (optimizer.clip_value, optimizer.clip_norm) == (0.5, None)


def test_an_interval_in_batches_is_none_in_steps(read):
    lines = text("lightning.yaml").replace(
        "accumulate_grad_batches: 1", "accumulate_grad_batches: 4"
    )
    assert read(a__yaml=lines).spec.interval.evaluate is None


def test_a_seed_that_is_drawn(read):
    found = read(a__yaml="seed_everything: true\ntrainer:\n  max_epochs: 3\n")
    assert found.spec.seed is None


def test_a_typo(read):
    found = read(a__yaml=text("lightning.yaml").replace("gradient_clip_val", "gradient_clip_vall"))
    assert strange(found) == {"trainer.gradient_clip_vall": (21, "trainer.gradient_clip_val")}
