import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "surefoot"


def _modules() -> dict[str, Path]:
    """Every module of surefoot by its dotted name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ["surefoot", *path.relative_to(SOURCE).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imports(module: str, text: str, *, package: bool) -> Iterator[tuple[str, int]]:
    """Every module that a text imports, wherever in it, with the line; relative ones resolved."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + package]
                base = ".".join([*parts, base] if base else parts)
            # `from surefoot import detect` names a part, not an attribute.
            if base == "surefoot":
                yield from ((f"surefoot.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield base, node.lineno
        elif isinstance(node, ast.Call) and node.args:
            # import_module("surefoot.x"), require("torch", ...), __import__("x").
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            first = node.args[0]
            known = name in ("import_module", "__import__", "require")
            if known and isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value, node.lineno


@pytest.fixture(scope="session")
def house() -> SimpleNamespace:
    """The sources: ``root``, ``source``, ``modules`` and ``imports(module, text, package=)``."""
    return SimpleNamespace(root=ROOT, source=SOURCE, modules=_modules(), imports=_imports)
