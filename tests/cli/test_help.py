"""`--help` is instant and lists everything; what nobody knows is answered with what is known."""

import json
import subprocess
import sys
import time
from statistics import median

import pytest

COMMANDS = ["train", "diagnose", "check", "report", "export", "data", "explain"]

TYPER = {"typer", "click", "shellingham", "typing_extensions", "annotated_doc"}
COERCION = {"pydantic", "pydantic_core", "annotated_types", "typing_inspection"}

LISTING = """
import sys
from surefoot.cli import main
before = set(sys.stdlib_module_names)
status = main([{arguments}])
loaded = {{name.partition(".")[0] for name in sys.modules}} - before
print("LOADED", sorted(loaded), file=sys.stderr)
sys.exit(status)
"""


def loaded(*arguments: str) -> tuple[str, set[str]]:
    code = LISTING.format(arguments=", ".join(map(repr, arguments)))
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    line = next(x for x in done.stderr.splitlines() if x.startswith("LOADED"))
    names = set(json.loads(line.removeprefix("LOADED ").replace("'", '"')))
    # What site-packages' own .pth files bring is there before anything of ours.
    bare = subprocess.run(
        [sys.executable, "-I", "-c", "import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, names - {name.partition(".")[0] for name in bare.stdout.split()}


@pytest.mark.parametrize("arguments", [["--help"], *[[name, "--help"] for name in COMMANDS]])
def test_help_loads_typer_and_the_standard_library_only(arguments):
    text, names = loaded(*arguments)
    assert "Usage: surefoot" in text
    allowed = {"surefoot", "__main__", *TYPER}
    if len(arguments) > 1:
        allowed |= COERCION  # what typer itself loads to look at a command's types
    assert {name for name in names if not name.startswith("_sysconfigdata")} <= allowed


def test_help_lists_every_command():
    text, _ = loaded("--help")
    assert [word for word in COMMANDS if f"\n  {word} " in text] == COMMANDS


def seconds(*command: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def test_help_takes_less_than_twelve_times_an_empty_program():
    pairs = [
        (
            seconds(sys.executable, "-m", "surefoot", "--help"),
            seconds(sys.executable, "-c", "pass"),
        )
        for _ in range(7)
    ]
    assert median(a for a, _ in pairs) < 12 * median(b for _, b in pairs)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["trian"], ["unknown command 'trian'", "did you mean 'train'?"]),
        (["explain", "SPK01"], ["unknown code 'SPK01'", "SPK001"]),
        (["data", "show", "x"], ["Missing option '--step'; type  surefoot data show --help"]),
        (["report", "nowhere"], ["no run 'nowhere'"]),
        (["report", "x", "--format", "pdf"], ["--format pdf: expected text, json or html"]),
        (["export", "x", "--out", "y", "--to", "onnx"], ["--to onnx: expected transformers"]),
        (["report", "no\x1b[31mrun"], [r"no\x1b[31mrun"]),
    ],
)
def test_one_line_and_status_two(arguments, parts, command, tmp_path):
    done = command(tmp_path, *arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "\x1b" not in done.stderr
    for part in parts:
        assert part in done.stderr


def test_explain_lists_codes_with_names_and_prints_a_page(command, tmp_path):
    listing = command(tmp_path, "explain").stdout
    assert "SPK003  error    divergence" in listing
    for code in ("spk003", "divergence"):
        page = command(tmp_path, "explain", code).stdout
        assert "## What it checks" in page
        assert "## References" in page


def test_version(command, tmp_path):
    from surefoot import __version__

    assert command(tmp_path, "--version").stdout == f"surefoot {__version__}\n"
