"""One JSON document: decoded, and if its end is missing, as much of it as is whole."""

import json
import re
from typing import Any

from surefoot.errors import LogError
from surefoot.readers.text import Source
from surefoot.readers.text.decoding import decoder, encoding_of
from surefoot.readers.text.weight import too_heavy

MOST = 256 << 20
"""Bytes of a document; decoded it takes several times as much memory."""

_TOKEN = re.compile(r'"(?:[^"\\]+|\\.)*+"|[][{},"]', re.DOTALL)
_SPACE = re.compile(r"[\s,]*")
_CLOSING = {"{": "}", "[": "]"}


def head_of(source: Source) -> bytes:
    """The first bytes of a file as UTF-8 without a mark or leading blanks."""
    head = source.head
    if head[:1] in (b"{", b"["):
        return head
    encoding = encoding_of(head)
    return decoder(encoding).decode(head).lstrip("\ufeff \t\r\n").encode()


def is_lines(head: bytes) -> bool:
    """Whether a file is an object a line, and not one document."""
    first, _, rest = head.partition(b"\n")
    return first[:1] == b"{" and first.rstrip()[-1:] == b"}" and bool(rest.strip())


def document_of(source: Source) -> tuple[Any, int]:
    """The document of a file, and how many objects and lists its end leaves open: 0 if it is whole.

    Of a file that is cut short or damaged, what follows the last complete value before the damage
    is left out, and what is open there is closed. Documents one after another are a list of them.
    ``NaN`` and ``Infinity`` are numbers.

    Raises:
        LogError: if it is too large, nested too deeply, or no JSON even at its beginning.
    """
    data = source.whole(MOST)
    if too_heavy(data):
        raise LogError(f"{source.name} holds too many values to be read as one document")
    encoding = encoding_of(data[:4096])
    text = data.decode("utf-8-sig" if encoding == "utf-8" else encoding, errors="replace")
    try:
        return json.loads(text), 0
    except RecursionError:
        raise LogError(f"{source.name} is nested too deeply to be a log") from None
    except json.JSONDecodeError as error:
        first = error
    except ValueError as error:  # a number of thousands of digits
        raise LogError(f"{source.name} cannot be read: {error}") from None
    if first.msg == "Extra data":
        several = _several(text)
        if len(several) > 1:
            return several, 0
    kept, open_levels = _closed(text[: first.pos])
    try:
        return json.loads(kept), open_levels
    except (ValueError, RecursionError):
        raise LogError(f"{source.name} is no JSON document: {first}") from None


def _several(text: str) -> list[Any]:
    """The documents of a text that holds one after another."""
    decode = json.JSONDecoder().raw_decode
    found, at = [], 0
    while at < len(text):
        try:
            item, at = decode(text, _SPACE.match(text, at).end())  # type: ignore[union-attr]
        except (ValueError, RecursionError):
            break
        found.append(item)
    return found


def _closed(text: str) -> tuple[str, int]:
    """The text up to its last complete value, closed; and how much was open there."""
    stack: list[str] = []
    best, held = 0, ""
    for token in _TOKEN.finditer(text):
        mark = token[0][0]
        if token[0] == '"':  # a text that does not end
            break
        if mark in "{[":
            stack.append(mark)
        elif mark in "}]":
            if not stack or _CLOSING[stack.pop()] != mark:
                break
            best, held = token.end(), "".join(stack)
            if not stack:
                break
        elif mark == ",":
            best, held = token.start(), "".join(stack)
        if len(stack) > 900:
            break
    return text[:best] + "".join(_CLOSING[mark] for mark in reversed(held)), len(held)
