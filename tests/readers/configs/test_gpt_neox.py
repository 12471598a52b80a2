"""GPT-NeoX: files that are merged, keys with hyphens and underscores."""

import pytest

from .trainer_samples import assumed, rows, sample, strange, text

ROWS = {
    "architecture.attention_dropout": (0.0, 52),
    "architecture.dropout": (0.0, 51),
    "architecture.heads": (16, 8),
    "architecture.layers": (24, 6),
    "architecture.max_positions": (2048, 10),
    "architecture.norm": ("rmsnorm", 11),
    "architecture.norm_eps": (1e-06, 12),
    "architecture.parallel_blocks": (True, 16),
    "architecture.position": ("rope", 13),
    "architecture.rope_fraction": (0.25, 14),
    "architecture.sequence_length": (2048, 9),
    "architecture.tied_embeddings": (False, 15),
    "architecture.width": (1024, 7),
    "batch.accumulation": (8, 41),
    "batch.micro_size": (4, 40),
    "data.sources": (("data/books_text_document",), 2),
    "data.tokenizer": ("data/tokens.json", 3),
    "data.tokenizer_kind": ("HFTokenizer", 4),
    "data.workers": (1, 43),
    "init.depth_scaled_outputs": (True, 22),
    "init.method": ("small_init", 21),
    "interval.checkpoint": (1000, 67),
    "interval.evaluate": (2000, 68),
    "interval.evaluate_batches": (12, 69),
    "interval.log": (5, 70),
    "optimizer.beta1": (0.9, 28),
    "optimizer.beta2": (0.95, 28),
    "optimizer.clip_norm": (0.5, 49),
    "optimizer.eps": (1e-08, 29),
    "optimizer.learning_rate": (0.0003, 27),
    "optimizer.name": ("adamw", 25),
    "optimizer.weight_decay": (0.1, 50),
    "parallelism.overlap_grad_reduce": (True, 36),
    "parallelism.pipeline": (1, 3),
    "parallelism.recompute": ("full", 45),
    "parallelism.recompute_layers": (2, 46),
    "parallelism.tensor": (2, 4),
    "parallelism.zero_stage": (1, 35),
    "precision.compute": ("fp16", 55),
    "precision.initial_loss_scale": (32768.0, 57),
    "precision.loss_scale_hysteresis": (2, 59),
    "precision.loss_scale_window": (500, 58),
    "precision.min_loss_scale": (1.0, 60),
    "schedule.decay_steps": (50000, 64),
    "schedule.kind": ("cosine", 65),
    "schedule.min_learning_rate": (3e-05, 32),
    "schedule.steps": (50000, 63),
    "schedule.warmup_fraction": (0.02, 66),
}


def both():
    return sample("gpt_neox.yml", "gpt_neox_local.yml")


def test_every_field_has_its_line():
    found = both()
    assert rows(found) == ROWS
    assert found.spec.sources["data.sources"].file.endswith("gpt_neox_local.yml")
    assert found.findings == ()


def test_keys_are_told_as_they_were_written():
    sources = both().spec.sources
    assert sources["parallelism.pipeline"].flag == "pipe-parallel-size"
    assert sources["parallelism.tensor"].flag == "model_parallel_size"


def test_what_neox_args_fill_in():
    filled = assumed(both(), "GPT-NeoX 2.0")
    assert filled["architecture.ff_width"] == 4096
    assert filled["architecture.rope_theta"] == 10000.0
    assert "init.std" not in filled  # small_init takes it from the width


def test_no_key_in_two_files(read):
    found = read(a__yml=text("gpt_neox.yml"), b__yml='{"data-path": "x", "num_layers": 24, '
                 '"vocab-file": "y", "save": "z"}\n')  # fmt: skip
    clash = [f for f in found.findings if f.code == "CFG001"]
    assert len(clash) == 1
    assert "num_layers" in clash[0].message
    assert "refuses" in clash[0].message


def test_a_typo(read):
    found = read(a__yml=text("gpt_neox.yml").replace('"hidden-size"', '"hiden-size"'))
    assert strange(found) == {"hiden-size": (7, "hidden_size")}


def test_bf16(read):
    lines = text("gpt_neox.yml").replace('"enabled": true,', '"enabled": true, "type": "bfloat16",')
    found = read(a__yml=lines)
    assert found.spec.precision.compute == "bf16"
    assert found.spec.precision.initial_loss_scale is None  # nothing is scaled


def test_a_static_loss_scale(read):
    found = read(a__yml=text("gpt_neox.yml").replace('"loss_scale": 0', '"loss_scale": 128'))
    assert found.spec.precision.static_loss_scale == 128.0
    assert found.spec.precision.initial_loss_scale is None


@pytest.mark.parametrize(
    ("extra", "activation"),
    [
        ('"activation": "silu", "mlp_type": "llama",', "swiglu"),
        ('"activation": "silu",', "silu"),
        ('"activation": "geglu",', "geglu"),
    ],
)
def test_gates(read, extra, activation):
    found = read(a__yml=text("gpt_neox.yml").replace('"norm"', extra + '\n  "norm"'))
    assert found.spec.architecture.activation == activation


def test_checkpoints_on_a_log_scale_have_no_interval(read):
    lines = text("gpt_neox.yml").replace(
        '"checkpoint-factor"', '"checkpoint-scale": "log", "checkpoint-factor"'
    )
    assert read(a__yml=lines).spec.interval.checkpoint is None


def test_numbers_that_yaml_reads_as_text(read):
    found = read(a__yml=text("gpt_neox.yml").replace("0.00003", "3e-5"))
    assert found.spec.schedule.min_learning_rate == 3e-5
    assert [note.key for note in found.remarks] == ["min_lr"]


def test_a_file_without_a_first_comment_is_no_json(read):
    lines = text("gpt_neox.yml").split("\n", 1)[1]
    assert lines.startswith("{")
    found = read(a__yml=lines)
    assert found.files[0].format == "gpt-neox"
    assert found.spec.architecture.layers == 24
