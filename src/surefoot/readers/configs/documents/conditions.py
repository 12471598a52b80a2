"""Whether a condition of a shell script holds, where that can be told without running it."""

import re

from surefoot.readers.configs.documents import marks

_NUMBERS = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
}


def truth(words: list[str]) -> bool | None:
    """True, False, or None where it depends on what is not known.

    Args:
        words: of ``[ a = b ]``, ``[[ a == b ]]`` or ``test a = b``, expanded.
    """
    if words and words[-1] in ("then", "do"):
        words = words[:-1]
    if "&&" in words or "||" in words:
        return _several(words)
    if words and words[0] == "!":
        inner = truth(words[1:])
        return None if inner is None else not inner
    if len(words) == 1 and words[0] in ("true", "false"):
        return words[0] == "true"
    if len(words) >= 2 and (words[0], words[-1]) in (("[", "]"), ("[[", "]]")):
        words = words[1:-1]
    elif words and words[0] == "test":
        words = words[1:]
    else:
        return None
    if any(marks.is_open(word) for word in words):
        return None
    if words and words[0] == "!":
        inner = _plain(words[1:])
        return None if inner is None else not inner
    return _plain(words)


def _several(words: list[str]) -> bool | None:
    """Tests joined by ``&&`` or ``||``, but not by both; also inside one pair of brackets."""
    if ("&&" in words and "||" in words) or "(" in words:
        return None
    joint = "&&" if "&&" in words else "||"
    inside = words[0] == "[[" and words[-1] == "]]" and words.count("[[") == 1
    parts: list[list[str]] = [[]]
    for word in words[1:-1] if inside else words:
        if word == joint:
            parts.append([])
        else:
            parts[-1].append(word)
    found = [truth(["[[", *part, "]]"] if inside else part) for part in parts]
    decisive = joint == "||"
    if decisive in found:
        return decisive
    return None if None in found else not decisive


def _plain(words: list[str]) -> bool | None:
    if len(words) == 2 and words[0] in ("-z", "-n"):
        return (words[1] == "") == (words[0] == "-z")
    if len(words) == 1 and words[0] == "":
        return False
    if len(words) != 3:
        return None
    left, operator, right = words
    if operator in ("=", "==", "!=") and not set(right) & set("*?["):
        return (left == right) == (operator != "!=")
    if operator in _NUMBERS and all(re.fullmatch(r"-?\d{1,18}", w) for w in (left, right)):
        return bool(_NUMBERS[operator](int(left), int(right)))
    return None
