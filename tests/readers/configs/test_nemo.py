"""NeMo 1: trainer, exp_manager and model, with references between them."""

import pytest

from .trainer_samples import assumed, rows, sample, strange, text

ROWS = {
    "architecture.activation": ("swiglu", 45),
    "architecture.attention_dropout": (0.0, 42),
    "architecture.bias": (False, 49),
    "architecture.dropout": (0.0, 41),
    "architecture.ff_width": (5632, 37),
    "architecture.heads": (16, 38),
    "architecture.kv_heads": (4, 39),
    "architecture.layers": (24, 35),
    "architecture.max_positions": (4096, 34),
    "architecture.norm": ("rmsnorm", 43),
    "architecture.norm_eps": (1e-05, 44),
    "architecture.position": ("rope", 46),
    "architecture.rope_fraction": (0.5, 47),
    "architecture.sequence_length": (4096, 33),
    "architecture.tied_embeddings": (False, 48),
    "architecture.vocab_multiple": (128, 50),
    "architecture.width": (2048, 36),
    "batch.global_size": (256, 28),
    "batch.micro_size": (2, 27),
    "batch.ramp_from": (64, 29),
    "batch.ramp_increment": (64, 29),
    "batch.ramp_samples": (1000000, 29),
    "data.reset_attention": (False, 70),
    "data.sources": (("data/web_text_document", "data/book_text_document"), 63),
    "data.split": ("980,10,10", 67),
    "data.tokenizer": ("data/tokens.model", 54),
    "data.weights": ((0.3, 0.7), 63),
    "data.workers": (2, 69),
    "init.std": (0.01, 40),
    "interval.checkpoint": (1000, 23),
    "interval.evaluate": (500, 13),
    "interval.evaluate_batches": (25, 14),
    "interval.log": (10, 12),
    "name": ("gpt-own", 19),
    "optimizer.beta1": (0.9, 76),
    "optimizer.beta2": (0.95, 76),
    "optimizer.clip_norm": (0.8, 16),
    "optimizer.learning_rate": (0.0001, 73),
    "optimizer.name": ("adamw", 72),
    "optimizer.weight_decay": (0.1, 74),
    "parallelism.devices_per_node": (8, 4),
    "parallelism.distributed_optimizer": (True, 72),
    "parallelism.nodes": (4, 5),
    "parallelism.pipeline": (2, 31),
    "parallelism.recompute": ("selective", 59),
    "parallelism.sequence": (True, 58),
    "parallelism.tensor": (4, 30),
    "precision.compute": ("bf16", 7),
    "precision.master": ("fp32", 56),
    "schedule.decay_steps": (80000, 81),
    "schedule.kind": ("cosine", 79),
    "schedule.min_learning_rate": (1e-05, 82),
    "schedule.steps": (100000, 11),
    "schedule.warmup_steps": (500, 80),
    "seed": (1234, 57),
}


def test_every_field_has_its_line():
    found = sample("nemo.yaml")
    assert rows(found) == ROWS
    assert strange(found) == {}
    assert found.unresolved == ()


def test_products_of_references_are_computed():
    options = sample("nemo.yaml").spec.options["nemo"]
    assert options["exp_manager.checkpoint_callback_params.model_parallel_size"] == 8
    assert options["model.data.seq_length"] == 4096


def test_what_it_fills_in():
    filled = assumed(sample("nemo.yaml"), "NeMo 1.23")
    assert filled == {
        "architecture.norm_placement": "pre",
        "architecture.qk_norm": False,
        "init.depth_scaled_outputs": True,
        "parallelism.context": 1,
    }


@pytest.mark.parametrize(
    ("written", "compute"), [("16", "fp16"), ("32", "fp32"), ("bf16", "bf16"), ("16-mixed", "fp16")]
)
def test_formats(read, written, compute):
    precision = read(a__yaml=text("nemo.yaml").replace("bf16-mixed", written)).spec.precision
    assert precision.compute == compute
    assert precision.initial_loss_scale == (2.0**32 if compute == "fp16" else None)


def test_fp8(read):
    precision = read(
        a__yaml=text("nemo.yaml").replace("fp8: False", "fp8: True\n  fp8_hybrid: True")
    ).spec.precision
    assert (precision.compute, precision.fp8_format) == ("fp8", "hybrid")


def test_data_that_is_still_to_be_given(read):
    lines = text("nemo.yaml")
    start, end = lines.index("    data_prefix:"), lines.index("    splits_string")
    found = read(a__yaml=lines[:start] + "    data_prefix: ???\n" + lines[end:])
    assert found.spec.data.sources is None


def test_overrides(read):
    found = read(
        run__sh="python megatron_gpt_pretraining.py --config-name=a trainer.devices=8 "
        "model.optim.lr=2e-4 model.encoder_seq_length=2048 model.micro_batch_size=4\n"
    )
    assert found.files[0].format == "nemo"
    assert found.spec.optimizer.learning_rate == 2e-4
    assert found.spec.architecture.sequence_length == 2048


def test_a_typo(read):
    found = read(a__yaml=text("nemo.yaml").replace("sequence_parallel:", "sequence_paralel:"))
    assert strange(found) == {"model.sequence_paralel": (58, "model.sequence_parallel")}
