"""LLaMA-Factory: TrainingArguments and its own arguments in one file."""

from .trainer_samples import assumed, rows, sample, strange, text

ROWS = {
    "architecture.sequence_length": (8192, 15),
    "batch.accumulation": (16, 28),
    "batch.micro_size": (1, 27),
    "data.sources": (("wiki_part", "code_part"), 12),
    "data.validation_fraction": (0.01, 39),
    "data.weights": ((0.7, 0.3), 14),
    "interval.checkpoint": (400, 22),
    "interval.evaluate": (200, 42),
    "interval.log": (5, 21),
    "optimizer.beta2": (0.95, 35),
    "optimizer.learning_rate": (3e-05, 29),
    "precision.compute": ("bf16", 36),
    "precision.master": ("bf16", 36),
    "schedule.kind": ("cosine", 31),
    "schedule.min_learning_rate": (3e-06, 33),
    "schedule.steps": (6000, 30),
    "schedule.warmup_fraction": (0.03, 34),
}


def test_every_field_has_its_line():
    found = sample("llama_factory.yaml")
    assert rows(found) == ROWS
    assert strange(found) == {}
    assert found.unresolved == ()


def test_what_it_fills_in():
    found = sample("llama_factory.yaml")
    filled = assumed(found, "LLaMA-Factory 0.9 with transformers 4.46")
    assert filled["parallelism.recompute"] == "full"  # it checkpoints unless told not to
    assert filled["optimizer.clip_norm"] == 1.0
    assert "schedule.epochs" not in filled  # max_steps is stated


def test_switches(read):
    lines = text("llama_factory.yaml") + "disable_gradient_checkpointing: true\nuse_muon: true\n"
    spec = read(a__yaml=lines).spec
    assert spec.parallelism.recompute == "none"
    assert spec.optimizer.name == "muon"


def test_deepspeed_inside(read):
    lines = text("llama_factory.yaml").replace(
        "deepspeed: ds_z3.json",
        "deepspeed:\n  zero_optimization:\n    stage: 3\n  train_micro_batch_size_per_gpu: auto\n",
    )
    found = read(a__yaml=lines)
    assert [file.format for file in found.files] == ["llama-factory", "deepspeed"]
    assert found.spec.parallelism.zero_stage == 3


def test_a_typo(read):
    found = read(a__yaml=text("llama_factory.yaml").replace("cutoff_len:", "cutof_len:"))
    assert strange(found) == {"cutof_len": (15, "cutoff_len")}
