"""What is shipped: a wheel with its assets, which works without torch where that is promised."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from surefoot.records import StepRecord, TrainSpec
from surefoot.runs import RunWriter

ROOT = Path(__file__).resolve().parents[2]


def closure(*extras: str) -> set[str]:
    """Names of all that surefoot brings with some extras, in this environment."""
    found: set[str] = set()
    queue = [Requirement(f"surefoot[{','.join(extras)}]")]
    while queue:
        requirement = queue.pop()
        name = normal(requirement.name)
        for extra in ("", *requirement.extras):
            if f"{name}[{extra}]" in found:
                continue
            found.add(f"{name}[{extra}]")
            for text in metadata.requires(name) or []:
                needed = Requirement(text)
                if not needed.marker or needed.marker.evaluate({"extra": extra}):
                    queue.append(needed)
    return {item.partition("[")[0] for item in found} - {"surefoot"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling", reason="building needs the dev extra: scripts/_env")
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q",
         "--no-index", "-w", folder, ROOT],
        check=True,
    )  # fmt: skip
    (path,) = folder.glob("surefoot-*.whl")
    return path


def test_the_wheel_holds_every_file_of_the_package(wheel):
    shipped = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    wanted = {
        str(path.relative_to(source))
        for path in (source / "surefoot").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= shipped
    assert "surefoot/py.typed" in shipped
    assert any(name.endswith("licenses/LICENSE") for name in shipped)
    assert not [name for name in shipped if name.startswith(("tests", "docs"))]


def test_the_wheel_is_small(wheel):
    assert wheel.stat().st_size < 5e6


@pytest.fixture(scope="module")
def base(wheel, tmp_path_factory):
    """A virtual environment with the wheel and its base dependencies, and nothing else.

    The dependencies are those of this environment, by link: what is not declared is not there.
    """
    folder = tmp_path_factory.mktemp("base") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.run([python, "-c", ask], capture_output=True, text=True).stdout.strip())
    for name in closure():
        found = metadata.distribution(name)
        for top in {file.parts[0] for file in found.files or [] if file.parts[0] != ".."}:
            target = Path(str(found.locate_file(top)))
            if target.exists() and not (site / top).exists():
                (site / top).symlink_to(target)
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps",
         "--no-index", wheel],
        check=True,
    )  # fmt: skip
    return folder


def call(base: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(
        [base / "bin" / words[0], *words[1:]], cwd=cwd, env=environment,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_there_is_no_torch_in_it(base, tmp_path):
    done = call(base, "python", "-c", "import torch", cwd=tmp_path)
    assert "No module named 'torch'" in done.stderr


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["explain", "SPK003"], ["explain"]])
def test_what_needs_no_run(base, tmp_path, words):
    done = call(base, "surefoot", *words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_a_report_without_torch(base, tmp_path):
    with RunWriter.create(tmp_path / "runs" / "mine", TrainSpec(name="mine"), {}, {}) as writer:
        for step in range(1, 41):
            writer.append(StepRecord(step=step, values={"loss": 5.0 - 0.01 * step}))
        writer.flush()
    done = call(base, "surefoot", "report", "runs/mine", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "runs" / "mine" / "report.html").read_text("utf-8")
    assert "mine" in page
    assert "plotly" in page.lower()


def test_a_log_and_a_configuration_without_torch(base, tmp_path):
    lines = [f"iter {i}: loss {4 - i / 100:.4f}, time 300.00ms, mfu 30.00%" for i in range(40)]
    (tmp_path / "train.log").write_text("\n".join(lines))
    done = call(base, "surefoot", "diagnose", "train.log", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "read as  nanoGPT" in done.stdout
    (tmp_path / "args.txt").write_text("--num-layers 12\n--hidden-size 768\n--lr 3e-4\n")
    done = call(base, "surefoot", "check", "args.txt", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "optimizer.learning_rate" in done.stdout
    done = call(base, "surefoot", "explain", "CFG001", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "words",
    [
        ["train", "recipe.toml", "--name", "x"],
        ["export", "runs/mine", "--out", "y"],
        ["data", "show", "runs/mine", "--step", "1"],
    ],
)
def test_what_needs_torch_says_so(base, tmp_path, words):
    shutil.copy(ROOT / "recipes" / "stdlib-1m.toml", tmp_path / "recipe.toml")
    RunWriter.create(tmp_path / "runs" / "mine", TrainSpec(name="mine"), {}, {}).close()
    done = call(base, "surefoot", *words, cwd=tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "pip install 'surefoot[torch]'" in line
    assert not (tmp_path / "runs" / "x").exists()


# ---------------------------------------------------------------------------------- constraints


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {normal(name): version for name, version in pairs}


def test_everything_that_the_scripts_install_is_pinned_and_nothing_else():
    pytest.importorskip("hatchling", reason="it is of the dev extra: scripts/_env")
    # What torch requires to the version (its CUDA libraries) is left to torch.
    wanted = {name for name in closure("dev") if not re.match(r"(nvidia|cuda|triton)", name)}
    assert wanted - set(pinned()) == set()
    # Pins for other Python versions or systems would be all right; there are none so far.
    assert set(pinned()) - wanted == set()


def test_pins_fit_what_is_declared():
    for text in metadata.requires("surefoot") or []:
        requirement = Requirement(text)
        if requirement.name != "surefoot":
            assert requirement.specifier.contains(pinned()[normal(requirement.name)]), text
