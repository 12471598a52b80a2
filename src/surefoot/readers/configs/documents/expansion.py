"""Variables of a shell script and what words with them become."""

import re

from surefoot.readers.configs.documents import marks, sums
from surefoot.readers.configs.documents.words import DEEPEST, Lexer, Part, Token, here_parts

Value = str | list[str]
"""Text, or the items of an array; with marks."""

_CAT = re.compile(
    r"\s*cat\s+<<-?\s*(['\"\\]?)(\w+)['\"]?[ \t]*\n(.*?)^[ \t]*\2\s*$", re.DOTALL | re.MULTILINE
)
"""``$(cat <<EOF``, a text and ``EOF)``."""
_CUTS = ("//", "/", "%%", "%", "##", "#")
_BUDGET = 8 << 20
"""Characters of all expansions: a script whose variables double one another is refused."""


class Variables:
    """Values by name, and the names that something expanded."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.used: set[str] = set()
        self._budget = _BUDGET

    def assign(self, name: str, parts: list[Part], line: int) -> None:
        """``name=value``, or ``name+`` for ``+=``; nothing is split."""
        value = " ".join(self.expand([("line", str(line), True), *_whole(parts)]))
        if name.endswith("+"):
            name = name[:-1]
            old = self.values.get(name, "")
            value = (old if isinstance(old, str) else " ".join(old)) + value
        self.values[name] = value

    def assign_array(self, token: Token) -> None:
        """``name=( ... )`` or ``name+=( ... )``."""
        items = [word for parts in token.items for word in self.expand(parts)]
        name = token.text.rstrip("+=")
        if token.text.endswith("+="):
            old = self.values.get(name, [])
            items = ([old] if isinstance(old, str) else old) + items
        self.values[name] = items

    def expand(self, parts: list[Part], depth: int = 0) -> list[str]:
        """The words that a word becomes.

        Raises:
            OverflowError: the variables unfold to far more than a script is long.
        """
        words: list[str] = []
        word: list[str] = []  # pieces of the one that is being built
        solid = False  # whether a word is one even when it is empty
        for kind, text, quoted in parts:
            if kind == "line":
                word.append(marks.at_line(int(text)))
                continue
            pieces = self._pieces(kind, text, depth)
            self._budget -= sum(map(len, pieces))
            if self._budget < 0:
                raise OverflowError("the variables of the script unfold to too much")
            if not pieces:
                continue  # an empty array is no word, even in quotes
            if kind == "text" or quoted:
                solid = True
                word += pieces[:1]
                for piece in pieces[1:]:
                    words.append("".join(word))
                    word = [piece]
                continue
            for place, piece in enumerate(pieces):
                if place or piece[:1].isspace():
                    words.append("".join(word))
                    word = []
                split = piece.split()
                word += split[:1]
                for other in split[1:]:
                    words.append("".join(word))
                    word = [other]
                if split and piece[-1:].isspace():
                    words.append("".join(word))
                    word = []
        words.append("".join(word))
        return _joined(words, solid)

    def _pieces(self, kind: str, text: str, depth: int) -> list[str]:
        if kind == "variable":
            value = self._variable(text, depth)
            return value if isinstance(value, list) else [value]
        if kind == "sum":
            return [self._sum(text)]
        if kind == "command" and (here := _CAT.match(text)) is not None and depth < DEEPEST:
            # With the line break before it, so that its lines are counted from the command's.
            if here[1]:
                return ["\n" + here[3]]
            return ["\n" + " ".join(self.expand(here_parts(here[3]), depth + 1))]
        return [marks.opened(f"$({text.strip()[:60]})") if kind == "command" else text]

    def _sum(self, text: str) -> str:
        def lookup(name: str) -> str | None:
            value = self._variable(name, 0)
            return marks.without_lines(value) if isinstance(value, str) else None

        try:
            return str(sums.compute(text, lookup))
        except sums.NotASum:
            return marks.opened(f"$(({text.strip()[:60]}))")

    def _variable(self, text: str, depth: int) -> Value:
        if text[:1] == "#" and len(text) > 1:
            items = self.values.get(text[1:].removesuffix("[@]").removesuffix("[*]"))
            if isinstance(items, list) and text[-1] == "]" and not any(map(marks.is_open, items)):
                return str(len(items))
        name, operator, rest = _split(text)
        self.used.add(name)
        value = self.values.get(name)
        if value is not None and operator in ("[@]", "[*]", ""):
            array = isinstance(value, list) and (operator or len(value) == 1)
            return value if array or isinstance(value, str) else (value[:1] or [""])
        if operator in (":-", ":=", "-", "="):
            empty = value is None or (operator[0] == ":" and not marks.without_lines(str(value)))
            if not empty and value is not None:
                return value
            if depth < DEEPEST:
                default = " ".join(self.expand(_whole(_parts(rest)), depth + 1))
                if operator.endswith("=") and name.isidentifier():
                    self.values[name] = default
                return default
        if operator in (":+", "+") and depth < DEEPEST and name.isidentifier():
            if value is None:
                return ""
            return " ".join(self.expand(_whole(_parts(rest)), depth + 1))
        if operator in _CUTS and isinstance(value, str) and not marks.is_open(value + rest):
            cut = _cut(marks.without_lines(value), operator, rest)
            if cut is not None:
                return cut
        if operator == "[n]" and isinstance(value, list) and rest.isdigit():
            return value[int(rest)] if int(rest) < len(value) else ""
        return marks.opened(f"${name}" if not operator and len(text) < 60 else f"${{{text[:60]}}}")


def _whole(parts: list[Part]) -> list[Part]:
    """In an assignment nothing is split."""
    return [(kind, text, True) for kind, text, _ in parts]


def _parts(text: str) -> list[Part]:
    tokens = Lexer(text).tokens()
    if len(tokens) == 1 and tokens[0].kind == "word":
        return tokens[0].parts
    return here_parts(text)


def _split(text: str) -> tuple[str, str, str]:
    """(name, operator, rest) of what stands in ``${...}``."""
    length = 0
    while length < len(text) and (text[length].isalnum() or text[length] == "_"):
        length += 1
    name, rest = text[:length], text[length:]
    if not rest:
        return (name, "", "") if name else (text, "?", "")
    if rest in ("[@]", "[*]"):
        return name, rest, ""
    if rest[0] == "[" and rest[-1] == "]" and rest[1:-1].isdigit():
        return name, "[n]", rest[1:-1]
    for operator in (":-", ":=", ":+", "-", "=", "+", *_CUTS):
        if rest.startswith(operator) and name:
            return name, operator, rest[len(operator) :]
    return name or text, "?", rest


def _cut(value: str, operator: str, rest: str) -> str | None:
    """``${A//_}``, ``${A/x/y}``, ``${A%.sh}``, ``${A##*/}``; None for other patterns."""
    if operator in ("//", "/"):
        old, _, new = rest.partition("/")
        if not old or set(old + new) & set("*?[\\#%$\"'`"):
            return None
        return value.replace(old, new, -1 if operator == "//" else 1)
    mark = rest.strip("*")
    if not mark or set(mark) & set("*?[\\$\"'`"):
        return None
    longest = len(operator) == 2
    if operator[0] == "%":
        if rest == mark:
            return value.removesuffix(mark)
        if rest == mark + "*":
            found = value.find(mark) if longest else value.rfind(mark)
            return value if found < 0 else value[:found]
        return None
    if rest == mark:
        return value.removeprefix(mark)
    if rest == "*" + mark:
        found = value.rfind(mark) if longest else value.find(mark)
        return value if found < 0 else value[found + len(mark) :]
    return None


def _joined(words: list[str], solid: bool) -> list[str]:
    """Words that are nothing but marks of lines give them to the next one."""
    found: list[str] = []
    held = ""
    for word in words:
        if marks.without_lines(word) or (solid and len(words) == 1):
            found.append(held + word)
            held = ""
        else:
            held += word
    return found
