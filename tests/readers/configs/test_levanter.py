"""levanter: shares and steps in one key, formats as a policy."""

import pytest

from .trainer_samples import assumed, rows, sample, strange, text

ROWS = {
    "architecture.activation": ("swiglu", 13),
    "architecture.ff_width": (7168, 9),
    "architecture.heads": (16, 11),
    "architecture.kv_heads": (8, 12),
    "architecture.layers": (16, 10),
    "architecture.max_positions": (2048, 7),
    "architecture.norm": ("rmsnorm", 6),
    "architecture.position": ("rope", 6),
    "architecture.qk_norm": (True, 14),
    "architecture.rope_theta": (20000.0, 18),
    "architecture.sequence_length": (2048, 7),
    "architecture.width": (2048, 8),
    "batch.global_size": (1024, 25),
    "batch.micro_size": (4, 26),
    "data.sources": (("example/corpus",), 2),
    "data.tokenizer": ("example/tokens", 4),
    "interval.checkpoint": (10000, 35),
    "interval.evaluate": (1000, 28),
    "loss.z_loss_weight": (0.0001, 45),
    "optimizer.clip_norm": (0.5, 44),
    "optimizer.learning_rate": (0.0003, 38),
    "optimizer.name": ("adamw", 37),
    "optimizer.weight_decay": (0.1, 39),
    "parallelism.recompute": ("full", 15),
    "parallelism.tensor": (2, 29),
    "precision.compute": ("bf16", 24),
    "precision.master": ("fp32", 24),
    "schedule.decay_kind": ("linear", 43),
    "schedule.decay_steps": (10000, 42),
    "schedule.final_factor": (0.05, 40),
    "schedule.kind": ("wsd", 42),
    "schedule.steps": (50000, 27),
    "schedule.warmup_steps": (2000, 41),
    "seed": (4, 20),
}


def test_every_field_has_its_line():
    found = sample("levanter.yaml")
    assert rows(found) == ROWS
    assert strange(found) == {}


def test_what_the_dataclasses_fill_in():
    filled = assumed(sample("levanter.yaml"), "levanter of 2025")
    assert filled["optimizer.beta2"] == 0.95
    assert filled["optimizer.decay_norms"] is False


@pytest.mark.parametrize(
    ("written", "steps", "share"), [("2000", 2000, None), ("0.05", 2500, 0.05), ("0", 0, None)]
)
def test_warm_up(read, written, steps, share):
    lines = text("levanter.yaml").replace("warmup: 2000", f"warmup: {written}")
    lines = lines.replace("  decay: 0.2\n", "")
    schedule = read(a__yaml=lines).spec.schedule
    assert (schedule.warmup_steps, schedule.warmup_fraction) == (steps, share)


def test_without_a_share_the_whole_run_decays(read):
    schedule = read(a__yaml=text("levanter.yaml").replace("  decay: 0.2\n", "")).spec.schedule
    assert (schedule.kind, schedule.decay_steps, schedule.decay_kind) == ("linear", None, None)


@pytest.mark.parametrize(
    ("policy", "compute", "master"),
    [("f32", "fp32", "fp32"), ("p=f32,c=bf16", "bf16", "fp32"), ("bfloat16", "bf16", "bf16")],
)
def test_policies(read, policy, compute, master):
    lines = text("levanter.yaml").replace("p=f32,c=bfloat16", policy)
    precision = read(a__yaml=lines).spec.precision
    assert (precision.compute, precision.master) == (compute, master)


def test_models_as_they_were_written_in_2023(read):
    found = read(
        a__yaml="model:\n  gpt2:\n    hidden_dim: 768\n    num_heads: 12\n"
        "trainer:\n  train_batch_size: 512\n"
    )
    assert rows(found) == {
        "architecture.width": (768, 3),
        "architecture.heads": (12, 4),
        "batch.global_size": (512, 6),
    }
    assert strange(found) == {}


def test_a_part_of_a_file_gets_no_trainer_filled_in(read):
    found = read(a__yaml="model: {type: llama, hidden_dim: 64}\noptimizer: {warmup: 5}\n")
    assert found.spec.schedule.steps is None
    assert found.spec.precision.compute is None


def test_a_typo(read):
    found = read(a__yaml=text("levanter.yaml").replace("min_lr_ratio", "min_lr_rato"))
    assert strange(found) == {"optimizer.min_lr_rato": (40, "optimizer.min_lr_ratio")}


def test_the_case_without_qk_norm(case):
    from surefoot.readers.configs import read_configs

    found = read_configs(case("19-*/config.yaml"))
    stated = rows(found)
    assert stated["architecture.qk_norm"] == (False, 1)
    assert stated["architecture.width"] == (5120, 1)
    assert stated["optimizer.learning_rate"] == (7e-4, 2)
    assert stated["optimizer.clip_norm"] == (0.2, 2)
    assert stated["schedule.kind"] == ("wsd", 2)
    assert stated["schedule.warmup_fraction"] == (0.01, 2)
    assert stated["loss.z_loss_weight"] == (1e-4, 3)
    assert found.spec.schedule.steps is None
    assert strange(found) == {}
