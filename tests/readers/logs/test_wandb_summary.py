"""wandb-summary.json."""

import json
import math

import pytest

from surefoot.readers import read_run

from ..conftest import column

SUMMARY = {
    "train/CrossEntropyLoss": 2.5,
    "train/Perplexity": 12.25,
    "optim/total_grad_norm": math.nan,
    "optim/grad/transformer.blocks.0.ff.weight.norm": 0.5,
    "optim/exp_avg_sq/transformer.blocks.1.ff.weight.norm": 0.25,
    "throughput/total_tokens": 4096,
    "samples": {"_type": "table-file", "ncols": 3},
    "best": {"loss": 2.25},
    "note": "fine",
    "_step": 120,
    "_runtime": 33.5,
    "_timestamp": 1_700_000_000.5,
    "_wandb": {"runtime": 33},
}


@pytest.mark.parametrize("indent", [None, 2])
def test_one_row(read_text, indent):
    run = read_text(json.dumps(SUMMARY, indent=indent), "wandb-summary.json")
    assert run.reading["format"] == "wandb-summary"
    assert column(run, "step") == [120]
    assert column(run, "loss") == [2.5]
    assert column(run, "perplexity") == [12.25]
    assert math.isnan(column(run, "grad_norm")[0])
    assert column(run, "consumed_tokens") == [4096]
    assert column(run, "timestamp") == [1_700_000_000.5]
    assert column(run, "best_loss") == [2.25]
    assert not {"samples_ncols", "note", "_wandb_runtime"} & set(run.signals.columns)
    assert run.places == {
        "grad_norm": ("transformer.blocks.0.ff.weight",),
        "second_moment_norm": ("transformer.blocks.1.ff.weight",),
    }
    assert list(column(run, "grad_norm@places")[0]) == [0.5]


def test_the_step_of_the_trainer_is_taken_before_the_calls_of_the_logger(read_text):
    run = read_text(json.dumps({**SUMMARY, "train/global_step": 60}))
    assert column(run, "step") == [60]
    run = read_text(json.dumps({**SUMMARY, "k": 7}), mapping={"step": "k"})
    assert column(run, "step") == [7]


def test_the_mean_of_the_run_is_not_the_loss(read_text):
    summary = {"train/train_loss": 9.5, "train/train_runtime": 60, "train/loss": 2.5, "_step": 7}
    run = read_text(json.dumps(summary))
    assert column(run, "loss") == [2.5]
    assert "train_train_loss" not in run.signals.columns


def test_keys_of_the_tracker_may_stand_behind_the_first_64_kb(read_text):
    many = {f"optim/grad/layer.{n}.w.norm": n / 8 for n in range(3000)}
    run = read_text(json.dumps({**many, **SUMMARY}))
    assert run.reading["format"] == "wandb-summary"
    assert len(run.places["grad_norm"]) == 3001


def test_a_cut_file_gives_what_is_whole(read_text):
    text = json.dumps({"_step": 5, "loss": 2.5, "acc": 0.5, "lr": 0.25})
    run = read_text(text[:-4])
    assert column(run, "loss") == [2.5]
    assert column(run, "step") == [5]
    assert any("cut short" in problem for problem in run.problems)


def test_a_history_a_line_is_no_summary(read_text):
    text = '{"_step": 1, "loss": 2.5}\n{"_step": 2, "loss": 2.25}\n'
    run = read_text(text)
    assert run.reading["format"] == "jsonl"
    assert column(run, "step") == [1, 2]


def test_corpus(corpus):
    path = corpus("olmo-wandb-summary/wandb-summary.json")
    told = json.loads(path.read_text())
    run = read_run(path)
    assert column(run, "step") == [told["_step"]]
    assert column(run, "loss") == [told["train/CrossEntropyLoss"]]
    assert column(run, "grad_norm") == [told["optim/total_grad_norm"]]
    assert column(run, "memory") == [told["System/Peak GPU Memory (MB)"] * 1e6]
    norms = [key for key in told if key.startswith("optim/grad/") and key.endswith(".norm")]
    assert len(run.places["grad_norm"]) == len(norms) == 65
    first = run.places["grad_norm"].index("module.transformer.blocks.3.ff_out.weight")
    key = "optim/grad/module.transformer.blocks.3.ff_out.weight.norm"
    assert column(run, "grad_norm@places")[0][first] == pytest.approx(told[key], rel=1e-6)
