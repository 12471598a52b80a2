"""YAML with lines, from the parser's events: tags are never constructed, aliases are bounded."""

import re
from typing import Any

from surefoot.readers.configs.documents.tree import DEEPEST, MOST_LEAVES, Leaf, Node, TooDeep

LARGEST = 4 << 20
"""Bytes of a YAML file; it is parsed in Python."""

_BOOL = {
    word: value
    for value, names in ((True, ("true", "yes", "on")), (False, ("false", "no", "off")))
    for name in names
    for word in (name, name.capitalize(), name.upper())
}
_NULL = {"", "~", "null", "Null", "NULL"}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_BASES = ((re.compile(r"[-+]?0b[01_]+"), 2), (re.compile(r"[-+]?0x[0-9a-fA-F_]+"), 16),
          (re.compile(r"[-+]?0[0-7_]+"), 8))  # fmt: skip
# YAML 1.1: a float has a dot, and its exponent a sign.
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?")
_MEANT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)[eE][-+]?[0-9]+")
_SPECIAL = {".inf": float("inf"), "-.inf": float("-inf"), "+.inf": float("inf"),
            ".nan": float("nan")}  # fmt: skip


class NotYaml(ValueError):
    """What is wrong, and the line."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.line = line


def parse(text: str) -> list[tuple[Node, list[tuple[Leaf, Leaf]]]]:
    """The documents of a stream, each with its keys given twice.

    Raises:
        NotYaml: with the line.
        TooDeep: too deep, or aliases that unfold to too much.
    """
    import yaml

    try:
        return _Builder(yaml).run(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise NotYaml(error.problem or "not YAML", mark.line + 1 if mark else 1) from None
    except yaml.YAMLError as error:
        raise NotYaml(" ".join(str(error).split())[:120], 1) from None


class _Builder:
    def __init__(self, yaml: Any) -> None:
        self.yaml = yaml
        self.anchors: dict[str, Node] = {}
        self.repeated: list[tuple[Leaf, Leaf]] = []
        self.path: list[str] = []
        self.budget = 2 * MOST_LEAVES

    def run(self, text: str) -> list[tuple[Node, list[tuple[Leaf, Leaf]]]]:
        # libyaml's parser, where it is there: events are the same, ten times as fast.
        loader = getattr(self.yaml, "CSafeLoader", self.yaml.SafeLoader)
        events = self.yaml.parse(text, Loader=loader)
        found: list[tuple[Node, list[tuple[Leaf, Leaf]]]] = []
        stack: list[Node] = []
        keys: list[str | None] = []
        root: Node | None = None
        for event in events:
            name = type(event).__name__
            if name == "DocumentStartEvent":
                root, self.anchors, self.repeated = None, {}, []
            elif name == "DocumentEndEvent" and root is not None:
                found.append((root, self.repeated))
            elif name in ("MappingEndEvent", "SequenceEndEvent"):
                stack.pop()
                keys.pop()
                self.path.pop()
            elif name in ("ScalarEvent", "AliasEvent", "MappingStartEvent", "SequenceStartEvent"):
                node = self._node(name, event)
                name_of = keys[-1] if keys else None
                if stack:
                    self._put(stack, keys, node)
                else:
                    root = node
                if name in ("MappingStartEvent", "SequenceStartEvent"):
                    if len(stack) >= DEEPEST:
                        raise TooDeep("tables nested too deeply")
                    stack.append(node)
                    keys.append(None)
                    self.path.append(name_of or "")
        return found

    def _node(self, name: str, event: Any) -> Node:
        line = event.start_mark.line + 1
        if name == "AliasEvent":
            known = self.anchors.get(event.anchor)
            if known is None:
                raise NotYaml(f"the alias *{event.anchor} has no anchor", line)
            return self._copy(known, line)
        if name == "ScalarEvent":
            node = _scalar(event, line)
        else:
            node = Node({} if name == "MappingStartEvent" else [], line)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def _copy(self, node: Node, line: int, depth: int = 0) -> Node:
        self.budget -= 1
        if self.budget < 0 or depth > DEEPEST:
            raise TooDeep("aliases that unfold to more than a configuration holds")
        value = node.value
        if isinstance(value, dict):
            value = {key: self._copy(item, item.line, depth + 1) for key, item in value.items()}
        elif isinstance(value, list):
            value = [self._copy(item, item.line, depth + 1) for item in value]
        return Node(value, line, node.open, node.misread)

    def _put(self, stack: list[Node], keys: list[str | None], node: Node) -> None:
        self.budget -= 1
        if self.budget < 0:
            raise TooDeep("more values than a configuration has")
        table = stack[-1].value
        if isinstance(table, list):
            table.append(node)
            return
        key = keys[-1]
        if key is None:
            # A table as a key is legal and never meant.
            keys[-1] = "?" if isinstance(node.value, dict | list) else _key(node)
            return
        keys[-1] = None
        if key == "<<" and isinstance(node.value, dict):
            for name, item in node.value.items():
                table.setdefault(name, item)
            return
        old = table.get(key)
        if old is not None and old.line != node.line:
            scalar = not isinstance(old.value, dict | list)
            if not (scalar and old.value == node.value):
                path = ".".join([*(name for name in self.path if name), key])
                shown = [
                    "..." if isinstance(n.value, dict | list) else n.value for n in (old, node)
                ]
                self.repeated.append(
                    (Leaf(path, shown[0], old.line), Leaf(path, shown[1], node.line))
                )
        table[key] = node


def _key(node: Node) -> str:
    return "null" if node.value is None else str(node.value)


def _scalar(event: Any, line: int) -> Node:
    text = str(event.value)
    tag = event.tag or ""
    if not event.implicit[0] or event.style in ("'", '"', "|", ">"):
        # Quoted or tagged: text, unless the tag says number.
        if tag.endswith((":float", ":int")):
            return Node(_number(text, text), line)
        return Node(text, line)
    if text in _NULL:
        return Node(None, line)
    if text in _BOOL:
        return Node(_BOOL[text], line)
    if text.lower() in _SPECIAL:
        return Node(_SPECIAL[text.lower()], line)
    if len(text) > 64:
        return Node(text, line)
    if _INT.fullmatch(text) or _FLOAT.fullmatch(text):
        return Node(_number(text, text), line)
    for pattern, base in _BASES:
        if pattern.fullmatch(text):
            return Node(_in_base(text, base), line)
    if _MEANT.fullmatch(text):
        value = _number(text, text)
        return Node(value, line, misread=not isinstance(value, str))
    return Node(text, line)


def _in_base(text: str, base: int) -> Any:
    try:
        return int(text.replace("_", ""), base)
    except ValueError:
        return text


def _number(text: str, fallback: str) -> Any:
    plain = text.replace("_", "")
    try:
        return int(plain) if re.fullmatch(r"[-+]?\d+", plain) else float(plain)
    except ValueError:
        return fallback
