"""Jupyter notebooks: the text that their cells printed, as the log that it is."""

import json
import re
from collections.abc import Iterator
from typing import Any

from surefoot.readers.text.weight import too_heavy

_BEGINS = re.compile(rb'\s*\{\s*"(?:cells|metadata|nbformat|nbformat_minor|worksheets)"\s*:')
_CELL = re.compile(r"<t[hd][^<>]{0,200}>([^<>]{0,200})</t[hd]>")
_SIGNS = (b'"cell_type"', b'"nbformat"')


def is_notebook(head: bytes) -> bool:
    """Whether a file whose first bytes are ``head`` may be a notebook; :func:`printed` decides."""
    head = head.removeprefix(b"\xef\xbb\xbf")
    return _BEGINS.match(head) is not None and any(sign in head for sign in _SIGNS)


def printed(notebook: bytes) -> bytes | None:
    """What the cells of a notebook printed, one output after another, as UTF-8.

    Standard output, standard error and plain-text results, in the order of the cells; of tables
    shown as HTML, as the Transformers trainer shows its losses, the cells, with tabs between them.
    None if the bytes are no notebook after all, or a damaged one.
    """
    if too_heavy(notebook):
        return None
    try:
        document = json.loads(notebook)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or "nbformat" not in document:
        return None
    pieces = []
    for cell in _cells(document):
        for output in _dicts(cell.get("outputs")):
            text = _text(output)
            if text:
                pieces.append(text if text.endswith("\n") else f"{text}\n")
    return "".join(pieces).encode("utf-8", errors="replace")


def _cells(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from _dicts(document.get("cells"))
    for sheet in _dicts(document.get("worksheets")):  # notebooks of version 3
        yield from _dicts(sheet.get("cells"))


def _dicts(items: object) -> Iterator[dict[str, Any]]:
    if isinstance(items, list):
        yield from (item for item in items if isinstance(item, dict))


def _text(output: dict[str, Any]) -> str:
    data = output.get("data")
    table = _table(data.get("text/html")) if isinstance(data, dict) else ""
    if table:
        return table
    shown = data.get("text/plain") if isinstance(data, dict) else None
    text = output.get("text", shown)
    if isinstance(text, list):
        return "".join(part for part in text if isinstance(part, str))
    return text if isinstance(text, str) else ""


def _table(html: object) -> str:
    """The rows of a table of HTML that tells steps, as lines; empty if it is none."""
    parts = html if isinstance(html, list) else [html]
    text = "".join(part for part in parts if isinstance(part, str))
    if "<table" not in text or "<th>Step</th>" not in text:
        return ""
    rows = [_CELL.findall(row) for row in text.split("</tr>")]
    return "".join("\t".join(cell.strip() for cell in row) + "\n" for row in rows if row)
