"""Arguments in real logs, against a plain parse of the same block."""

import re
from pathlib import Path

import pytest

from surefoot.readers.configs import read_configs

REAL = Path(__file__).parents[4] / "shared" / "corpus"
LOGS = [
    "bigscience-gpt2-meg/meg_gpt2_perf_n16.out",
    "bigscience-gpt2-meg/meg_gpt2_base_n4_dp1_tp4_pp4-1809579.out",
    "bigscience-gpt2-meg/meg_gpt2_base_n64_dp1_tp4_pp64-1809655.out",
    "bigscience-gpt2-meg-ds-3d/meg_ds_3d_gpt2_perf_n16-ds-on.out",
    "bigscience-gpt2-meg-ds-3d/meg_ds_3d_gpt2_perf_n16-ds-off.out",
]
FIELDS = {
    "num_layers": "architecture.layers",
    "hidden_size": "architecture.width",
    "num_attention_heads": "architecture.heads",
    "ffn_hidden_size": "architecture.ff_width",
    "seq_length": "architecture.sequence_length",
    "hidden_dropout": "architecture.dropout",
    "init_method_std": "init.std",
    "lr": "optimizer.learning_rate",
    "min_lr": "schedule.min_learning_rate",
    "adam_beta1": "optimizer.beta1",
    "adam_beta2": "optimizer.beta2",
    "adam_eps": "optimizer.eps",
    "weight_decay": "optimizer.weight_decay",
    "clip_grad": "optimizer.clip_norm",
    "train_iters": "schedule.steps",
    "global_batch_size": "batch.global_size",
    "micro_batch_size": "batch.micro_size",
    "world_size": "parallelism.world_size",
    "data_parallel_size": "parallelism.data",
    "tensor_model_parallel_size": "parallelism.tensor",
    "pipeline_model_parallel_size": "parallelism.pipeline",
    "log_interval": "interval.log",
    "save_interval": "interval.checkpoint",
}


@pytest.mark.parametrize("name", LOGS)
def test_fields_are_those_of_the_block(name):
    path = REAL / name
    if not path.exists():
        pytest.skip(f"the corpus of real logs is not at hand ({name})")
    printed, inside = {}, False
    for number, line in enumerate(path.read_text("utf-8", errors="replace").split("\n"), start=1):
        if "-- arguments --" in line:
            printed, inside = {}, True
        elif "end of arguments" in line:
            inside = False
        elif inside and (match := re.match(r"  (\w+) \.+ (.*)", line)):
            printed[match[1]] = (match[2], number)
    assert len(printed) > 100
    found = read_configs(path)
    spec, stated = found.spec, found.spec.stated()
    compared = 0
    for key, field in FIELDS.items():
        if key in printed and printed[key][0] != "None":
            assert stated[field] == float(printed[key][0]), key
            assert spec.sources[field].line == printed[key][1], key
            assert spec.sources[field].kind == "log"
            compared += 1
    assert compared >= 20
    assert found.findings == ()
    assert found.files[0].format == "megatron"
