"""JSON Lines: each line a document."""

import json

from surefoot.data.sources.document import Reading, SourceFile, Texts, decode, encodable
from surefoot.data.sources.stored import lines
from surefoot.errors import DataError


def read_jsonl(file: SourceFile, reading: Reading) -> Texts:
    """The text field of every line, one line in memory at a time; blank lines are passed over.

    Raises:
        DataError: naming file and line, for bad JSON or a line without the text field.
    """
    for number, (offset, line) in enumerate(lines(file.path)):
        where = f"{file.shown}:{number + 1}"
        if line.strip():
            row = decode(line, reading, where, start=offset)
            yield number, _text(row, reading, where)


def _text(line: str, reading: Reading, where: str) -> str | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: not valid JSON ({error}): expected an object a line, such as "
            f'{{"{reading.text_field}": "…"}}'
        ) from None
    if not isinstance(row, dict):
        raise DataError(
            f"{where}: expected a JSON object with a field {reading.text_field!r}, got "
            f"{type(row).__name__}"
        )
    if reading.text_field not in row:
        raise missing_field(where, reading.text_field, list(row))
    text = row[reading.text_field]
    if text is None:
        return None
    if not isinstance(text, str):
        raise DataError(
            f"{where}: the field {reading.text_field!r} holds {type(text).__name__}, expected text"
        )
    return encodable(text, reading, where)


def missing_field(where: str, wanted: str, found: list[str]) -> DataError:
    """The error for a row or table without the text field."""
    names = ", ".join(repr(name) for name in found[:12]) + (", …" if len(found) > 12 else "")
    return DataError(
        f'{where}: no field {wanted!r}; found {names or "none"}: type text_field = "NAME" under '
        "[[data.sources]]"
    )
