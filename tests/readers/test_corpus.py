"""Every file of the corpus of real logs is read, as what it is, with all of its rows.

The tests of the formats compare fields and values with a parse of their own; here it is asserted
that no file is forgotten and none is taken for another trainer's.
"""

import pytest

from surefoot.errors import LogError
from surefoot.readers import read_run

from .conftest import REAL

# Folder -> format, and where the folder's list of contents tells them: rows of all attempts.
FORMATS = {
    "bigscience-chronicles": "megatron",
    "bigscience-gpt2-meg": "megatron",
    "bigscience-gpt2-meg-ds-3d": "megatron",
    "deepspeed-chat-step1": "deepspeed",
    "fairseq-fsdp-docs": "fairseq",
    "hf-trainer-state-mt5": "trainer-state",
    "hf-trainer-state-viz": "trainer-state",
    "internevo-docs": "internevo",
    "issue-epfllm-megatron-33": "megatron",
    "issue-fairseq-512": "fairseq",
    "issue-gpt-neox-947": "neox",
    "issue-ipex-llm-1486": "bigdl",
    "issue-llamafactory-8439-npu910b/stdout.log": "transformers",
    "issue-llamafactory-8439-npu910b/trainer_log.jsonl": "llamafactory",
    "issue-megatron-5-v0": "megatron",
    "issue-minfm-4": "keyvalue",
    "issue-mlx-examples-620": "mlx",
    "issue-ms-swift-6836": "megatron",
    "issue-nanogpt-215": "nanogpt",
    "issue-nanotron-390": "nanotron",
    "issue-torchtitan-pr2389": "torchtitan",
    "issue-xtuner-187": "mmengine",
    "llamafactory-nsllm/trainer_log.jsonl": "llamafactory",
    "llamafactory-nsllm/trainer_state.json": "trainer-state",
    "maxtext-docs": "maxtext",
    "mcore-golden-": "megatron-golden",
    "megatron-golden-": "megatron-golden",
    "mindspeed-fsdp2-docs": "megatron",
    "mindspeed-llm-baseline": "mindspeed-baseline",
    "mlperf": "mlperf",
    "modded-nanogpt-2024-10-10_Muon": "modded-nanogpt",
    "modded-nanogpt-2024-10-13_llmc": "llmc",
    "modded-nanogpt-track3": "modded-nanogpt",
    "nemo-resiliency-nb": "nemo",
    "olmo-1b-tied": "olmo",
    "olmo-wandb-summary": "wandb-summary",
    "torchtitan-losses": "csv",
}
ROWS = {
    "bigscience-chronicles/tr11": 11,
    "bigscience-chronicles/tr1-": 8,
    "bigscience-chronicles/tr8": 6,
    "bigscience-gpt2-meg-ds-3d/meg_ds_3d_gpt2_perf_n16-ds-off": 62,
    "bigscience-gpt2-meg-ds-3d/meg_ds_3d_gpt2_perf_n16-ds-on": 49,
    "hf-trainer-state-mt5": 700,
    "issue-ipex-llm-1486": 4,
    "mindspeed-fsdp2-docs": 6,
    "mlperf5-ibm-llama31-405b": 360,
    "modded-nanogpt-2024-10-13_llmc": 19561,
    "nemo-resiliency-nb": 85,
    "olmo-1b-tied": 3000,
    "torchtitan-losses": 100,
}
NO_METRICS = "bigscience-gpt2-hf-ds"
FILES = sorted(
    str(path.relative_to(REAL))
    for path in REAL.glob("*/*")
    if path.is_file() and not path.name.startswith(".")
)


def longest(table: dict, name: str):
    """The entry of the longest key that the name begins with."""
    keys = [key for key in table if name.startswith(key)]
    return table[max(keys, key=len)] if keys else None


@pytest.mark.skipif(not FILES, reason="the corpus of real logs is not at hand")
@pytest.mark.parametrize("name", FILES or [None])
def test_is_read_as_what_it_is(name):
    if name.startswith(NO_METRICS):
        with pytest.raises(LogError, match="the lines most like metrics are"):
            read_run(REAL / name)
        return
    run = read_run(REAL / name)
    assert run.reading["format"] == longest(FORMATS, name)
    steps = run.signals["step"].to_list()
    assert steps == sorted(set(steps))
    rows = len(run.signals) + (0 if run.superseded is None else len(run.superseded))
    expected = longest(ROWS, name)
    assert expected is None or rows == expected
