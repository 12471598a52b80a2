"""nanochat: the flags of its base training."""

from .trainer_samples import assumed, rows, sample, strange, text

ROWS = {
    "architecture.layers": (24, 3),
    "architecture.sequence_length": (1024, 3),
    "batch.micro_size": (16, 3),
    "batch.tokens": (524288, 4),
    "interval.evaluate": (100, 6),
    "name": ("d24", 3),
    "optimizer.learning_rate": (0.03, 5),
    "optimizer.weight_decay": (0.2, 5),
    "parallelism.devices_per_node": (8, 2),
    "precision.compute": ("fp8", 5),
    "precision.fp8_recipe": ("rowwise", 6),
    "schedule.decay_kind": ("linear", 4),
    "schedule.decay_steps": (4000, 4),
    "schedule.final_factor": (0.1, 5),
    "schedule.kind": ("wsd", 4),
    "schedule.steps": (8000, 4),
}


def test_every_field_has_its_line():
    found = sample("nanochat.sh")
    assert found.files[0].kind == "arguments"
    assert rows(found) == ROWS


def test_the_width_follows_from_the_depth():
    filled = assumed(sample("nanochat.sh"), "nanochat of 2026-03")
    assert filled["architecture.width"] == 24 * 64
    assert filled["architecture.heads"] == 12
    assert filled["architecture.activation"] == "relu2"


def test_tokens_become_sequences():
    spec = sample("nanochat.sh").spec
    assert spec.batch.global_size == 524288 // 1024
    assert spec.sources["batch.global_size"].kind == "derived"


def test_numbers_that_are_switched_off(read):
    found = read(
        a__sh="python -m scripts.base_train --depth=4 --device-batch-size=1 "
        "--num-iterations=-1 --total-batch-size=-1 --save-every=-1\n"
    )
    assert found.spec.schedule.steps is None
    assert found.spec.batch.tokens is None
    assert found.spec.interval.checkpoint is None


def test_a_typo(read):
    found = read(a__sh=text("nanochat.sh").replace("--matrix-lr", "--matrx-lr"))
    assert strange(found) == {"matrx-lr": (5, "matrix_lr")}
