"""Megatron-Bridge and NeMo 2: tables that name their classes."""

import pytest

from .trainer_samples import assumed, rows, sample, strange, text

BRIDGE = {
    "architecture.activation": ("swiglu", 13),
    "architecture.attention_dropout": (0.0, 24),
    "architecture.bias": (False, 22),
    "architecture.dropout": (0.0, 23),
    "architecture.ff_width": (14336, 17),
    "architecture.heads": (32, 18),
    "architecture.kv_heads": (8, 19),
    "architecture.layers": (32, 15),
    "architecture.norm": ("rmsnorm", 20),
    "architecture.norm_eps": (1e-05, 21),
    "architecture.position": ("rope", 25),
    "architecture.rope_theta": (500000.0, 26),
    "architecture.sequence_length": (8192, 64),
    "architecture.tied_embeddings": (False, 27),
    "architecture.width": (4096, 16),
    "batch.global_size": (512, 5),
    "batch.micro_size": (1, 4),
    "data.reset_positions": (False, 63),
    "data.seed": (4321, 62),
    "data.split": ("9999,8,2", 65),
    "data.tokenizer": ("example-org/tokens", 68),
    "data.tokenizer_kind": ("HuggingFaceTokenizer", 67),
    "init.std": (0.01, 28),
    "interval.checkpoint": (1000, 71),
    "interval.evaluate": (500, 7),
    "interval.evaluate_batches": (16, 8),
    "interval.log": (10, 73),
    "name": ("own", 74),
    "optimizer.beta1": (0.9, 41),
    "optimizer.beta2": (0.95, 42),
    "optimizer.clip_norm": (1.0, 44),
    "optimizer.eps": (1e-08, 43),
    "optimizer.learning_rate": (0.0003, 38),
    "optimizer.name": ("adamw", 37),
    "optimizer.weight_decay": (0.1, 40),
    "parallelism.context": (2, 32),
    "parallelism.distributed_optimizer": (True, 46),
    "parallelism.overlap_grad_reduce": (True, 54),
    "parallelism.overlap_param_gather": (True, 55),
    "parallelism.pipeline": (1, 31),
    "parallelism.sequence": (True, 33),
    "parallelism.tensor": (2, 30),
    "precision.compute": ("fp8", 59),
    "precision.fp8_format": ("hybrid", 59),
    "precision.fp8_recipe": ("delayed", 60),
    "precision.gradient_reduce": ("fp32", 56),
    "schedule.decay_kind": ("linear", 49),
    "schedule.decay_steps": (3000, 50),
    "schedule.kind": ("wsd", 48),
    "schedule.min_learning_rate": (3e-05, 39),
    "schedule.steps": (30000, 6),
    "schedule.warmup_from": (0.0, 52),
    "schedule.warmup_steps": (2000, 51),
    "seed": (42, 76),
}
NEMO = {
    "architecture.layers": (16, 6),
    "architecture.sequence_length": (4096, 31),
    "batch.global_size": (256, 29),
    "batch.micro_size": (2, 30),
    "interval.evaluate": (500, 15),
    "interval.evaluate_batches": (32, 14),
    "interval.log": (5, 16),
    "name": ("own", 49),
    "optimizer.beta2": (0.95, 39),
    "optimizer.clip_norm": (0.9, 41),
    "optimizer.learning_rate": (0.0002, 37),
    "optimizer.name": ("adamw", 36),
    "optimizer.weight_decay": (0.1, 38),
    "parallelism.context": (2, 25),
    "parallelism.devices_per_node": (8, 11),
    "parallelism.distributed_optimizer": (True, 42),
    "parallelism.nodes": (2, 12),
    "parallelism.pipeline": (1, 24),
    "parallelism.sequence": (True, 26),
    "parallelism.tensor": (4, 23),
    "precision.compute": ("bf16", 40),
    "precision.gradient_reduce": ("fp32", 20),
    "schedule.decay_steps": (19500, 46),
    "schedule.kind": ("cosine", 44),
    "schedule.min_learning_rate": (2e-05, 47),
    "schedule.steps": (20000, 13),
    "schedule.warmup_steps": (1000, 45),
}


@pytest.mark.parametrize(
    ("name", "expected"), [("megatron_bridge.yaml", BRIDGE), ("nemo_2.yaml", NEMO)]
)
def test_every_field_has_its_line(name, expected):
    found = sample(name)
    assert rows(found) == expected
    assert strange(found) == {}


def test_models_are_classes_with_values_of_their_own():
    filled = assumed(sample("nemo_2.yaml"), "NeMo 2.4")
    assert filled == {"optimizer.beta1": 0.9, "optimizer.eps": 1e-8}


def test_overrides_of_a_recipe_get_nothing_filled_in(read):
    found = read(a__yaml="train:\n  train_iters: 20\nmodel:\n  tensor_model_parallel_size: 2\n")
    assert found.files[0].format == "megatron-bridge"
    assert found.spec.stated() == {
        "trainer": "Megatron-Bridge",
        "schedule.steps": 20,
        "parallelism.tensor": 2,
    }


@pytest.mark.parametrize(
    ("recipe", "compute"),
    [
        ("bf16_mixed", "bf16"),
        ("bf16_with_fp8_delayed_scaling_mixed", "fp8"),
        ("fp16_mixed", "fp16"),
    ],
)
def test_recipes_by_name(read, recipe, compute):
    lines = text("megatron_bridge.yaml")
    start, end = lines.index("mixed_precision:"), lines.index("dataset:")
    found = read(a__yaml=f"{lines[:start]}mixed_precision: {recipe}\n{lines[end:]}")
    assert found.spec.precision.compute == compute


def test_a_cosine_has_no_last_decay(read):
    lines = text("megatron_bridge.yaml").replace("lr_decay_style: WSD", "lr_decay_style: cosine")
    schedule = read(a__yaml=lines).spec.schedule
    assert (schedule.kind, schedule.decay_kind, schedule.decay_steps) == ("cosine", None, None)


def test_typos(read):
    found = read(a__yaml=text("megatron_bridge.yaml").replace("rotary_base", "rotery_base"))
    assert strange(found) == {"model.rotery_base": (26, "model.rotary_base")}
    found = read(a__yaml=text("nemo_2.yaml").replace("adam_beta2", "adam_beta_2"))
    assert strange(found)["optim.config.adam_beta_2"] == (39, "optim.config.adam_beta2")
