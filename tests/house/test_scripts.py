"""The four scripts and `_env`, run against a fake interpreter, a fake pip and a fake disk.

PATH holds nothing but what these tests put there, so no package index is asked and nothing is
installed; a fake is a small shell script that writes down how it was called.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = (
    "awk bash cat chmod date dirname env flock ls mkdir mktemp mv printf rm sed sleep tail"
).split()
SCRIPTS = ["_env", "demo", "docs", "lint", "test"]

# Answers for a Python of a given version; `-m venv` makes a folder with FAKE_VENV_PYTHON in it.
FAKE_PYTHON = """#!/bin/bash
case "$*" in
*version_info*3,\\ 11*) exit {too_old} ;;
*ensurepip*) exit {no_venv} ;;
--version) echo "Python {version}" ;;
"-m venv "*)
    for last; do :; done
    echo "venv $*" >> "$FAKE_LOG"
    mkdir -p "$last/bin"
    [ "${{FAKE_DIE_AT:-}}" != venv ] || kill -KILL $PPID
    cat "$FAKE_VENV_PYTHON" > "$last/bin/python"; chmod +x "$last/bin/python" ;;
*sys.executable*) echo /fake/bin/python ;;
*python%d.%d-venv*) echo python3.11-venv ;;
*) exec "$REAL_PYTHON" "$@" ;;
esac
"""
# The python of the made environment: pip writes down its arguments; all else is the real one.
FAKE_VENV_PYTHON = """#!/bin/bash
case "$*" in
"-m pip install"*)
    echo "pip $*" >> "$FAKE_LOG"
    n=$(awk '/^pip/' "$FAKE_LOG" | awk 'END {print NR}')
    [ "${FAKE_DIE_AT:-}" != "$n" ] || kill -KILL $PPID
    [ "${FAKE_FAIL_AT:-}" != "$n" ] || { echo "No space left on device" >&2; exit 1; }
    [ -z "${FAKE_SLOW:-}" ] || sleep 0.3
    while [ $# -gt 0 ]; do
        [ "$1" != --report ] || cat "$FAKE_REPORT" > "$2"
        shift
    done ;;
*) exec "$REAL_PYTHON" "$@" ;;
esac
"""


class Machine:
    """A folder with the scripts, a PATH with fakes, and what was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "surefoot"
        self.bin = folder / "bin"
        self.log = folder / "log"
        self.venv = self.folder / ".venv"
        (self.folder / "scripts").mkdir(parents=True)
        self.bin.mkdir()
        (folder / "tmp").mkdir()
        for name in [f"scripts/{name}" for name in [*SCRIPTS, "_pins.py"]] + [
            "pyproject.toml",
            "constraints.txt",
        ]:
            shutil.copy(ROOT / name, self.folder / name)
        for tool in TOOLS:
            if found := shutil.which(tool):
                (self.bin / tool).symlink_to(found)
        self.fake("venv-python", FAKE_VENV_PYTHON)
        self.report(cuda=False)
        self.df(90_000)
        self.environment = {
            "PATH": str(self.bin),
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "FAKE_LOG": str(self.log),
            "FAKE_VENV_PYTHON": str(self.bin / "venv-python"),
            "FAKE_REPORT": str(folder / "report.json"),
            "REAL_PYTHON": sys.executable,
        }

    def fake(self, name: str, text: str) -> Path:
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def python(self, name="python3", version="3.11.9", *, venv=True) -> None:
        old = tuple(map(int, version.split(".")[:2])) < (3, 11)
        self.fake(
            name, FAKE_PYTHON.format(version=version, too_old=int(old), no_venv=int(not venv))
        )

    def df(self, megabytes: int) -> None:
        self.fake("df", f"#!/bin/bash\necho Header\necho disk 1 1 {megabytes * 1024} 1% /\n")

    def report(self, *, cuda: bool) -> None:
        needs = ["filelock", "sympy>=1.13"] + ['nvidia-cudnn; platform_system == "Linux"'] * cuda
        item = {
            "download_info": {"url": "https://wheels.example.org/torch/torch-9.0-cp311.whl"},
            "metadata": {"name": "torch", "version": "9.0", "requires_dist": needs},
        }
        text = json.dumps({"install": [item]})
        (self.bin.parent / "report.json").write_text(text)

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.folder / "scripts" / command[0]), *command[1:]],
            env={**self.environment, **environment}, cwd=self.folder.parent,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    def calls(self, word: str = "") -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if line.startswith(word)]

    def forget(self) -> None:
        self.log.unlink(missing_ok=True)


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    made.python()
    return made


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The only line of a refusal."""
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


# ------------------------------------------------------------------------------- what is checked


def test_an_old_python_is_refused_with_a_cure(machine):
    machine.python(version="3.9.18")
    line = one_line(machine.run("_env"))
    assert line.startswith(
        "surefoot: needs Python 3.11 or newer, found Python 3.9.18: install one "
    )
    assert "apt install python3.11 python3.11-venv" in line
    assert "PYTHON=/path/to/python3.12" in line
    assert not machine.venv.exists()


def test_no_python_at_all(machine):
    (machine.bin / "python3").unlink()
    assert "found none" in one_line(machine.run("_env"))


def test_a_newer_python_beside_an_old_one_is_found(machine):
    machine.python(version="3.9.18")
    machine.fake("python3.13", "#!/bin/bash\nexit 127\n")  # a shim that does not run
    machine.python("python3.12", "3.12.1")
    done = machine.run("_env")
    assert done.returncode == 0, done.stderr
    assert f"making {machine.venv} with Python 3.12.1" in done.stderr


def test_a_named_python_is_taken_or_refused(machine):
    machine.python(version="3.9.18")
    machine.python("mine", "3.12.0")
    assert machine.run("_env", PYTHON="mine").returncode == 0
    line = one_line(machine.run("_env", PYTHON="python3", SUREFOOT_VENV=str(machine.bin / "v")))
    assert line == (
        "surefoot: PYTHON=python3 is not a Python 3.11 or newer that runs; name another"
    )


def test_a_missing_venv_module_is_named_with_its_package(machine):
    machine.python(venv=False)
    assert one_line(machine.run("_env")) == (
        "surefoot: python3 has no venv module: apt install python3-venv "
        "(or python3.11-venv where the name has a version)"
    )


def test_a_full_disk_is_said_before_anything_is_made(machine):
    machine.df(1234)
    line = one_line(machine.run("_env"))
    assert f"needs about 3000 MB free in {machine.venv}, found 1234 MB" in line
    assert "SUREFOOT_VENV=/big/disk/venv" in line
    assert not machine.venv.exists()
    assert machine.calls() == []


def test_torch_with_cuda_needs_more_and_that_is_known_before_it_is_fetched(machine):
    machine.report(cuda=True)
    machine.df(5000)
    done = machine.run("_env")
    assert done.returncode == 2
    assert "needs about 8000 MB free" in done.stderr.splitlines()[-1]
    assert [call for call in machine.calls("pip") if "--dry-run" not in call] == []


def test_a_small_folder_for_temporary_files_has_its_own_cure(machine):
    machine.fake(
        "df", '#!/bin/bash\necho H\n[[ "$*" == */tmp ]] && n=900 || n=90000\n'
        "echo d 1 1 $((n * 1024)) 1% /\n",
    )  # fmt: skip
    done = machine.run("_env")
    assert done.returncode == 2
    assert "TMPDIR=/big/disk/tmp" in done.stderr.splitlines()[-1]


def test_an_unknown_argument_and_the_help(machine):
    assert "unknown argument '--fast'" in one_line(machine.run("_env", "--fast"))
    for script in ("_env", "demo", "test"):
        done = machine.run(script, "--help")
        assert done.returncode == 0
        assert done.stdout.splitlines()
        assert "set -euo" not in done.stdout


# ------------------------------------------------------------------------------ what is installed


def test_the_first_run_says_what_it_fetches_and_prints_only_the_folder(machine):
    done = machine.run("_env")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{machine.venv}/bin\n"
    assert "installing about 1700 MB: torch 9.0 for CPUs from wheels.example.org" in done.stderr
    look, build, rest = machine.calls("pip")
    assert "--dry-run" in look
    assert build.endswith(f"-c {machine.folder}/constraints.txt hatchling editables")
    assert rest.endswith(
        f"-c {machine.folder}/constraints.txt --no-build-isolation -e {machine.folder}[dev]"
    )


def test_no_index_is_named(machine):
    machine.run("_env")
    text = " ".join(machine.calls()) + "".join(
        (ROOT / "scripts" / name).read_text() for name in [*SCRIPTS, "_pins.py"]
    )
    for word in ("index-url", "find-links", "://", "trusted-host"):
        assert word not in text


def test_the_second_run_does_nothing_and_takes_no_time(machine):
    machine.run("_env")
    machine.forget()
    start = time.perf_counter()
    done = machine.run("_env")
    assert time.perf_counter() - start < 5
    assert (done.stdout, done.stderr) == (f"{machine.venv}/bin\n", "")
    assert machine.calls() == []


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_changed_inputs_bring_a_finished_environment_up_to_date(machine, name):
    machine.run("_env")
    machine.forget()
    (machine.venv / "kept").touch()
    with (machine.folder / name).open("a") as file:
        file.write("\n# changed\n")
    done = machine.run("_env")
    assert done.returncode == 0
    assert "bringing" in done.stderr
    assert len(machine.calls("pip")) == 2
    assert (machine.venv / "kept").exists()
    machine.forget()
    assert machine.run("_env").returncode == 0
    assert machine.calls() == []


def test_a_moved_checkout_is_noticed(machine):
    machine.run("_env")
    machine.folder.rename(machine.folder.with_name("moved"))
    machine.folder = machine.folder.with_name("moved")
    machine.forget()
    # The programs in it start with the old place's interpreter.
    assert "making it anew" in machine.run("_env").stderr
    assert str(machine.folder) in machine.calls("pip")[-1]


@pytest.mark.parametrize("point", ["venv", "1", "2", "3"])
def test_a_kill_at_any_point_leaves_nothing_that_is_trusted(machine, point):
    done = machine.run("_env", FAKE_DIE_AT=point)
    assert done.returncode == -signal.SIGKILL
    (machine.venv / "half written").touch()
    machine.forget()
    done = machine.run("_env")
    assert done.returncode == 0, done.stderr
    assert "is not finished, or was made for another place: making it anew" in done.stderr
    assert not (machine.venv / "half written").exists()
    assert len(machine.calls("pip")) == 3


def test_a_kill_during_an_update_too(machine):
    machine.run("_env")
    machine.forget()
    (machine.folder / "constraints.txt").write_text("# other\n")
    assert machine.run("_env", FAKE_DIE_AT="2").returncode == -signal.SIGKILL
    assert "making it anew" in machine.run("_env").stderr


def test_an_interpreter_that_is_gone_means_a_new_environment(machine):
    machine.run("_env")
    (machine.venv / "bin" / "python").write_text("#!/nowhere/python\n")
    machine.forget()
    assert "making it anew" in machine.run("_env").stderr
    assert machine.calls("venv")


def test_when_pip_fails_there_is_no_stamp_and_one_line_more(machine):
    done = machine.run("_env", FAKE_FAIL_AT="3")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-2] == "No space left on device"
    assert "pip could not install (its own words are above)" in done.stderr.splitlines()[-1]
    machine.forget()
    assert machine.run("_env").returncode == 0


def test_when_there_is_no_torch_to_be_had(machine):
    done = machine.run("_env", FAKE_FAIL_AT="1")
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert "pip finds no torch for this Python" in last
    assert "--use-system-torch" in last


def test_somebody_elses_environment_is_left_alone(machine):
    machine.venv.mkdir()
    (machine.venv / "pyvenv.cfg").write_text("theirs")
    line = one_line(machine.run("_env"))
    assert f"{machine.venv} exists and was not made by scripts/_env" in line
    assert f"SUREFOOT_VENV={machine.venv}-surefoot" in line
    assert (machine.venv / "pyvenv.cfg").read_text() == "theirs"
    assert machine.run("_env", SUREFOOT_VENV=f"{machine.venv}-surefoot").returncode == 0


def test_two_at_once_install_once(machine):
    processes = [
        subprocess.Popen(
            [machine.folder / "scripts" / "_env"], text=True,
            env={**machine.environment, "FAKE_SLOW": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    answers = [process.communicate(timeout=60) for process in processes]
    assert {out for out, _ in answers} == {f"{machine.venv}/bin\n"}
    assert len(machine.calls("pip")) == 3
    assert any("waiting for it" in err for _, err in answers)


# ------------------------------------------------------------------------------------ system torch


@pytest.fixture
def pins(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import _pins

    return _pins


def test_the_torch_that_is_there_stays(machine):
    done = machine.run("_env", "--use-system-torch")
    assert done.returncode == 0, done.stderr
    assert "--system-site-packages" in machine.calls("venv")[0]
    for call in machine.calls("pip"):
        assert f"-c {machine.venv}/constraints.txt" in call
    assert "torch stays as it is" in done.stderr
    # Later calls keep the choice, without the flag and without the interpreter that has it.
    (machine.bin / "python3").unlink()
    machine.forget()
    assert machine.run("_env").returncode == 0
    assert machine.calls() == []
    (machine.folder / "constraints.txt").write_text("# other\n")
    done = machine.run("_env")
    assert done.returncode == 0, done.stderr
    assert "bringing" in done.stderr


def test_a_refused_system_torch_leaves_no_trace(machine):
    machine.fake(
        "no-torch",
        (machine.bin / "python3")
        .read_text()
        .replace(
            'exec "$REAL_PYTHON" "$@"',
            "echo 'surefoot: --use-system-torch: /x has no torch' >&2; exit 1",
        ),
    )
    line = one_line(machine.run("_env", "--use-system-torch", PYTHON="no-torch"))
    assert line == "surefoot: --use-system-torch: /x has no torch"
    assert not machine.venv.exists()


def test_the_installed_torch_and_its_stack_are_not_pinned_otherwise(pins, tmp_path):
    import torch

    path = tmp_path / "constraints.txt"
    path.write_text("# note\nnumpy==9\nsympy==9\nTyping_Extensions==9\ntorch==9\nmpmath==9\n")
    lines = pins.loosen(str(path)).splitlines()
    assert lines == ["# note", "numpy==9", f"torch=={torch.__version__}"]


def test_a_torch_that_is_missing_or_too_old(pins, tmp_path, monkeypatch):
    pyproject = str(ROOT / "pyproject.toml")
    monkeypatch.setattr(pins, "_version", lambda name: None)
    with pytest.raises(SystemExit, match="has no torch: activate the environment that has it"):
        pins.usable(pyproject)
    monkeypatch.setattr(pins, "_version", lambda name: "2.5.1+cu121")
    with pytest.raises(SystemExit, match=r"torch 2.5.1\+cu121 is too old, 2.6 or newer is needed"):
        pins.usable(pyproject)


def test_a_torch_in_a_virtual_environment_is_made_visible(pins, tmp_path):
    """--system-site-packages shows the base interpreter's packages only."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/bash\necho False\necho {tmp_path}\n")
    python.chmod(0o755)
    pins.visible(str(python))
    import torch

    folders = (tmp_path / "surefoot-system.pth").read_text().split()
    assert str(Path(torch.__file__).parent.parent) in folders


def test_freeze_pins_for_every_build_of_torch(pins):
    lines = pins.freeze().splitlines()
    assert lines[0].startswith("# ")
    pinned = dict(line.split("==") for line in lines[1:])
    assert "+" not in pinned["torch"]
    assert not {"pip", "surefoot"} & set(pinned)
    assert not [name for name in pinned if name.startswith("nvidia")]


def test_freeze_writes_the_constraints_anew_in_an_environment_of_its_own(machine):
    (machine.folder / "constraints.txt").write_text("numpy==1.0\n")
    done = machine.run("_env", "--freeze")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    for call in machine.calls("pip"):
        assert "-c /dev/null" in call
    text = (machine.folder / "constraints.txt").read_text()
    assert text.startswith("# What the scripts install, to the version.")
    assert "\ntorch==" in text
    assert not machine.venv.exists()
    assert list((machine.folder.parent / "tmp").iterdir()) == []


# ------------------------------------------------------------------------------------ test, demo


@pytest.fixture
def ready(machine):
    """`_env` answers at once with a folder of programs that write down their calls."""
    programs = machine.folder / "programs"
    programs.mkdir()
    for name in ("python", "ruff", "surefoot"):
        path = programs / name
        path.write_text('#!/bin/bash\necho "$(basename "$0") $*" >> "$FAKE_LOG"\n')
        path.chmod(0o755)
    (machine.bin / "basename").symlink_to(shutil.which("basename"))
    script = machine.folder / "scripts" / "_env"
    script.write_text(f'#!/bin/bash\necho "_env $*" >> "$FAKE_LOG"\necho {programs}\n')
    return machine


def test_test_lints_and_runs_what_is_not_slow(ready):
    assert ready.run("test").returncode == 0
    calls = [call for call in ready.calls() if not call.startswith("_env")]
    assert calls == [
        "ruff check .",
        "ruff format --check .",
        "python -m mypy",
        "python scripts/_docs.py --check",
        "python -m pytest -n 2 -m not slow",
    ]


def test_test_all_adds_the_slow_ones(ready):
    ready.run("test", "--all")
    assert ready.calls()[-1] == "python -m pytest -n 2"


def test_test_with_arguments_is_pytest_with_them(ready):
    ready.run("test", "--use-system-torch", "tests/data", "-k", "order and not slow")
    assert ready.calls() == [
        "_env --use-system-torch",
        "python -m pytest -n 2 -m not slow tests/data -k order and not slow",
    ]


def test_a_failing_check_stops_with_its_status(ready):
    (ready.folder / "programs" / "ruff").write_text("#!/bin/bash\nexit 7\n")
    assert ready.run("test").returncode == 7
    assert not [call for call in ready.calls() if "pytest" in call]


def test_lint_can_mend(ready):
    ready.run("lint", "--fix")
    assert ready.calls("ruff") == ["ruff check --fix .", "ruff format ."]


def test_demo_trains_a_new_run_each_time(ready):
    ready.run("demo")
    ready.run("demo", "--use-system-torch", "--set", "schedule.steps=50")
    first, second = ready.calls("surefoot")
    assert first.startswith("surefoot train recipes/stdlib-1m.toml --name demo-2")
    assert second.endswith(" --set schedule.steps=50")
    assert "_env --use-system-torch" in ready.calls()
    assert (ROOT / "recipes" / "stdlib-1m.toml").is_file()


def test_ci_runs_the_tests():
    text = (ROOT / ".ci" / "run").read_text()
    assert text.splitlines()[-1] == "exec ./scripts/test"
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_are_clean_and_can_be_started(name):
    path = ROOT / "scripts" / name
    assert os.access(path, os.X_OK)
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed (apt install shellcheck)")
    done = subprocess.run([shellcheck, path], capture_output=True, text=True)
    assert done.stdout == ""
