"""Clean lines: decoded, without colour codes, progress bars taken apart, prefixes taken off."""

import re
from collections.abc import Iterator

from surefoot.readers.text.decoding import decoder, encoding_of
from surefoot.readers.text.line import Line
from surefoot.readers.text.opening import Source
from surefoot.readers.text.prefixes import Prefixes

LONGEST = 1 << 20
"""Characters of a line that are kept; what records have metrics is far shorter."""

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[@-Z\\^_=>])"
)
_BACKSPACES = "\x08"


def lines(source: Source, most: int | None = None) -> Iterator[Line]:
    """The lines of a file, one at a time; the last one may lack its end.

    Lines end in LF, CRLF or CR: what a progress bar draws over itself are lines of their own. A
    line longer than :data:`LONGEST` is cut there.

    Args:
        source: the file.
        most: characters after which it is read no further, for those who only look at it: a line
            need not end.
    """
    prefixes = Prefixes()
    for number, text in _raw_lines(source, most):
        yield from clean(number, text, prefixes)


def clean(number: int, text: str, prefixes: Prefixes) -> tuple[Line, ...]:
    """The line or lines that one raw line of a file is, without colours and prefixes."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if _BACKSPACES in text:
        text = text.replace(_BACKSPACES, "")
    if "\r" not in text:
        return (prefixes.take(number, text),)
    return tuple(prefixes.take(number, piece) for piece in text.split("\r") if piece.strip())


def _raw_lines(source: Source, most: int | None) -> Iterator[tuple[int, str]]:
    decode = decoder(encoding_of(source.head)).decode
    number, held, length, taken = 0, [], 0, 0
    for chunk in source.chunks():
        text = decode(chunk)
        taken += len(text)
        first, *rest = text.split("\n")
        if length < LONGEST:
            held.append(first[: LONGEST - length])
            length += len(first)
        for piece in rest:
            number += 1
            yield number, "".join(held)
            held, length = [piece[:LONGEST]], len(piece)
        if most is not None and taken > most:
            break
    held.append(decode(b"", True)[: max(0, LONGEST - length)])
    if last := "".join(held):
        yield number + 1, last
