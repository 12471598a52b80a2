"""The public names of each part, as promised: a change here is a change of the interface."""

import ast
import json
import os
from pathlib import Path

GOLDEN = Path(__file__).with_name("exported_names.json")


def exported(path: Path) -> list[str]:
    """``__all__``, or the public classes and functions of a part that is one module."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return sorted(ast.literal_eval(node.value))
    kinds = ast.ClassDef | ast.FunctionDef
    return sorted(node.name for node in tree.body if isinstance(node, kinds)
                  and not node.name.startswith("_"))  # fmt: skip


def test_exported_names(house):
    """Meant? Then run it once with SUREFOOT_UPDATE=1 and put a line into CHANGELOG.md."""
    parts = {
        name: exported(path)
        for name, path in house.modules.items()
        if name.count(".") <= 1 and name != "surefoot.__main__"
    }
    if os.environ.get("SUREFOOT_UPDATE"):
        GOLDEN.write_text(json.dumps(parts, indent=1) + "\n", encoding="utf-8")
    assert json.loads(GOLDEN.read_text("utf-8")) == parts
