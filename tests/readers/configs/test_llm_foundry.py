"""llm-foundry: variables are put in, durations are of Composer."""

import pytest

from .trainer_samples import assumed, rows, sample, strange, text

ROWS = {
    "architecture.bias": (False, 18),
    "architecture.ff_width": (3072, 15),
    "architecture.heads": (12, 13),
    "architecture.kv_heads": (4, 22),
    "architecture.layers": (14, 14),
    "architecture.max_positions": (1024, 16),
    "architecture.position": ("rope", 24),
    "architecture.qk_norm": (True, 23),
    "architecture.rope_theta": (50000.0, 25),
    "architecture.sequence_length": (1024, 8),
    "architecture.vocab_size": (50368, 17),
    "architecture.width": (768, 12),
    "batch.global_size": (128, 58),
    "batch.micro_size": (8, 59),
    "data.seed": (21, 36),
    "data.shuffle": (True, 34),
    "data.sources": (("s3://bucket/mds",), 31),
    "data.tokenizer": ("gpt2", 27),
    "data.workers": (4, 38),
    "interval.checkpoint": (1000, 67),
    "interval.evaluate": (400, 56),
    "interval.evaluate_batches": (30, 57),
    "interval.log": (10, 68),
    "name": ("mpt-small", 7),
    "optimizer.beta1": (0.9, 47),
    "optimizer.beta2": (0.95, 47),
    "optimizer.clip_norm": (1.5, 54),
    "optimizer.eps": (1e-08, 49),
    "optimizer.learning_rate": (0.0006, 45),
    "optimizer.name": ("adamw", 44),
    "optimizer.weight_decay": (0.0, 50),
    "parallelism.fsdp": ("grad-op", 64),
    "parallelism.recompute": ("full", 66),
    "precision.compute": ("bf16", 61),
    "schedule.final_factor": (0.1, 42),
    "schedule.kind": ("cosine", 40),
    "schedule.tokens": (2000000000, 55),
    "schedule.warmup_fraction": (0.02, 41),
    "seed": (21, 62),
}


def test_every_field_has_its_line():
    assert rows(sample("llm_foundry.yaml")) == ROWS


def test_the_environment_is_not_known():
    found = sample("llm_foundry.yaml")
    assert [(note.key, note.line) for note in found.unresolved] == [("save_folder", 73)]


def test_what_mpt_fills_in():
    filled = assumed(sample("llm_foundry.yaml"), "llm-foundry 0.22")
    assert filled["init.method"] == "kaiming_normal_"
    assert filled["architecture.tied_embeddings"] is True
    assert "architecture.kv_heads" not in filled


@pytest.mark.parametrize(
    ("written", "field", "value"),
    [
        ("4800ba", "steps", 4800),
        ("2ep", "epochs", 2.0),
        ("1000sp", "samples", 1000),
        ("3_000tok", "tokens", 3000),
    ],
)
def test_units_of_the_run(read, written, field, value):
    lines = text("llm_foundry.yaml").replace("2_000_000_000tok", written)
    found = read(a__yaml=lines)
    assert getattr(found.spec.schedule, field) == value
    assert found.spec.sources[f"schedule.{field}"].line == 55


def test_warm_up_in_batches(read):
    found = read(a__yaml=text("llm_foundry.yaml").replace("0.02dur", "120ba"))
    assert found.spec.schedule.warmup_steps == 120
    assert found.spec.schedule.warmup_fraction is None


def test_what_is_no_duration_is_open(read):
    found = read(a__yaml=text("llm_foundry.yaml").replace("0.02dur", "soon"))
    assert found.spec.schedule.warmup_steps is None
    assert "scheduler.t_warmup" in [note.key for note in found.unresolved]


def test_values_that_a_variable_does_not_have(read):
    found = read(
        a__yaml=text("llm_foundry.yaml").replace("  run_name: mpt-small\n", "  run_name:\n")
    )
    assert found.spec.name is None


def test_a_variable_that_is_not_there(read):
    found = read(a__yaml=text("llm_foundry.yaml").replace("  global_seed: 21\n", ""))
    assert found.spec.sources["seed"].kind == "default"
    assert {note.key for note in found.unresolved} >= {"seed", "train_loader.dataset.shuffle_seed"}


def test_auto_is_left_open(read):
    lines = text("llm_foundry.yaml").replace("microbatch_size: 8", "microbatch_size: auto")
    found = read(a__yaml=lines)
    assert found.spec.batch.micro_size is None
    assert "device_train_microbatch_size" in [note.key for note in found.unresolved]


def test_a_typo(read):
    found = read(a__yaml=text("llm_foundry.yaml").replace("  n_layers:", "  n_layer:"))
    assert strange(found) == {"model.n_layer": (14, "model.n_layers")}


def test_references_around_a_circle(read):
    lines = text("llm_foundry.yaml") + "a: ${b}\nb: ${a}\n"
    found = read(a__yaml=lines)
    assert found.spec.architecture.width == 768
