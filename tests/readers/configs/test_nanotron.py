"""nanotron: what a replica accumulates, the last decay, stages of data."""

from .trainer_samples import assumed, rows, sample, strange, text

ROWS = {
    "architecture.activation": ("swiglu", 48),
    "architecture.ff_width": (2560, 51),
    "architecture.heads": (15, 54),
    "architecture.kv_heads": (5, 56),
    "architecture.layers": (32, 55),
    "architecture.max_positions": (2048, 53),
    "architecture.norm": ("rmsnorm", 59),
    "architecture.norm_eps": (1e-05, 59),
    "architecture.rope_theta": (100000.0, 61),
    "architecture.sequence_length": (2048, 101),
    "architecture.tied_embeddings": (True, 62),
    "architecture.vocab_multiple": (1, 45),
    "architecture.vocab_size": (49152, 64),
    "architecture.width": (960, 49),
    "batch.accumulation": (2, 97),
    "batch.micro_size": (4, 100),
    "data.seed": (6, 17),
    "data.sources": (("data/web", "data/code"), 11),
    "data.tokenizer": ("example-org/tokens", 95),
    "data.weights": ((0.8, 0.2), 14),
    "data.workers": (2, 16),
    "init.std": (0.03, 44),
    "interval.checkpoint": (2000, 2),
    "interval.log": (5, 37),
    "name": ("small-lm", 33),
    "optimizer.beta1": (0.9, 77),
    "optimizer.beta2": (0.95, 78),
    "optimizer.clip_norm": (1.0, 67),
    "optimizer.eps": (1e-08, 79),
    "optimizer.fused": (True, 81),
    "optimizer.learning_rate": (0.003, 69),
    "optimizer.name": ("adamw", 80),
    "optimizer.weight_decay": (0.01, 82),
    "parallelism.data": (16, 85),
    "parallelism.expert": (1, 86),
    "parallelism.overlap_tensor": (True, 90),
    "parallelism.pipeline": (2, 87),
    "parallelism.sequence": (True, 91),
    "parallelism.tensor": (4, 89),
    "parallelism.zero_stage": (1, 83),
    "precision.compute": ("bf16", 42),
    "precision.gradient_reduce": ("fp32", 66),
    "schedule.decay_kind": ("1-sqrt", 72),
    "schedule.decay_steps": (20000, 71),
    "schedule.kind": ("wsd", 70),
    "schedule.min_learning_rate": (0.0, 75),
    "schedule.steps": (100000, 102),
    "schedule.warmup_steps": (500, 73),
    "seed": (8, 34),
}


def test_every_field_has_its_line():
    found = sample("nanotron.yaml")
    assert rows(found) == ROWS
    assert strange(found) == {}


def test_the_batch_follows():
    spec = sample("nanotron.yaml").spec
    assert spec.batch.global_size == 4 * 2 * 16
    assert spec.sources["batch.global_size"].kind == "derived"


def test_what_the_dataclasses_fill_in():
    filled = assumed(sample("nanotron.yaml"), "nanotron 0.4")
    assert filled["architecture.position"] == "rope"
    assert filled["parallelism.recompute"] == "none"


def test_a_decay_right_after_the_warm_up(read):
    lines = text("nanotron.yaml").replace(
        "lr_decay_starting_step: 80000", "lr_decay_starting_step: null"
    )
    schedule = read(a__yaml=lines.replace("1-sqrt", "cosine")).spec.schedule
    assert schedule.kind == "cosine"
    assert schedule.decay_steps == 20500  # the step at which the last rate is reached
    assert schedule.decay_kind is None


def test_one_table_of_data(read):
    lines = text("nanotron.yaml")
    start, end = lines.index("data_stages:"), lines.index("general:")
    data = "data:\n  dataset:\n    hf_dataset_or_datasets: org/text\n  seed: 42\n"
    found = read(a__yaml=lines[:start] + data + lines[end:])
    assert found.spec.data.sources == ("org/text",)
    assert found.spec.data.seed == 42
    assert found.spec.data.weights is None


def test_tensor_parallel_without_sequences(read):
    lines = text("nanotron.yaml").replace("REDUCE_SCATTER", "ALL_REDUCE")
    assert read(a__yaml=lines).spec.parallelism.sequence is False


def test_numbers_that_yaml_reads_as_text(read):
    found = read(a__yaml=text("nanotron.yaml").replace("1.0e-08", "1e-8"))
    assert found.spec.optimizer.eps == 1e-8
    assert [note.line for note in found.remarks] == [79]


def test_a_typo(read):
    found = read(a__yaml=text("nanotron.yaml").replace("clip_grad:", "clip_grads:"))
    assert strange(found) == {"optimizer.clip_grads": (67, "optimizer.clip_grad")}
