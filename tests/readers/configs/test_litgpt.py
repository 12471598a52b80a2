"""litgpt: models as tables of sizes, optimizers as classes."""

import pytest

from .trainer_samples import assumed, rows, sample, strange, text

ROWS = {
    "architecture.activation": ("swiglu", 16),
    "architecture.bias": (False, 13),
    "architecture.ff_width": (2816, 17),
    "architecture.heads": (16, 6),
    "architecture.kv_heads": (4, 8),
    "architecture.layers": (24, 5),
    "architecture.max_positions": (2048, 4),
    "architecture.norm": ("rmsnorm", 14),
    "architecture.norm_eps": (1e-05, 15),
    "architecture.parallel_blocks": (False, 12),
    "architecture.rope_fraction": (1.0, 11),
    "architecture.tied_embeddings": (True, 34),
    "architecture.vocab_multiple": (128, 10),
    "architecture.vocab_size": (50254, 9),
    "architecture.width": (1024, 7),
    "batch.global_size": (256, 28),
    "batch.micro_size": (8, 29),
    "data.sources": (("data/fineweb",), 23),
    "data.tokenizer": ("checkpoints/own", 49),
    "data.workers": (6, 24),
    "interval.checkpoint": (500, 26),
    "interval.evaluate": (250, 36),
    "interval.evaluate_batches": (40, 37),
    "optimizer.beta1": (0.9, 45),
    "optimizer.beta2": (0.95, 45),
    "optimizer.clip_norm": (0.8, 32),
    "optimizer.learning_rate": (0.0003, 42),
    "optimizer.name": ("adamw", 40),
    "optimizer.weight_decay": (0.1, 43),
    "parallelism.devices_per_node": (4, 47),
    "parallelism.nodes": (2, 48),
    "precision.compute": ("bf16", 19),
    "precision.master": ("bf16", 19),
    "schedule.min_learning_rate": (3e-05, 33),
    "schedule.tokens": (8000000000, 31),
    "schedule.warmup_steps": (300, 30),
    "seed": (7, 51),
}


def test_every_field_has_its_line():
    assert rows(sample("litgpt.yaml")) == ROWS


def test_the_length_of_sequences_is_the_block():
    found = sample("litgpt.yaml")
    filled = assumed(found, "litgpt 0.5")
    assert filled["architecture.sequence_length"] == 2048
    assert filled["schedule.kind"] == "cosine"
    assert found.spec.schedule.steps == 15259  # 8e9 / (256 * 2048), rounded up
    assert found.spec.sources["schedule.steps"].kind == "derived"


def test_the_names_of_2024(read):
    found = read(
        a__yaml="model:\n  n_layer: 4\n  n_embd: 64\n  n_query_groups: 2\n"
        "train:\n  learning_rate: 4e-4\n  beta1: 0.8\n  beta2: 0.9\n  weight_decay: 1e-1\n"
        "  lr_warmup_steps: 5\ndata: TinyLlama\ndevices: auto\noptimizer: AdamW\n"
    )
    assert rows(found) == {
        "architecture.layers": (4, 2),
        "architecture.width": (64, 3),
        "architecture.kv_heads": (2, 4),
        "optimizer.learning_rate": (4e-4, 6),
        "optimizer.beta1": (0.8, 7),
        "optimizer.beta2": (0.9, 8),
        "optimizer.weight_decay": (0.1, 9),
        "schedule.warmup_steps": (5, 10),
        "data.sources": (("TinyLlama",), 11),
        "optimizer.name": ("adamw", 13),
    }
    assert [note.key for note in found.unresolved] == ["devices"]


def test_fine_tuning_has_other_values(read):
    found = read(
        a__yaml="checkpoint_dir: c\nlora_r: 8\ntrain:\n  lr_warmup_steps: 10\n"
        "eval:\n  max_new_tokens: 9\n"
    )
    filled = assumed(found, "litgpt 0.5")
    assert filled["batch.global_size"] == 16
    assert filled["schedule.epochs"] == 5.0
    assert "optimizer.clip_norm" not in filled


@pytest.mark.parametrize(
    ("name", "compute", "master"),
    [("bf16-mixed", "bf16", "fp32"), ("32-true", "fp32", "fp32"), ("16-true", "fp16", "fp16")],
)
def test_formats(read, name, compute, master):
    precision = read(a__yaml=text("litgpt.yaml").replace("bf16-true", name)).spec.precision
    assert (precision.compute, precision.master) == (compute, master)


def test_a_typo(read):
    found = read(a__yaml=text("litgpt.yaml").replace("global_batch_size", "global_batchsize"))
    assert strange(found) == {"train.global_batchsize": (28, "train.global_batch_size")}
