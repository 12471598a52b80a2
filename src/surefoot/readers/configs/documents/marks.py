"""Marks inside texts that a shell script gives: what stayed unresolved, and lines.

Private characters, so that they survive the splitting and joining of words.
"""

import re

OPEN, SHUT = "\ue000", "\ue001"
LINE, LINE_END = "\ue002", "\ue003"
_SPACE = "\ue004"  # inside a mark, so that it is not split

MORE = "more of "
"""What the name of a mark begins with that stands for further flags or nothing."""

_OPEN = re.compile(f"{OPEN}([^{SHUT}]*){SHUT}")
_FLAGS = re.compile(
    r"\$(?:\{?[@*]\}?|\{?\w*(?:ARGS?|OPTS?|OPTIONS?|FLAGS?|ARGUMENTS?)(?:\[[@*]\])?\}?)",
    re.IGNORECASE,
)
_LINE = re.compile(f"{LINE}([0-9]+){LINE_END}")
_LEADING = re.compile(f"(?:{LINE}[0-9]+{LINE_END})+")
_ANY = re.compile("[\ue000-\ue004]")


def cleaned(text: str) -> str:
    """The text without characters that are marks here."""
    return _ANY.sub("", text)


def opened(name: str) -> str:
    """A place that only running the script would fill."""
    return f"{OPEN}{_SPACE.join(cleaned(name).split())}{SHUT}"


def at_line(line: int) -> str:
    """What follows stands in this line."""
    return f"{LINE}{line}{LINE_END}"


def without_lines(text: str) -> str:
    """The text without the marks of lines."""
    return _LINE.sub("", text)


def leading(text: str) -> str:
    """The marks of lines that a text begins with."""
    found = _LEADING.match(text)
    return found[0] if found else ""


def line_of(text: str) -> int | None:
    """The line where a word begins, if a mark says so."""
    found = _LINE.findall(leading(text))
    return int(found[-1]) if found else None


def is_open(text: str) -> bool:
    """Whether a part of it is unresolved."""
    return OPEN in text


def without_open(text: str) -> str:
    """The text without what is unresolved in it."""
    return _OPEN.sub("", text)


def is_more(text: str) -> bool:
    """Whether the text is one mark that stands for further flags or nothing."""
    names = open_names(text)
    if len(names) != 1 or without_open(text):
        return False
    return names[0].startswith(MORE) or _FLAGS.fullmatch(names[0].partition(":")[0]) is not None


def open_names(text: str) -> list[str]:
    """What is unresolved in it, as written."""
    return [name.replace(_SPACE, " ") for name in _OPEN.findall(text)]


def shown(text: str) -> str:
    """For people: unresolved parts as they were written, no marks."""
    return cleaned(without_lines(text).replace(_SPACE, " "))
