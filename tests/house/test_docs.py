"""The docs say what is so: their code runs, their commands exist, their links lead somewhere."""

import itertools
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from surefoot.cli.app import COMMANDS, LazyGroup, app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_CODE = [path for path in PAGES if "```python" in path.read_text("utf-8")]
# Generated, and held by scripts/docs --check; their blocks are run and parsed all the same.
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def blocks(path: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(path.read_text("utf-8")) if kind == language]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", WITH_CODE, ids=name)
def test_code_runs_from_top_to_bottom(path, tmp_path, monkeypatch):
    """The blocks of a page share their names, as for a reader who types one after the other."""
    monkeypatch.chdir(tmp_path)
    from surefoot.optim.schedule import SHAPES

    monkeypatch.setattr(SHAPES, "_items", dict(SHAPES))
    page = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)
    for number, text in enumerate(blocks(path, "python")):
        exec(compile(text, f"{name(path)}, block {number}", "exec"), page.__dict__)


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_toml_is_toml(path):
    for text in blocks(path, "toml"):
        tomllib.loads(text)


def commands(path: Path) -> list[list[str]]:
    """Every command of the console blocks, as words."""
    lines = [line for text in blocks(path, "console") for line in text.splitlines()]
    return [shlex.split(line[2:]) for line in lines if line.startswith("$ ")]


def options_of(words: list[str]) -> tuple[set[str], list[str]]:
    """The options that a surefoot command knows, and the words behind its name."""
    command = LazyGroup(name="surefoot").get_command(None, words[0])
    rest = words[1:]
    while hasattr(command, "commands"):
        assert rest[0] in command.commands, words
        command, rest = command.commands[rest[0]], rest[1:]
    return {name for parameter in command.params for name in parameter.opts}, rest


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_console_commands_exist(path):
    for words in commands(path):
        if "|" in words:  # what is piped into a command of ours
            assert words[0] in ("tail", "cat", "zcat"), words
            words = words[words.index("|") + 1 :]
        if words[0].startswith("./"):
            assert (ROOT / words[0]).is_file(), words
            continue
        if "surefoot" in words and words[0] in ("surefoot", "torchrun"):
            words = words[words.index("surefoot") + 1 :]
            assert words[0] in COMMANDS, words
            options, rest = options_of(words)
            assert {word for word in rest if word.startswith("--")} <= options, words
            continue
        if words[0] == ".":
            assert words[1:] == [".venv/bin/activate"], words  # made by scripts/_env
            continue
        assert words[0] == "pip", words


def test_inline_commands_of_the_readme_exist():
    for text in re.findall(r"`surefoot ([^`]+)`", (ROOT / "README.md").read_text("utf-8")):
        words = shlex.split(text)
        if words == ["--install-completion"]:
            assert app._add_completion
            continue
        assert words[0] in COMMANDS, text
        options, rest = options_of(words)
        assert {word for word in rest if word.startswith("--")} <= options, text


def test_the_table_of_moments_is_honest():
    table = (ROOT / "README.md").read_text("utf-8").partition("| moment |")[2].partition("\n\n")[0]
    today, planned = set(), set()
    for line in table.splitlines()[2:]:
        _, _, now, later, _ = line.split("|")
        today |= {words.split()[0] for words in re.findall(r"`([^`]+)`", now)}
        planned |= {words.split()[0] for words in re.findall(r"`([^`]+)`", later)}
    in_python = {"surefoot.watch"}
    assert today - in_python <= set(COMMANDS)
    # `data` and `check` do a part today; everything else is here or planned, not both.
    assert planned & set(COMMANDS) <= {"data", "check"}


def test_messages_shown_in_the_readme_are_the_real_ones():
    lines = [line for text in blocks(ROOT / "README.md", "console") for line in text.splitlines()]
    shown = 0
    for command, answer in itertools.pairwise(lines):
        if command.startswith("$ surefoot train") and answer.startswith("surefoot: "):
            from surefoot.errors import RecipeError
            from surefoot.recipe import load

            setting = shlex.split(command)[-1]
            with pytest.raises(RecipeError) as caught:
                load(ROOT / "recipes" / "stdlib-1m.toml", [setting])
            assert answer == f"surefoot: {caught.value}"
            shown += 1
    assert shown == 1


@pytest.mark.parametrize("path", [*PAGES, ROOT / "CHANGELOG.md"], ids=name)
def test_links_lead_somewhere(path):
    text = BLOCK.sub("", path.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target and not target.startswith("#"):
            assert (path.parent / target.partition("#")[0]).exists(), target


def test_the_changelog_has_a_place_for_what_comes_next():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE)[0] == "[Unreleased]"


def test_the_licence_is_the_one_that_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_generated_pages_are_up_to_date():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "_docs.py", "--check"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_stale_pages_are_found_and_written(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import _docs

    monkeypatch.setattr(_docs, "ROOT", tmp_path)
    assert _docs.main(["--check"]) == 1
    assert "docs/reference/recipe.md is out of date: run scripts/docs" in capsys.readouterr().err
    assert _docs.main([]) == 0
    assert _docs.main(["--check"]) == 0
    (tmp_path / "docs/reference/signals.md").write_text("by hand")
    (tmp_path / "docs/reference/codes/ZZZ999.md").write_text("retired")
    assert _docs.main(["--check"]) == 1
    assert _docs.main([]) == 0
    assert not (tmp_path / "docs/reference/codes/ZZZ999.md").exists()
    assert _docs.main(["--chek"]) == 2
