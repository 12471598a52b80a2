"""Whole-number arithmetic of the shell, ``$((A * B))``: computed, never run."""

import re
from collections.abc import Callable

_TOKEN = re.compile(r"\s*(?:(\d+)|\$?\{?([A-Za-z_]\w*)\}?|(\*\*|[-+*/%()]))")
_LONGEST = 400
_MOST = 2**63


class NotASum(ValueError):
    """Not arithmetic, or a name in it is not known."""


def compute(text: str, lookup: Callable[[str], str | None]) -> int:
    """The value of a sum.

    Args:
        text: what stands between ``$((`` and ``))``.
        lookup: the text of a variable, None where it is not known.

    Raises:
        NotASum: anything but whole numbers, known names, ``+ - * / % **`` and brackets.
    """
    if len(text) > _LONGEST:
        raise NotASum
    tokens, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise NotASum
        number, name, sign = match.groups()
        if name is not None:
            value = lookup(name)
            if value is None or not re.fullmatch(r"-?\d{1,18}", value.strip()):
                raise NotASum
            tokens.append(value.strip())
        else:
            tokens.append(number or sign)
        at = match.end()
    sums = _Sum(tokens)
    value_of = sums.level(0)
    if sums.rest:
        raise NotASum
    return value_of


class _Sum:
    def __init__(self, tokens: list[str]) -> None:
        self.rest = tokens[::-1]

    def level(self, depth: int) -> int:
        value = self._product(depth)
        while self.rest and self.rest[-1] in "+-":
            sign = self.rest.pop()
            other = self._product(depth)
            value = value + other if sign == "+" else value - other
        return value

    def _product(self, depth: int) -> int:
        value = self._term(depth)
        while self.rest and self.rest[-1] in ("*", "/", "%", "**"):
            sign, other = self.rest.pop(), self._term(depth)
            if sign == "*":
                value *= other
            elif sign == "**":
                if not 0 <= other <= 62:
                    raise NotASum
                value **= other
            elif other == 0:
                raise NotASum
            else:
                whole = abs(value) // abs(other) * (1 if (value < 0) == (other < 0) else -1)
                value = whole if sign == "/" else value - whole * other
            if abs(value) > _MOST:
                raise NotASum
        return value

    def _term(self, depth: int) -> int:
        if not self.rest or depth > 50:
            raise NotASum
        token = self.rest.pop()
        if token == "(":
            value = self.level(depth + 1)
            if not self.rest or self.rest.pop() != ")":
                raise NotASum
            return value
        if token in "+-":
            value = self._term(depth + 1)
            return value if token == "+" else -value
        if not re.fullmatch(r"-?\d+", token):
            raise NotASum
        return int(token)
