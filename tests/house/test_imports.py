"""The import table of the house: a part imports from lower rows only.

Parts of one row do not import each other; in row 0 a part may import those before it. Function
bodies and ``TYPE_CHECKING`` blocks count: a cycle of meaning is a cycle.
"""

import pytest

# In the order of row 0; below, the order within a row means nothing.
ROW_0 = ["records", "errors", "registry", "protocols", "codes", "recipe", "runs"]
ROWS = {
    **dict.fromkeys(["readers", "detect", "policy"], 1),
    **dict.fromkeys(["model", "init", "optim", "data", "signals", "checkpoint"], 1),
    **dict.fromkeys(["rules", "compare", "plan", "supervise"], 2),
    **dict.fromkeys(["probe", "watching", "apply", "export"], 2),
    "report": 3,
    "train": 4,
    **dict.fromkeys(["replay", "canary", "rehearse", "integrations", "testing"], 5),
    "cli": 6,
}
# `python -m surefoot` is the command line; `surefoot` itself gives parts by name, on first use.
OF_THE_COMMAND_LINE = {"__main__"}


def place(part: str) -> tuple[int, int]:
    """(row, order within row 0)."""
    return (0, ROW_0.index(part)) if part in ROW_0 else (ROWS[part], 0)


def allowed(part: str, other: str) -> bool:
    if part == other:
        return True
    (row, order), (other_row, other_order) = place(part), place(other)
    return other_row < row or (row == other_row == 0 and other_order < order)


def violations(house, modules: dict[str, str]) -> list[str]:
    """``modules`` maps a dotted name to its text; packages end in ``.__init__``."""
    found = []
    for name, text in modules.items():
        package = name.endswith(".__init__")
        module = name.removesuffix(".__init__")
        if module == "surefoot":
            continue
        part = module.split(".")[1]
        part = "cli" if part in OF_THE_COMMAND_LINE else part
        for target, line in house.imports(module, text, package=package):
            top, _, rest = target.partition(".")
            if top != "surefoot":
                continue
            other = rest.partition(".")[0]
            if other in ("", "__version__"):
                continue  # the version is no part
            if not allowed(part, other):
                found.append(f"{module}:{line} imports surefoot.{other}")
    return found


@pytest.fixture(scope="module")
def texts(house):
    return {
        name + (".__init__" if path.name == "__init__.py" else ""): path.read_text("utf-8")
        for name, path in house.modules.items()
    }


def test_every_part_has_a_place_in_the_table(house):
    parts = {name.split(".")[1] for name in house.modules if name != "surefoot"}
    assert parts - OF_THE_COMMAND_LINE <= {*ROW_0, *ROWS}
    assert set(ROW_0) <= parts


def test_no_module_shadows_the_function_watch(house):
    assert "surefoot.watch" not in house.modules


def test_the_table_holds(house, texts):
    assert violations(house, texts) == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("surefoot.records.step", "from surefoot.errors import UsageError"),
        ("surefoot.recipe.load", "from surefoot.runs import open"),
        ("surefoot.detect.loss", "from surefoot.signals import Meter"),
        ("surefoot.optim.adamw", "import surefoot.model"),
        ("surefoot.export.__init__", "def f():\n    from surefoot import watching"),
        ("surefoot.detect.loss", "if TYPE_CHECKING:\n    from surefoot.report import summary"),
        ("surefoot.model.__init__", "from ..train import fit"),
        ("surefoot.model.decoder", "from ..init.normal import initialise"),
        ("surefoot.runs.open", "import_module('surefoot.train')"),
        ("surefoot.runs.open", "require('surefoot.cli.app', 'torch')"),
        ("surefoot.train.loop", "import numpy, surefoot.cli.app"),
    ],
)
def test_a_planted_violation_is_found(house, texts, module, line):
    assert len(violations(house, {**texts, module: line})) == 1


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("surefoot.recipe.load", "from surefoot.errors import RecipeError"),
        ("surefoot.model.decoder", "from .attention import Attention"),
        ("surefoot.train.loop", "from surefoot.report import summary"),
        ("surefoot.cli.train", "from surefoot import __version__, train"),
        ("surefoot.__main__", "from surefoot.cli import main"),
        ("surefoot.model.decoder", "from torch import nn"),
    ],
)
def test_what_is_allowed_is_not_a_violation(house, module, line):
    assert violations(house, {module: line}) == []
