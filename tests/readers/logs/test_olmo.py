"""OLMo and OLMo-core: blocks of several lines."""

import math
import re
import time

import pytest

from surefoot.readers import read_run
from surefoot.readers.logs.olmo import Olmo
from surefoot.readers.text import Line


def test_the_real_log(corpus):
    path = corpus("olmo-1b-tied/OLMo-1B-tied-train.log")
    blocks = {}
    for line in path.read_text().splitlines():
        head = re.search(r"\[step=(\d+)/10000,epoch=0\]", line)
        if head:
            values = blocks.setdefault(int(head[1]), {})
        pair = re.fullmatch(r"    (\S.*?)=([\d.,e-]+)", line)
        if pair and blocks:
            values[pair[1]] = float(pair[2].replace(",", ""))
    run = read_run(path)
    assert run.reading["format"] == "olmo"
    assert len(blocks) == 3000
    frame = run.signals
    assert frame["step"].to_list() == list(blocks)
    names = {
        "train/CrossEntropyLoss": ("loss", 1.0),
        "optim/total_grad_norm": ("grad_norm", 1.0),
        "train/Perplexity": ("perplexity", 1.0),
        "throughput/total_tokens": ("consumed_tokens", 1),
        "throughput/device/tokens_per_second": ("tokens_per_second_per_device", 1.0),
        "System/Peak GPU Memory (MB)": ("memory", 1e6),
        "throughput/total_training_Gflops": ("throughput_total_training_gflops", 1.0),
        "throughput/total_training_log_Gflops": ("throughput_total_training_log_gflops", 1.0),
        "throughput/device/batches_per_second": ("throughput_device_batches_per_second", 1.0),
    }
    for key, (name, factor) in names.items():
        expected = [values[key] * factor if key in values else None for values in blocks.values()]
        assert frame[name].to_list() == expected, key
    assert {name for name, _ in names.values()} | {"step", "attempt", "epoch", "timestamp"} == set(
        frame.columns
    )
    assert [info.step for info in run.checkpoints] == [0, 500, 1000, 1500, 2000, 2500]
    assert run.reading["facts"]["steps"] == 10000
    assert len(run.reading["attempts"]) == 1


HEAD = "2025-01-01 10:00:00.500\thost-a:0\tolmo.train:979\tINFO\t"
LOG = f"""\
{HEAD}Pre-train system metrics
    System/Peak GPU Memory (MB)=9,420
{HEAD}[step=1/2000,epoch=0]
    optim/total_grad_norm=11.50
    train/CrossEntropyLoss=11.25
    train/Perplexity=76,879
    train/ZLoss=0.0012
    optim/learning_rate_group0=1.5e-05
{HEAD}[step=2/2000,epoch=0]
    train/CrossEntropyLoss=nan
    optim/total_grad_norm=inf
{HEAD}Running evaluation for 'c4-validation'...
{HEAD}[eval_step=1/10]
{HEAD}c4-validation
    eval/c4-validation/CrossEntropyLoss=9.500
    eval/c4-validation/Perplexity=13,359
{HEAD}wiki-validation
    eval/wiki-validation/CrossEntropyLoss=9.900
{HEAD}Unsharded checkpoint saved to /ckpt/step2-unsharded
{HEAD}[step=3/2000,epoch=0]
{HEAD}Loading checkpoint from /ckpt/step2-unsharded
{HEAD}[step=3/2000,epoch=0]
    train/CrossEntropyLoss=10.00"""


def test_blocks_of_olmo(read_text):
    run = read_text(LOG)
    one, two, three = run.signals.rows(named=True)
    assert one["loss"] == 11.25
    assert one["grad_norm"] == 11.5
    assert one["perplexity"] == 76879.0
    assert one["z_loss"] == 0.0012
    assert one["learning_rate"] == 1.5e-5
    assert one["epoch"] == 0.0
    assert one["timestamp"] == 1735725600.5
    assert "memory" not in run.signals.columns  # told before the first step
    assert math.isnan(two["loss"])
    assert two["grad_norm"] == math.inf
    assert two["validation_loss"] == 9.5
    assert two["eval_wiki_validation_crossentropyloss"] == 9.9
    assert two["eval_c4_validation_perplexity"] == 13359.0
    assert three["loss"] == 10.0
    assert [(e.kind, e.step) for e in run.events] == [("checkpoint", 2), ("resumed", 2)]
    assert len(run.reading["attempts"]) == 2


CORE = """\
2025-01-01 10:00:00\thost:0\tolmo_core.train.callbacks.console_logger:90\tINFO\t\
[step=100/???,epoch=1,eta=1 day2:03:04(hard stop)]
    train/CE loss=3.250
    train/PPL=25.79
    optim/total grad norm=0.5000
    optim/LR (group 0)=3.0e-04
    optim/step skipped=0.0
    throughput/total tokens=1,048,576
    throughput/device/TPS=12,500
    throughput/device/TPS (actual avg)=12,000
    throughput/device/MFU=41.50
    gpu_memory/GPU active mem (GiB)=64.50
2025-01-01 10:00:01\thost:0\tolmo_core.train.callbacks.evaluator_callback:90\tINFO\t\
[eval=lm,step=5/10]
2025-01-01 10:00:01\thost:0\tolmo_core.train.callbacks.evaluator_callback:90\tINFO\t\
Finished lm evals in 3.2 seconds. Metrics:
    pile/CE loss=3.500
    pile/PPL=33.12
2025-01-01 10:00:02\thost:0\tolmo_core:1\tINFO\tEvaluation speed:
    pile (+variants): 3.2 sec (10 batches)
[step=101/500]
    train/CE loss=3.125
"""


def test_blocks_of_olmo_core(read_text):
    run = read_text(CORE)
    first, second = run.signals.rows(named=True)
    expected = {
        "step": 100, "loss": 3.25, "perplexity": 25.79, "grad_norm": 0.5, "learning_rate": 3e-4,
        "update_skipped": 0, "consumed_tokens": 1048576, "tokens_per_second_per_device": 12500.0,
        "mfu": 0.415, "memory": 64.5 * 2**30, "validation_loss": 3.5, "epoch": 1.0,
        "eval_lm_pile_ppl": 33.12, "mean_tokens_per_second_per_device": 12000.0,
    }  # fmt: skip
    assert {key: first[key] for key in expected} == pytest.approx(expected)
    assert second["step"] == 101
    assert second["loss"] == 3.125
    assert run.reading["facts"]["steps"] == 500


def test_ranks_are_kept_apart(read_text):
    run = read_text(
        "[rank0]:[step=1/9,epoch=0]\n[rank1]:[step=1/9,epoch=0]\n"
        "[rank0]:    train/CrossEntropyLoss=5.5\n[rank1]:[step=2/9,epoch=0]\n"
        "[rank0]:    train/Perplexity=244\n[rank0]:[step=2/9,epoch=0]\n"
        "[rank0]:    train/CrossEntropyLoss=4.5\n"
    )
    assert run.signals["loss"].to_list() == [5.5, 4.5]
    assert run.signals["perplexity"].to_list() == [244.0, None]


@pytest.mark.parametrize(
    "text", ['f"[step={step}/{max_steps},epoch={epoch}]"', "    lr=0.1", "[eval=lm,step=5/10]"]
)
def test_what_is_no_record(text):
    parser = Olmo()
    assert [*parser.feed(Line(1, text)), *parser.feed(Line(2, "    a=1")), *parser.finish()] == []


@pytest.mark.parametrize("text", ["x" * 10**7, "=" * 10**7, " " * 10**7, "[step=1/2" * 10**6])
def test_long_lines_take_no_time(text):
    begin = time.process_time()
    list(Olmo().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0


def test_norms_of_tensors_are_values_of_places(read_text):
    run = read_text(
        "[step=1/9,epoch=0]\n    train/CrossEntropyLoss=5.500\n"
        "    optim/grad/transformer.blocks.0.att_proj.weight.norm=0.2500\n"
        "    optim/grad/transformer.blocks.1.att_proj.weight.norm=0.5000\n"
    )
    assert run.places == {
        "grad_norm": (
            "transformer.blocks.0.att_proj.weight",
            "transformer.blocks.1.att_proj.weight",
        )
    }
    assert run.signals["grad_norm@places"].to_list() == [[0.25, 0.5]]


def test_headings_of_the_first_versions(read_text):
    run = read_text("[step=7/2e12T]\n    train/CrossEntropyLoss=5.500\n[step=8/100]\n    train/C")
    assert run.signals.select("step", "loss").rows() == [(7, 5.5)]


def test_steps_with_commas_and_counts_with_suffixes(read_text):
    run = read_text(
        "2026-08-08 12:01:00 INFO [olmo_core.train:68] [step=1,200/2,000,epoch=0,eta=5h11m]\n"
        "    optim/note=None\n"
        "    throughput/total tokens=12.5B\n"
        "    train/CE loss=6.2500\n"
        "2026-08-08 12:03:44 INFO [olmo_core.train:1064] Checkpoint for step 1200 saved "
        "successfully\n"
    )
    row = run.signals.row(0, named=True)
    assert (row["step"], row["loss"], row["consumed_tokens"]) == (1200, 6.25, 12_500_000_000)
    assert run.reading["facts"]["steps"] == 2000
    assert [info.step for info in run.checkpoints] == [1200]
