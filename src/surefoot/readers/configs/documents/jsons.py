"""JSON with lines: an own parser, since the standard one forgets them. Without recursion."""

import json
import re

from surefoot.readers.configs.documents import marks
from surefoot.readers.configs.documents.tree import DEEPEST, MOST_LEAVES, Leaf, Node

_TOKEN = re.compile(
    r'[ \t\r\n]*(?:(?P<text>"(?:[^"\\\x00-\x08\x0a-\x1f]|\\.)*")|(?P<mark>[{}\[\],:])'
    r"|(?P<word>-?[A-Za-z0-9+.\-_]+|\ue000[^\ue001]*\ue001))"
)
_SPACE = re.compile(r"[ \t\r\n]*")
_WORDS = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}


class NotJson(ValueError):
    """What is wrong, and the line."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.line = line


def parse(
    text: str, *, start: int = 0, first_line: int = 1, whole: bool = True
) -> tuple[Node, list[tuple[Leaf, Leaf]], int]:
    """The tree, keys given twice, and the place behind the value.

    Args:
        text: holds the JSON value.
        start: where in the text it begins.
        first_line: the line of ``start``.
        whole: whether nothing may follow but space.

    Raises:
        NotJson: with the line. NaN and infinities are no error: Python's trainers write them.
    """
    return _Parser(text, start, first_line).run(whole)


class _Parser:
    def __init__(self, text: str, start: int, line: int) -> None:
        self.text, self.at, self.line = text, start, line
        self.repeated: list[tuple[Leaf, Leaf]] = []
        self.budget = 2 * MOST_LEAVES

    def run(self, whole: bool) -> tuple[Node, list[tuple[Leaf, Leaf]], int]:
        stack: list[Node] = []
        keys: list[str | None] = []  # of the value that is due in each open table
        root: Node | None = None
        # What may come: a value; a key or the end of a table; a colon; a comma or an end.
        state = "value"
        while root is None or stack:
            kind, token = self._next()
            if kind == "mark" and token in "}]":
                if not stack or not _may_end(stack[-1], token, state):
                    raise self._wrong(token)
                done = stack.pop()
                keys.pop()
                root = root if stack else done
                state = "after"
            elif state == "after":
                if token != ",":
                    raise NotJson(f"expected a comma before {_shown(token)}", self.line)
                state = "next" if isinstance(stack[-1].value, dict) else "value!"
            elif state in ("key", "next"):
                if kind != "text":
                    raise self._wrong(token, "a key in double quotes")
                keys[-1] = self._string(token)
                state = "colon"
            elif state == "colon":
                if token != ":":
                    raise self._wrong(token, "a colon")
                state = "value!"
            else:
                node = self._value(kind, token)
                if stack:
                    self._put(stack, keys, node)
                if isinstance(node.value, dict | list):
                    if len(stack) >= DEEPEST:
                        raise NotJson("tables and lists nested too deeply", self.line)
                    stack.append(node)
                    keys.append(None)
                    state = "key" if isinstance(node.value, dict) else "value"
                else:
                    root = root if stack else node
                    state = "after"
        if whole and _SPACE.match(self.text, self.at).end() != len(self.text):  # type: ignore[union-attr]
            self._skip()
            raise NotJson("something follows the end of the value", self.line)
        return root, self.repeated, self.at

    def _next(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            self._skip()
            if self.at >= len(self.text):
                raise NotJson("the file ends in the middle of a value", self.line)
            raise self._wrong(self.text[self.at])
        kind = match.lastgroup or ""
        self.line += self.text.count("\n", self.at, match.start(kind))
        self.at = match.end()
        return kind, match[kind]

    def _skip(self) -> None:
        end = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        self.line += self.text.count("\n", self.at, end)
        self.at = end

    def _value(self, kind: str, token: str) -> Node:
        if kind == "text" or marks.is_open(token):
            found = self._string(token) if kind == "text" else token
            if marks.is_open(found):
                why = f"{marks.open_names(found)[0]} is not set in the script"
                return Node(marks.shown(found), self.line, open=why)
            return Node(found, self.line)
        if kind == "word":
            return Node(self._word(token), self.line)
        if token in "{[":
            return Node({} if token == "{" else [], self.line)
        raise self._wrong(token, "a value")

    def _word(self, token: str) -> object:
        if token in _WORDS:
            return _WORDS[token]
        try:
            if re.fullmatch(r"-?(?:0|[1-9]\d{0,4000})", token):
                return int(token)
            if re.fullmatch(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", token):
                return float(token)
        except ValueError:
            pass
        hints = {"True": "true", "False": "false", "None": "null"}
        hint = f"; JSON writes {hints[token]}" if token in hints else ""
        raise NotJson(f"{_shown(token)} is no JSON value{hint}", self.line)

    def _string(self, token: str) -> str:
        try:
            return str(json.loads(token, strict=False))
        except ValueError:
            raise NotJson(f"the text {_shown(token)} has a wrong escape", self.line) from None

    def _put(self, stack: list[Node], keys: list[str | None], node: Node) -> None:
        self.budget -= 1
        if self.budget < 0:
            raise NotJson("more values than a configuration has", self.line)
        table = stack[-1].value
        if isinstance(table, list):
            table.append(node)
            return
        key = keys[-1] or ""
        if key in table:
            path = ".".join([*(k for k in keys[:-1] if k), key])
            old = table[key]
            same = not isinstance(old.value, dict | list) and old.value == node.value
            if not same:
                self.repeated.append(
                    (Leaf(path, _plain(old), old.line), Leaf(path, _plain(node), node.line))
                )
        table[key] = node

    def _wrong(self, token: str, expected: str = "") -> NotJson:
        wanted = f"; expected {expected}" if expected else ""
        if token in "/#":
            wanted = "; JSON has no comments"
        elif token in "}]":
            wanted = "; is there a comma too many before it?"
        return NotJson(f"{_shown(token)} cannot stand here{wanted}", self.line)


def _may_end(node: Node, token: str, state: str) -> bool:
    table = isinstance(node.value, dict)
    return (token == "}") == table and state in ("after", "key" if table else "value")


def _plain(node: Node) -> object:
    return "..." if isinstance(node.value, dict | list) else node.value


def _shown(token: str) -> str:
    return repr(token if len(token) <= 40 else token[:37] + "...")
