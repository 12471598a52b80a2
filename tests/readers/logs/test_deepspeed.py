"""DeepSpeed: the engine's lines, its pipelines and its chat examples."""

import math
import re
import time

import pytest

from surefoot.readers import read_run
from surefoot.readers.logs.deepspeed import DeepSpeed
from surefoot.readers.points import Point
from surefoot.readers.text import Line, Source, lines

from ..conftest import column

HEAD = "[2023-04-18 01:46:59,142] [INFO] [logging.py:96:log_dist] [Rank 0] "
OVERFLOW = (
    "[2023-04-18 01:46:52,554] [INFO] [loss_scaler.py:188:update_scale] [deepspeed] OVERFLOW! "
    "Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768\n"
)
LOG = f"""\
{HEAD}step=0, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]
{OVERFLOW}{HEAD}step=10, skipped=1, lr=[9.5e-06, 1.9e-05, 9.5e-06], mom=[(0.9, 0.95), (0.9, 0.95)]
[2023-04-18 01:46:59,171] [INFO] [timer.py:199:stop] epoch=0/micro_step=80/global_step=10, \
RunningAvgSamplesPerSec=173.5, CurrSamplesPerSec=171.25, MemAllocated=3.5GB, MaxMemAllocated=22.5GB
{HEAD}rank=0 time (ms) | fwd_microstep: 10.50 | bwd_microstep: 20.25 | step_microstep: 5.00
{HEAD}rank=0 time (ms) | fwd: 84.00 | bwd: 162.00 | step: 5.00
{HEAD}step=20, skipped=1, lr=[9e-06], mom=[(0.9, 0.95)]
[2023-04-18 01:47:00,000] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint \
global_step20 is ready now!
{OVERFLOW}"""


def test_the_engines_lines(read_text):
    run = read_text(LOG)
    assert run.reading["format"] == "deepspeed"
    ten, twenty, last = run.signals.rows(named=True)
    expected = {
        "step": 10,
        "skipped_total": 1.0,
        "learning_rate": 9.5e-6,
        "lr_group1": 1.9e-5,
        "samples_per_second": 171.25,
        "samples_per_second_average": 173.5,
        "memory_allocated": 3.5 * 2**30,
        "memory": 22.5 * 2**30,
        "time_fwd": 0.084,
        "time_bwd_microstep": 0.02025,
        "time_step": 0.005,
        "timestamp": 1681782419.142,
        "update_skipped": 1,
    }
    assert {key: ten[key] for key in expected} == pytest.approx(expected)
    assert twenty["learning_rate"] == 9e-6
    assert twenty["update_skipped"] is None
    # The second overflow came after step 20: it is of the step that was never told.
    assert (last["step"], last["update_skipped"], last["learning_rate"]) == (21, 1, None)
    assert [(e.kind, e.step) for e in run.events] == [
        ("update_skipped", 10),
        ("checkpoint", 20),
        ("update_skipped", 21),
    ]


def test_a_pipelines_lines(read_text):
    run = read_text(
        f"{HEAD}step=10, skipped=1, lr=[9.5e-06], mom=[(0.9, 0.95)]\n"
        "steps: 10 loss: 5.2500 iter time (s): 0.125 samples/sec: 256.000\n"
        "steps: 20 loss: nan iter time (s): 0.250 samples/sec: 128.000\n"
    )
    first, second = run.signals.rows(named=True)
    assert run.reading["format"] == "deepspeed-losses"
    assert (first["step"], first["loss"], first["learning_rate"]) == (10, 5.25, 9.5e-6)
    assert (first["step_time"], first["samples_per_second"]) == (0.125, 256.0)
    assert math.isnan(second["loss"])


def test_losses_of_the_chat_examples_are_of_micro_batches(read_text):
    text = "***** Running training *****\n***** Evaluating perplexity, Epoch 0/2 *****\n"
    text += "ppl: 4998.5, loss: 8.5\n"
    for epoch in range(2):
        text += f"Beginning of Epoch {epoch + 1}/2, Total Micro Batches 4\n"
        for micro in range(4):
            for rank in (0, 1):
                loss = 9.0 - epoch - micro / 10
                text += f"Epoch: {epoch}, Step: {micro}, Rank: {rank}, loss = {loss + rank}\n"
            if micro == 1:
                text += f"{HEAD}step={epoch * 2 + 1}, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]\n"
        text += f"***** Evaluating perplexity, Epoch {epoch + 1}/2 *****\nppl: {20 - epoch}\n"
    run = read_text(text)
    assert run.signals["step"].to_list() == list(range(8))
    assert run.signals["loss"].to_list() == [9.0, 8.9, 8.8, 8.7, 8.0, 7.9, 7.8, 7.7]
    assert run.signals["learning_rate"].to_list() == [
        None,
        1e-5,
        None,
        None,
        None,
        1e-5,
        None,
        None,
    ]
    told = run.signals.select("step", "validation_perplexity").drop_nulls().rows()
    assert told == [(0, 4998.5), (3, 20.0), (7, 19.0)]
    assert len(run.reading["attempts"]) == 1


def test_a_real_log_by_a_plain_parse(corpus):
    path = corpus("deepspeed-chat-step1/opt-1.3b-globalBatchSize128.log")
    text = path.read_text()
    run = read_run(path)
    told = re.findall(r"\] step=(\d+), skipped=(\d+), lr=\[([^,\]]+)", text)
    speed = re.findall(r"global_step=(\d+), .*?=([\d.]+), .*?=([\d.]+), .*?Max\w+=([\d.]+)GB", text)
    rows = run.signals.filter(run.signals["learning_rate"].is_not_null())
    assert len(told) == len(speed) == 736
    assert rows["step"].to_list() == [int(step) for step, _, _ in told]
    assert rows["skipped_total"].to_list() == [float(n) for _, n, _ in told]
    assert rows["learning_rate"].to_list() == [float(n) for _, _, n in told]
    assert rows["samples_per_second"].to_list() == [float(n) for _, _, n, _ in speed]
    assert rows["memory"].to_list() == [float(n) * 2**30 for *_, n in speed]
    ppl = [float(n) for n in re.findall(r"^ppl: (\S+)$", text, re.M)]
    assert run.signals["validation_perplexity"].drop_nulls().to_list() == ppl
    assert run.signals["step"][0] == 0  # evaluated before training
    skipped = [e for e in run.events if e.kind == "update_skipped"]
    assert len(skipped) == text.count("OVERFLOW!") == 139
    assert skipped[0].step == 10
    assert len(run.reading["attempts"]) == 1


def test_a_log_without_metrics_has_none(corpus):
    path = corpus("bigscience-gpt2-hf-ds/hf_ds_gpt2_base_n4-1832555.out")
    parser = DeepSpeed()
    with Source(path) as source:
        items = [item for line in lines(source) for item in parser.feed(line)]
    assert [item for item in items if isinstance(item, Point)] == []


@pytest.mark.parametrize(
    "text",
    [
        "print(f'step={step}, skipped={skipped}, lr={lr}')",
        "SamplesPerSec=1.5 was reported",
        "we saw ppl: 20 in the paper",
        "{'loss': 2.5, 'learning_rate': 1e-05, 'epoch': 0.1}",
        "step=5 loss=2.5 lr=1e-4",
        " iteration        2/     100 | lm loss: 3.0E+00 |",
    ],
)
def test_what_is_of_others_is_not_read(text):
    assert [i for i in DeepSpeed().feed(Line(1, text)) if isinstance(i, Point)] == []


@pytest.mark.parametrize(
    "text",
    [
        "x" * 2**20,
        "1 " * 2**19,
        "step=1, skipped=1, lr=[" + "1," * 2**19,
        "epoch=0/micro_step=1/global_step=1, SamplesPerSec=" + "A1=" * 2**18,
        "OVERFLOW! Rank 1 " * 2**15,
        "ppl: 1" * 2**17,
        "ppl: " + "1" * 2**20 + "|",
        "time (ms) | a: " + "1" * 2**20 + "|",
        "Epoch: 0, Step: 1, " * 2**15,
        "steps: 1 loss: 1 " * 2**15,
    ],
)
def test_time_is_linear(text):
    begin = time.process_time()
    list(DeepSpeed().feed(Line(1, text)))
    assert time.process_time() - begin < 1.0


def test_reinforcement_learning_of_the_chat_examples(read_text):
    """Actor and critic each have an engine; steps are the loop's, from 0."""
    record = (
        "epoch: {e}|step: {s}|ppo_ep: 1|act_loss: {a}|cri_loss: 0.25|unsuper_loss: 0.0\n"
        "average reward score: 1.625\n"
        "-----------------------------------\n"
        "|E2E latency=3.75s |Gather latency=0.00s (0.00%) |Generate time=2.50s (66.67%) "
        "|Training time=1.25s (33.33%) |Others=0.00 (0.00%)|CurSamplesPerSec=17.25 "
        "|AvgSamplesPerSec=16.50\n"
    )
    engine = (
        "[2023-04-18 08:00:00,100] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=2, "
        "lr=[2e-06, 2e-06], mom=[(0.9, 0.95)]\n"
    )
    text = (
        "Beginning of Epoch 1/2, Total Generation Batches 40\n"
        + record.format(e=0, s=0, a=-0.5)
        + engine
        + record.format(e=1, s=3, a="nan")
    )
    run = read_text(text)
    assert column(run, "step") == [0, 43]
    assert column(run, "act_loss")[0] == -0.5
    assert math.isnan(column(run, "act_loss")[1])
    assert column(run, "average_reward_score") == [1.625, 1.625]
    assert column(run, "e2e_latency") == [3.75, 3.75]
    assert column(run, "cursamplespersec") == [17.25, 17.25]
    assert column(run, "learning_rate") == [2e-6, None]


def test_what_scripts_print_beside_the_engine(read_text):
    """HelloDeepSpeed's loss, a perplexity by micro-batches, and the old overflow message."""
    engine = (
        "[2022-11-24 01:44:43,186] [INFO] [logging.py:68:log_dist] [Rank 0] step={0}, skipped=1, "
        "lr=[5e-05], mom=[(0.9, 0.999)]\n"
    )
    text = (
        "[2022-11-24 01:44:40,000] [INFO] [logging.py:68:log_dist] [Rank 0] Overflow detected. "
        "Skipping step. Attempted loss scale: 512.0, reducing to 256.0\n"
        + engine.format(10)
        + "2022-11-24 01:44:43.190 | INFO     | __main__:log_dist:54 - [Rank 0] Loss: 9.8750\n"
        + engine.format(20)
        + "'step':40, 'ppl': 24.5, 'seq_len': 1024, 'consume layer-tokens': 18404352\n"
    )
    run = read_text(text)
    assert column(run, "step") == [10, 20]
    assert column(run, "loss") == [9.875, None]
    assert column(run, "update_skipped") == [1, None]
    assert column(run, "validation_perplexity") == [None, 24.5]
    assert column(run, "consume_layer_tokens") == [None, 18404352.0]
