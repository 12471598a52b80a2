"""What comments and launchers say of the machine: ``# 64 nodes x 4 GPUs (V100 32GB)``."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from surefoot.readers.configs.documents.tree import Document, Leaf

_DEVICE = (
    r"(?:[VAHBLTP]\d{1,3}[A-Za-z]?|GB200|GB300|MI\d{2,3}[A-Z]?|TPU ?v\d\w?"
    r"|Ascend ?\d{3}\w{0,2}|RTX ?\d{4})"
)
_NODES = re.compile(
    r"\b(\d{1,6}) ?nodes? ?[x×*,] ?(\d{1,3}) ?(?:x ?)?"
    rf"(?:GPU|NPU|TPU|device|accelerator|{_DEVICE})",
    re.IGNORECASE,
)
_COUNT = re.compile(rf"^\W*(\d{{1,6}}|one|two|four|eight) ?[x×*]? ?({_DEVICE})\b", re.IGNORECASE)
_ALL = re.compile(
    r"^\W*(?:(?:launcher|launched|hardware|cluster|world[ _-]?size|runs?|on|with)\b[ :=]{0,3}){0,3}"
    r"(\d{1,6}) ?(?:[x×*] ?)?(?:GPUs?|NPUs?|TPUs?|ranks|devices|accelerators)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(rf"\b({_DEVICE}(?:[ -](?:\d{{2,3}} ?GB|SXM\d?|PCIe|NVL))?)\b")
_SLURM = re.compile(r"^SBATCH\s+--?(nodes|N|ntasks-per-node|gres|gpus-per-node)[= ]\s*(\S+)")
_WORDS = {"one": 1, "two": 2, "four": 4, "eight": 8}


@dataclass(frozen=True, slots=True)
class Hint:
    """A field that a comment or a launcher states.

    Attributes:
        field: dotted path in a TrainSpec.
        value: its value.
        text: what was written.
        line: where.
        kind: ``comment`` or ``flag``.
    """

    field: str
    value: Any
    text: str
    line: int | None
    kind: str = "comment"


def hints(document: Document) -> list[Hint]:
    """Nodes, devices and their kind, as far as the file tells; the launcher's flags first."""
    launched, commented = _with_product(_launched(document)), _with_product(_commented(document))
    # A comment may contradict the launcher: both are given then, the launcher's first.
    others = [
        hint
        for field, hint in commented.items()
        if field not in launched or launched[field].value != hint.value
    ]
    return [*launched.values(), *others]


def _with_product(given: Iterable[Hint]) -> dict[str, Hint]:
    """The first hint on each field, and all devices from nodes and devices of a node."""
    found: dict[str, Hint] = {}
    for hint in given:
        found.setdefault(hint.field, hint)
    nodes, each = found.get("parallelism.nodes"), found.get("parallelism.devices_per_node")
    if nodes and each and "parallelism.world_size" not in found:
        text = nodes.text if nodes.text == each.text else f"{nodes.text}, {each.text}"
        world = nodes.value * each.value
        found["parallelism.world_size"] = Hint(
            "parallelism.world_size", world, text, nodes.line, nodes.kind
        )
    return found


def _launched(document: Document) -> Iterator[Hint]:
    names = {
        "nproc_per_node": "devices_per_node",
        "nproc-per-node": "devices_per_node",
        "num_gpus": "devices_per_node",
        "gpus-per-node": "devices_per_node",
        "nnodes": "nodes",
        "num_nodes": "nodes",
        "num_machines": "nodes",
        "nodes": "nodes",
        "N": "nodes",
        "num_processes": "world_size",
        "np": "world_size",
        "ntasks": "world_size",
    }
    for name, leaf in document.launcher.items():
        if name == "mixed_precision" and leaf.value in ("bf16", "fp16", "fp8"):
            yield Hint("precision.compute", leaf.value, f"--{name} {leaf.value}", leaf.line, "flag")
        field = names.get(name)
        if field and not leaf.open and isinstance(leaf.value, int) and leaf.value is not True:
            flag = f"--{name} {leaf.value}"
            yield Hint(f"parallelism.{field}", leaf.value, flag, leaf.line, "flag")


def _commented(document: Document) -> Iterator[Hint]:
    for line, text in document.comments[:2000]:
        if len(text) > 400:
            continue
        if match := _SLURM.match(text):
            yield from _slurm(match[1], match[2], text, line)
        elif match := _NODES.search(text):
            nodes, each = int(match[1]), int(match[2])
            if re.match(r"\w{0,12} {0,3}(?:in total|total|altogether)", text[match.end() :]):
                if not nodes or each % nodes:
                    continue
                each //= nodes
            yield Hint("parallelism.nodes", nodes, text, line)
            yield Hint("parallelism.devices_per_node", each, text, line)
            yield Hint("parallelism.world_size", nodes * each, text, line)
            if named := _NAMED.search(text):
                yield Hint("environment.device", named[1], text, line)
        elif match := _ALL.match(text):
            yield Hint("parallelism.world_size", int(match[1]), text, line)
            if named := _NAMED.search(text):
                yield Hint("environment.device", named[1], text, line)
        elif match := _COUNT.match(text):
            count = _WORDS.get(match[1].lower()) or int(match[1])
            yield Hint("parallelism.world_size", count, text, line)
            named = _NAMED.search(text)
            yield Hint("environment.device", named[1] if named else match[2], text, line)


def _slurm(name: str, value: str, text: str, line: int) -> Iterator[Hint]:
    digits = value.rpartition(":")[2]
    if digits.isdigit() and int(digits):
        if name in ("nodes", "N"):
            yield Hint("parallelism.nodes", int(digits), text, line)
        elif name in ("gres", "gpus-per-node"):
            yield Hint("parallelism.devices_per_node", int(digits), text, line)


def hint_leaf(hint: Hint) -> Leaf:
    """The hint as a leaf."""
    return Leaf(hint.text, hint.value, hint.line)
