"""House rules that a tool does not hold: size, docstrings, names, printing, errors, codes."""

import ast
import importlib
import re
import statistics

import pytest

from surefoot import errors
from surefoot.errors import SurefootError

LIMIT = 400
MEDIAN = 240


def public(name: str) -> bool:
    return not name.startswith("_") or name == "__init__"


@pytest.fixture(scope="module")
def trees(house):
    return {name: ast.parse(path.read_text("utf-8")) for name, path in house.modules.items()}


def test_modules_are_of_readable_size(house):
    sizes = {
        name: len(path.read_text("utf-8").splitlines())
        for name, path in house.modules.items()
        if path.name not in ("__init__.py", "__main__.py")
    }
    assert {name: size for name, size in sizes.items() if size > LIMIT} == {}
    assert statistics.median(sizes.values()) <= MEDIAN


def test_the_training_loop_reads_top_to_bottom(house):
    loop = house.source / "train" / "loop.py"
    assert len(loop.read_text("utf-8").splitlines()) < 300


def undocumented(name: str, tree: ast.Module) -> list[str]:
    """Public modules, classes, functions and methods without a docstring."""
    missing = [] if ast.get_docstring(tree) else [name]

    def walk(body, prefix):
        for node in body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            # Overrides and magic methods say nothing new; the class does.
            if not public(node.name) or node.name == "__init__":
                continue
            if not ast.get_docstring(node) and not overload_or_override(node):
                missing.append(f"{prefix}.{node.name}")
            if isinstance(node, ast.ClassDef):
                walk(node.body, f"{prefix}.{node.name}")

    walk(tree.body, name)
    return missing


def overload_or_override(node) -> bool:
    names = {getattr(d, "id", getattr(d, "attr", "")) for d in node.decorator_list}
    return bool(names & {"overload", "override"}) or node.name.startswith("__")


def test_everything_public_has_a_docstring(trees):
    missing = [item for name, tree in trees.items() if (private(name) is False)
               for item in undocumented(name, tree)]  # fmt: skip
    assert missing == []


def private(name: str) -> bool:
    return any(part.startswith("_") for part in name.split(".")[1:] if part != "__main__")


def test_a_missing_docstring_is_found():
    tree = ast.parse(
        '"""Doc."""\nclass A:\n    """Doc."""\n    def f(self): ...\n    def _g(self): ...'
    )
    assert undocumented("m", tree) == ["m.A.f"]


def test_packages_show_how_they_are_used(house):
    for name, path in house.modules.items():
        # The command line is used by typing; every other part by importing.
        if path.name == "__init__.py" and name.count(".") == 1 and name != "surefoot.cli":
            docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
            assert "::" in docstring or "```" in docstring, f"{name} has no sketch in its docstring"


def test_exported_names_are_sorted_and_exist(house):
    for name, path in house.modules.items():
        tree = ast.parse(path.read_text("utf-8"))
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(getattr(target, "id", "") == "__all__" for target in targets):
                names = ast.literal_eval(node.value)
                # As ruff's RUF022 sorts: CONSTANTS, Classes, functions.
                key = lambda n: (0 if n.isupper() else 1 if n[:1].isupper() else 2, n)  # noqa: E731
                assert names == sorted(names, key=key), name
                module = importlib.import_module(name)
                assert [n for n in names if not hasattr(module, n)] == [], name


def test_only_the_command_line_prints(trees):
    found = [
        f"{name}:{node.lineno}"
        for name, tree in trees.items()
        if name.split(".")[1:2] not in (["cli"], ["__main__"])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]
    assert found == []


def test_nothing_is_left_for_later(house):
    for name, path in house.modules.items():
        text = path.read_text("utf-8")
        assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b", text), name
        assert "raise NotImplementedError" not in text, name


def test_tests_are_not_skipped_without_a_reason(house):
    for path in (house.root / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "pytest.skip",
                "pytest.mark.skip",
            ):
                assert node.args or node.keywords, f"{path.name}:{node.lineno}"
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.skipif":
                assert any(k.arg == "reason" for k in node.keywords), f"{path.name}:{node.lineno}"


def test_types_are_shipped(house):
    assert (house.source / "py.typed").is_file()


# -------------------------------------------------------------------------------------- errors

CLASSES = [
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, SurefootError) and kind is not SurefootError
]


@pytest.mark.parametrize("name", CLASSES)
def test_an_error_class_is_raised_somewhere(name, trees):
    raised = [
        module
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        and node.exc is not None
        and re.search(rf"\b{name}\(", ast.unparse(node.exc))
    ]
    assert raised


@pytest.mark.parametrize("name", CLASSES)
def test_an_error_class_is_reached_by_a_test(name, house):
    pattern = rf"pytest\.raises\(\s*\(?[^)]*\b{name}\b"
    texts = [path.read_text("utf-8") for path in (house.root / "tests").rglob("test_*.py")]
    assert any(re.search(pattern, text) for text in texts)


# --------------------------------------------------------------------------------------- codes


def test_every_code_that_is_emitted_is_in_the_table(trees):
    from surefoot.codes import CODES, FAMILIES

    pattern = re.compile(rf"(?:{'|'.join(FAMILIES)})\d{{3}}")
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert set(pattern.findall(node.value)) <= set(CODES), f"{name}:{node.lineno}"
