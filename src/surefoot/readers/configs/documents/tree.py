"""A parsed configuration as leaves that know their line, whatever language it was written in."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

DEEPEST = 64
"""Tables and lists inside one another; configurations have 5."""

MOST_LEAVES = 50_000
"""Values of one document; far above that it is no configuration."""


@dataclass(slots=True)
class Node:
    """A value and its line: a scalar, a list of nodes or a table of nodes.

    Attributes:
        value: the scalar, ``list[Node]`` or ``dict[str, Node]``.
        line: where it begins, from 1.
        open: why the value is not known (a shell variable, code), where it is not.
        misread: written as a number, but text to a YAML 1.1 reader such as PyYAML: ``1e-4``.
    """

    value: Any
    line: int
    open: str | None = None
    misread: bool = False


@dataclass(frozen=True, slots=True)
class Leaf:
    """One stated value.

    Attributes:
        key: dotted path as written, lists of tables as ``sources[0].path``.
        value: number, text, bool, None, a tuple of those, or ``{}`` for an empty table.
        line: where it is stated, from 1.
        open: why the value is not known, where it is not; ``value`` is then the text as written.
        misread: see :class:`Node`.
    """

    key: str
    value: Any
    line: int | None = None
    open: str | None = None
    misread: bool = False

    @property
    def last(self) -> str:
        """The last part of the key."""
        return self.key.rpartition(".")[2]


@dataclass(slots=True)
class Document:
    """One configuration: a file, or a part of one (a command of a script, a block of a log).

    Attributes:
        path: the file, for messages.
        kind: ``json``, ``yaml``, ``toml``, ``python``, ``arguments`` (a command line or a bare
            list of flags) or ``dump`` (the arguments as a trainer printed them into a log).
        leaves: values by key, in order; of a key given twice, the later.
        repeated: (earlier, later) of keys given twice with different values.
        comments: (line, text) without the ``#``.
        program: the script that a command line starts.
        launcher: flags of the launcher before the program (``torchrun --nnodes 4``).
        wrapper: what it was unwrapped from (``W&B``), if from something.
        loose: words of a command line that could not be resolved and may hold flags: (line, text).
        lost: flags behind the end of the command, which the shell would not pass on.
    """

    path: str
    kind: str
    leaves: dict[str, Leaf]
    repeated: list[tuple[Leaf, Leaf]] = field(default_factory=list)
    comments: list[tuple[int, str]] = field(default_factory=list)
    program: str | None = None
    launcher: dict[str, Leaf] = field(default_factory=dict)
    wrapper: str | None = None
    loose: list[tuple[int, str]] = field(default_factory=list)
    lost: list[Leaf] = field(default_factory=list)


class TooDeep(ValueError):
    """Tables inside tables without end, or more values than a configuration has."""


def flatten(root: Node) -> dict[str, Leaf]:
    """The leaves below a table, in order.

    Raises:
        TooDeep: deeper than 64 or more than 200 000 values.
    """
    found: dict[str, Leaf] = {}
    for leaf in _walk(root):
        found[leaf.key] = leaf
        if len(found) > MOST_LEAVES:
            raise TooDeep(f"more than {MOST_LEAVES} values")
    return found


def _walk(root: Node) -> Iterator[Leaf]:
    stack: list[tuple[str, Node, int]] = [("", root, 0)]
    while stack:
        key, node, depth = stack.pop()
        if depth > DEEPEST:
            raise TooDeep("tables nested too deeply")
        value = node.value
        inner: list[tuple[str, Node]] = []
        if isinstance(value, dict):
            inner = [(f"{key}.{name}" if key else name, item) for name, item in value.items()]
        elif isinstance(value, list):
            if all(not isinstance(item.value, dict | list) for item in value):
                why = next((item.open for item in value if item.open), None)
                items = tuple(item.value for item in value)
                misread = any(item.misread for item in value)
                yield Leaf(key, items, node.line, node.open or why, misread)
                continue
            inner = [(f"{key}[{i}]", item) for i, item in enumerate(value)]
        if inner:
            stack.extend((name, item, depth + 1) for name, item in reversed(inner))
        elif key:
            empty = {} if isinstance(value, dict) else value
            yield Leaf(key, empty, node.line, node.open, node.misread)
