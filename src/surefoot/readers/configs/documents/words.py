"""Shell scripts into tokens: words with their quotes and variables, operators, here-documents.

A subset of bash that launch scripts use. What is malformed is read as plain text: this is a reader,
not a shell. Time is linear.
"""

import re
from dataclasses import dataclass, field

Part = tuple[str, str, bool]
"""(kind, text, quoted): ``text``, ``variable`` (what stands in ``${...}``), ``sum``, ``command``,
``line``."""

_PLAIN = re.compile(r"[^\s\"'\\$`#;&|<>()]+")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")
_ARRAY = re.compile(r"(?:[A-Za-z_]\w*)\+?=$")
_HERE = re.compile(r"<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([\w.-]+))")
_IN_QUOTES = re.compile(r"[^\"\\$`\n]+")
DEEPEST = 20


@dataclass(slots=True)
class Token:
    """A word, an operator, the end of a line, or an array ``NAME=( ... )``.

    Attributes:
        kind: ``word``, ``op``, ``line``, ``array``, ``here``.
        line: where it begins.
        parts: of a word, or the body of a here-document.
        text: of an operator; of an array, ``NAME=`` or ``NAME+=``.
        items: words of an array.
    """

    kind: str
    line: int
    parts: list[Part] = field(default_factory=list)
    text: str = ""
    items: list[list[Part]] = field(default_factory=list)

    @property
    def bare(self) -> str | None:
        """The text of a word in which nothing is quoted or expanded."""
        if len(self.parts) == 1 and self.parts[0][0] == "text" and not self.parts[0][2]:
            return self.parts[0][1]
        return None


class Lexer:
    """Tokens and comments of one text.

    Args:
        text: the script.
        line: of its first character.
    """

    def __init__(self, text: str, line: int = 1) -> None:
        self.text, self.at, self.line = text, 0, line
        self.comments: list[tuple[int, str]] = []
        self._heres: list[tuple[str, bool, bool]] = []  # delimiter, quoted, dashes
        self._broken_quotes = False
        self._budget = 4 * len(text) + 10_000  # of looking for closing brackets

    def tokens(self) -> list[Token]:
        """All of them, in order."""
        found: list[Token] = []
        while (token := self._token()) is not None:
            found.append(token)
            if token.kind == "line" and self._heres:
                found.extend(self._here_bodies())
        return found

    def _token(self) -> Token | None:
        text = self.text
        while self.at < len(text):
            char = text[self.at]
            if char == "\n":
                self.at += 1
                self.line += 1
                return Token("line", self.line - 1)
            if char.isspace():
                self.at += 1
            elif text.startswith("\\\n", self.at) or text.startswith("\\\r\n", self.at):
                self.at = text.index("\n", self.at) + 1
                self.line += 1
            elif char == "#":
                end = self._end_of_line()
                self.comments.append((self.line, text[self.at + 1 : end].strip()))
                self.at = end
            elif char in ";&|()<>":
                return self._operator()
            else:
                return self._word()
        return None

    def _end_of_line(self) -> int:
        end = self.text.find("\n", self.at)
        return len(self.text) if end < 0 else end

    def _operator(self) -> Token:
        text, line = self.text, self.line
        if (here := _HERE.match(text, self.at)) and not text.startswith("<<<", self.at):
            self._heres.append((here[2] or here[3] or here[4], here[4] is None, bool(here[1])))
            self.at = here.end()
            return Token("op", line, text="<<")
        for length in (3, 2, 1):
            found = text[self.at : self.at + length]
            if found in (";;&", "<<<", "&&", "||", ";;", ">>", "&>", ">&", "<&", "<(", ">("):
                break
        self.at += len(found)
        return Token("op", line, text=found)

    def _word(self) -> Token:
        token = Token("word", self.line)
        text = self.text
        while self.at < len(text):
            char = text[self.at]
            if match := _PLAIN.match(text, self.at):
                token.parts.append(("text", match[0], False))
                self.at = match.end()
            elif char == "#":
                token.parts.append(("text", "#", False))
                self.at += 1
            elif char == "(" and (bare := token.bare) is not None and _ARRAY.match(bare):
                return self._array(token.line, bare)
            elif char == "\\":
                self._escape(token.parts)
            elif char == "'":
                self._single(token.parts)
            elif char == '"':
                self._double(token.parts)
            elif char in "$`":
                self._dollar(token.parts, quoted=False)
            else:
                break
        return token

    def _array(self, line: int, name: str) -> Token:
        token = Token("array", line, text=name)
        self.at += 1
        while (inner := self._token()) is not None:
            if inner.kind == "op" and inner.text == ")":
                break
            if inner.kind == "word":
                token.items.append([("line", str(inner.line), True), *inner.parts])
        return token

    def _escape(self, parts: list[Part]) -> None:
        if self.text.startswith("\\\n", self.at):
            self.at += 2
            self.line += 1
            return
        parts.append(("text", self.text[self.at + 1 : self.at + 2], True))
        self.at += 2

    def _single(self, parts: list[Part]) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            parts.append(("text", "'", False))
            self.at += 1
            return
        self._put_lines(parts, self.text[self.at + 1 : end])
        self.at = end + 1

    def _put_lines(self, parts: list[Part], body: str) -> None:
        """A quoted text, with a mark before each of its lines but the first."""
        first, *rest = body.split("\n")
        parts.append(("text", first, True))
        for line in rest:
            self.line += 1
            parts += [("text", "\n", True), ("line", str(self.line), True), ("text", line, True)]

    def _double(self, parts: list[Part]) -> None:
        start, line, held = self.at, self.line, len(parts)
        self.at += 1
        parts.append(("text", "", True))
        while self.at < len(self.text):
            char = self.text[self.at]
            if match := _IN_QUOTES.match(self.text, self.at):
                body = match[0].lstrip(" \t")
                if parts[-1][0] == "variable" and body and len(body) < len(match[0]):
                    # The variable's text may come from lines far above.
                    space = match[0][: len(match[0]) - len(body)]
                    parts += [("text", space, True), ("line", str(self.line), True)]
                    parts.append(("text", body, True))
                else:
                    parts.append(("text", match[0], True))
                self.at = match.end()
            elif char == '"':
                self.at += 1
                return
            elif char == "\n":
                self.at += 1
                self._put_lines(parts, "\n")
            elif char == "\\":
                follows = self.text[self.at + 1 : self.at + 2]
                if follows == "\n":
                    self.line += 1
                    parts.append(("line", str(self.line), True))
                else:
                    kept = follows if follows in '"$`\\' else "\\" + follows
                    parts.append(("text", kept, True))
                self.at += 2
            elif self._broken_quotes:
                parts.append(("text", char, True))
                self.at += 1
            else:
                self._dollar(parts, quoted=True)
        # No closing quote: a bare list of flags may hold one; it is text then.
        del parts[held:]
        parts.append(("text", '"', False))
        self.at, self.line, self._broken_quotes = start + 1, line, True

    def _dollar(self, parts: list[Part], quoted: bool) -> None:
        text, at = self.text, self.at
        if text[at] == "`":
            end = text.find("`", at + 1)
            end = len(text) if end < 0 else end
            parts.append(("command", text[at + 1 : end], quoted))
            self._move(min(end + 1, len(text)))
        elif text.startswith("$((", at):
            end = self._matching(at + 1, "(", ")")
            parts.append(("sum", text[at + 3 : end - 2], quoted))
            self._move(end)
        elif text.startswith("$(", at):
            end = self._matching(at + 1, "(", ")")
            parts.append(("command", text[at + 2 : end - 1], quoted))
            self._move(end)
        elif text.startswith("${", at):
            end = self._matching(at + 1, "{", "}")
            parts.append(("variable", text[at + 2 : end - 1], quoted))
            self._move(end)
        elif match := _NAME.match(text, at + 1):
            parts.append(("variable", match[0], quoted))
            self.at = match.end()
        else:
            parts.append(("text", "$", quoted))
            self.at += 1

    def _matching(self, at: int, opening: str, closing: str) -> int:
        """The place behind the bracket that closes the one at ``at``; at most 4096 away."""
        depth = 0
        for place in range(at, min(len(self.text), at + 4096)):
            char = self.text[place]
            depth += (char == opening) - (char == closing)
            self._budget -= 1
            if depth == 0:
                return place + 1
            if self._budget < 0:
                break
        return min(len(self.text), at + 2)

    def _move(self, to: int) -> None:
        self.line += self.text.count("\n", self.at, to)
        self.at = to

    def _here_bodies(self) -> list[Token]:
        found = []
        for delimiter, quoted, dashes in self._heres:
            start, first = self.at, self.line
            while self.at < len(self.text):
                end = self._end_of_line()
                line = self.text[self.at : end].rstrip("\r")
                if (line.lstrip("\t") if dashes else line) == delimiter:
                    break
                self.at = min(end + 1, len(self.text))
                self.line += 1
            body = self.text[start : self.at]
            self.at = min(self._end_of_line() + 1, len(self.text))
            self.line += 1
            parts = [("text", body, True)] if quoted else here_parts(body, first)
            found.append(Token("here", first, parts))
        self._heres = []
        return found


def here_parts(body: str, line: int = 1) -> list[Part]:
    """A text in which only variables and backslashes mean something."""
    lexer = Lexer(body, line)
    parts: list[Part] = []
    plain = re.compile(r"[^\\$`]+")
    while lexer.at < len(body):
        if match := plain.match(body, lexer.at):
            parts.append(("text", match[0], True))
            lexer.at = match.end()
        elif body[lexer.at] == "\\":
            follows = body[lexer.at + 1 : lexer.at + 2]
            kept = "" if follows == "\n" else follows if follows in "$`\\" else "\\" + follows
            parts.append(("text", kept, True))
            lexer.at += 2
        else:
            lexer._dollar(parts, quoted=True)
    return parts
