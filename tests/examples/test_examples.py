"""The examples run, find what they plant, and are short enough to be read."""

import importlib.util
from pathlib import Path

import pytest

from surefoot import runs

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_short_and_tested(path):
    assert len(path.read_text("utf-8").splitlines()) < 65
    assert f'load("{path.stem}")' in Path(__file__).read_text("utf-8")


def test_a_planted_bad_batch_is_found_and_nothing_else(tmp_path):
    example = load("watch_plain_loop")
    assert len((EXAMPLES / "watch_plain_loop.py").read_text("utf-8").splitlines()) < 60
    found = example.main(str(tmp_path / "plain"))
    assert [code for code, _ in found] == ["SPK000", "SPK001"]
    assert all(abs(onset - example.BAD_STEP) <= 1 for _, onset in found)
    assert len(runs.open(tmp_path / "plain").signals) == example.STEPS


def test_a_loop_in_mixed_precision_goes_on_as_a_new_attempt(tmp_path):
    example = load("watch_mixed_precision")
    folder = str(tmp_path / "mixed")
    example.train(folder, last=25)
    example.train(folder, last=40)
    run = runs.open(folder)
    rows = run.signals
    assert rows["step"].to_list() == list(range(1, 41))
    assert rows["attempt"].to_list() == [0] * 20 + [1] * 20
    assert [event.step for event in run.events if event.kind == "checkpoint"] == [10, 20, 30, 40]
    assert rows["loss"][-1] < rows["loss"][0] / 2
    assert rows["clip_factor"].max() <= 1
    assert rows["log_z"].null_count() == 0
    assert rows["batch_size"].unique().to_list() == [64]
    # The scale before it was found is too large for fp16: those steps are left out, and say so.
    assert set(rows["update_skipped"].unique().to_list()) <= {0, 1}
    problems = [problem for problem in run.problems if "mine.pt" not in problem]
    assert problems == []
