"""What comments say of the machine; and what looks alike and says nothing of it."""

import pytest

from surefoot.readers.configs.documents import Document
from surefoot.readers.configs.documents.hints import hints


def told(*comments):
    document = Document("x", "arguments", {}, comments=list(enumerate(comments, start=1)))
    return {hint.field.partition(".")[2]: hint.value for hint in hints(document)}


@pytest.mark.parametrize(
    ("comment", "want"),
    [
        ("launcher: 64 nodes x 4 GPUs (V100 32GB)",
         {"nodes": 64, "devices_per_node": 4, "world_size": 256, "device": "V100 32GB"}),
        ("1 node x 8 H100", {"nodes": 1, "devices_per_node": 8, "world_size": 8, "device": "H100"}),
        ("4 nodes, 8 NPUs each", {"nodes": 4, "devices_per_node": 8, "world_size": 32}),
        ("4 nodes, 32 GPUs in total", {"nodes": 4, "devices_per_node": 8, "world_size": 32}),
        ("one V100 32GB", {"world_size": 1, "device": "V100 32GB"}),
        ("128 x H100, measured 296.5; table on 768 GPUs", {"world_size": 128, "device": "H100"}),
        ("8x A100-80GB", {"world_size": 8, "device": "A100-80GB"}),
        ("launcher: 64 GPUs (A100 40GB)", {"world_size": 64, "device": "A100 40GB"}),
        ("world size: 16 ranks", {"world_size": 16}),
        ("SBATCH --nodes=48", {"nodes": 48}),
        ("SBATCH --gres=gpu:a100:8   # all", {"devices_per_node": 8}),
    ],
)  # fmt: skip
def test_comments_that_tell(comment, want):
    assert told(comment) == want


@pytest.mark.parametrize(
    "comment",
    ["", "for 5 * 8 ranks of something", "this took 64 GPUs a week", "batch of 8 x 1024 tokens",
     "TODO: try 2 nodes", "SBATCH --time=100:00:00", "see table 4, 8 GPUs are faster", "x" * 5000,
     "4.2M tokens on A100 would be nice"],
)  # fmt: skip
def test_comments_that_tell_nothing(comment):
    assert told(comment) == {}


def test_a_script_for_slurm():
    assert told("SBATCH --nodes=4", "SBATCH --gres=gpu:8") == {
        "nodes": 4, "devices_per_node": 8, "world_size": 32,
    }  # fmt: skip


def test_long_comments_take_no_time():
    assert told(*["1 " * 190] * 2000) == {}
