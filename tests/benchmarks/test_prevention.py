"""The experiments on prevention: the quick form runs, resumes, and its table says what was made."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "prevention"


@pytest.fixture(scope="module")
def parts():
    sys.path.insert(0, str(FOLDER))
    import experiments
    import reading
    import run

    yield experiments, reading, run
    sys.path.remove(str(FOLDER))


def call(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(FOLDER / script), *arguments], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of results that the tests of this file fill, one after the other."""
    return tmp_path_factory.mktemp("prevention")


def test_the_quick_form_runs_and_goes_on_where_it_stopped(parts, made):
    grid, reading, _ = parts
    tmp_path = made
    quick = ("--quick", "--results", str(tmp_path))
    call("run.py", *quick, "--experiment", "starts")
    lines = (tmp_path / "starts.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 2
    # A torn last line is made again, and nothing else is.
    (tmp_path / "starts.jsonl").write_text(lines[0] + "\n" + lines[1][:50], "utf-8")
    told = call("run.py", *quick, "--experiment", "starts", "--experiment", "sensitivity")
    assert told.count(" starts: ") == 1
    keys = [cell.key for cell in grid.cells(("starts",), quick=True)]
    vanilla, scaled = sorted(reading.read(tmp_path, "starts", keys), key=lambda r: r["variant"])[
        ::-1
    ]
    # Spike No More, at step 0 and at a high rate (Takase et al. 2023).
    assert vanilla["profile"][0] / vanilla["profile"][-1] > 4
    assert scaled["profile"][0] / scaled["profile"][-1] < 1.5
    assert scaled["validation_loss"] < vanilla["validation_loss"]
    keys = [cell.key for cell in grid.cells(("sensitivity",), quick=True)]
    found = {(r["variant"][:4], r["rate"]): r for r in reading.read(tmp_path, "sensitivity", keys)}
    # Attention logits grow at a high rate where nothing bounds them.
    grown = found["none", 0.1]["attention_logit_max"] / found["QK-n", 0.1]["attention_logit_max"]
    assert grown > 5


def test_the_quick_form_of_all_and_its_table(parts, made, tmp_path):
    call("run.py", "--quick", "--results", str(made))
    wanted = {cell.key for cell in parts[0].cells(tuple(parts[0].EXPERIMENTS), quick=True)}
    results = parts[2].done(made)
    assert set(results) == wanted
    assert not any(r["diverged"] for r in results.values())
    assert "0 of" in call("table.py", "--results", str(made), "--out", str(tmp_path))
    assert (tmp_path / "RESULTS.md").is_file()


def test_what_is_committed_belongs_to_the_grid(parts):
    grid, _, run = parts
    keys = {cell.key for cell in grid.cells(tuple(grid.EXPERIMENTS))}
    made = run.done(FOLDER / "results")
    assert made, "no result is committed"
    assert set(made) <= keys, "results of cells that the grid no longer has"
    assert len(keys) == len(grid.cells(tuple(grid.EXPERIMENTS))), "two cells have the same key"


def test_the_largest_stable_rate(parts):
    _, reading, _ = parts

    def result(seed, rate, loss, diverged=False):
        return {"seed": seed, "rate": rate, "validation_loss": loss, "diverged": diverged}

    rates = (0.001, 0.01, 0.1)
    slow_then_failing = [result(1, 0.001, 5.0), result(1, 0.01, 3.0), result(1, 0.1, 3.6)]
    assert reading.stable_rates(slow_then_failing, rates) == [(0.01, 0.1)]
    never = [result(1, 0.001, 5.0), result(1, 0.01, 3.0), result(1, 0.1, 3.4)]
    assert reading.stable_rates(never, rates) == [(0.1, float("inf"))]
    nan = [*never[:2], result(1, 0.1, float("nan"))]
    assert reading.stable_rates(nan, rates) == [(0.01, 0.1)]
    assert reading.stable_rates(never[:2], rates) == []  # not finished
    both = reading.stable_rates(slow_then_failing + [r | {"seed": 2} for r in never], rates)
    assert reading.stable_words(both) == "0.01 [0.01, ...)"
