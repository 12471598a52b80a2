"""Parts that need no torch load none, nor polars, nor a part of a higher row, when imported.

Each is imported in a fresh interpreter, which then says what it loaded.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

NO_TORCH = {
    # part: what of surefoot may come with it
    "records": [],
    "errors": [],
    "registry": ["errors"],
    "protocols": ["records"],
    "codes": ["records", "errors"],
    "recipe": ["records", "errors"],
    "runs": ["records", "errors", "registry", "protocols", "codes", "recipe"],
    "readers": ["records", "errors", "registry", "protocols", "codes", "recipe", "runs"],
    "detect": ["records", "errors", "registry", "protocols", "codes", "recipe", "runs"],
    "policy": ["records", "errors", "registry", "protocols", "codes", "recipe", "runs"],
    "rules": None,  # None: anything of a lower row that needs no torch either
    "compare": None,
    "plan": None,
    "supervise": None,
    "report": None,
    "cli": ["errors"],
}
LOWER = {"records", "errors", "registry", "protocols", "codes", "recipe", "runs", "readers",
         "detect", "policy"}  # fmt: skip
# Loaded by a part's import only where its row says so; polars and plotly never.
HEAVY = {"torch", "polars", "plotly", "transformers", "safetensors", "tokenizers", "tsdownsample"}
MAY_LOAD = {"runs": {"numpy"}, "detect": {"numpy"}, "recipe": {"pydantic"}}
WATCHED = HEAVY | {"numpy", "pydantic", "rich", "typer"}


def loaded(statement: str) -> set[str]:
    """Top-level packages, and parts of surefoot as ``surefoot.x``, after a statement."""
    code = f"import sys, json\n{statement}\njson.dump(sorted(sys.modules), sys.stdout)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    names = json.loads(done.stdout)
    parts = {".".join(name.split(".")[:2]) for name in names if name.startswith("surefoot.")}
    return parts | {name.partition(".")[0] for name in names}


def unwelcome(part: str, modules: Iterable[str]) -> set[str]:
    may = NO_TORCH[part]
    welcome = {f"surefoot.{name}" for name in (LOWER if may is None else may)} | {
        f"surefoot.{part}"
    }
    parts = {name for name in modules if name.startswith("surefoot.")} - welcome
    return parts | ((set(modules) & HEAVY) - MAY_LOAD.get(part, set()))


SOURCE = Path(__file__).resolve().parents[2] / "src" / "surefoot"
# The design names parts that come later; they are checked from the day they exist.
HERE = [part for part in NO_TORCH if list(SOURCE.glob(f"{part}*"))]


@pytest.mark.parametrize("part", HERE)
def test_a_part_without_torch_loads_none(part):
    assert unwelcome(part, loaded(f"import surefoot.{part}")) == set()


@pytest.mark.parametrize("part", ["records", "errors", "registry", "protocols", "codes"])
def test_the_nouns_need_the_standard_library_only(part):
    assert loaded(f"import surefoot.{part}") & WATCHED == set()


def test_importing_surefoot_loads_no_part():
    modules = loaded("import surefoot; surefoot.__version__; dir(surefoot)")
    assert not {name for name in modules if name.startswith("surefoot.")}
    assert not modules & WATCHED


def test_watch_comes_by_name_and_nothing_else_does():
    assert "surefoot.watching" in loaded("import surefoot; surefoot.watch")
    done = subprocess.run(
        [sys.executable, "-c", "import surefoot; surefoot.wtach"], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "AttributeError: module 'surefoot' has no attribute 'wtach'" in done.stderr


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("import surefoot.records; import torch", "torch"),
        ("import surefoot.records; import polars", "polars"),
        ("import surefoot.records; import surefoot.recipe", "surefoot.recipe"),
    ],
)
def test_a_planted_import_is_found(statement, found):
    assert found in unwelcome("records", loaded(statement))


def test_polars_is_imported_inside_functions_only(house):
    import ast

    for name, path in house.modules.items():
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                top = {alias.name for alias in node.names} | {getattr(node, "module", "") or ""}
                tops = {target.partition(".")[0] for target in top}
                assert "polars" not in tops, f"{name}:{node.lineno}"
