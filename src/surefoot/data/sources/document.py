"""Documents, the files they come from, and how bytes become text."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from surefoot.errors import DataError
from surefoot.recipe.words import printable

BOM = b"\xef\xbb\xbf"
REPLACE = "--set data.errors=replace"


@dataclass(frozen=True, slots=True)
class Document:
    """One text and where it comes from.

    ``number`` counts from 0 within the file: the line of a .jsonl, the row of a .parquet, else 0.
    """

    file: str
    number: int
    text: str

    @property
    def key(self) -> str:
        """Identity of the document: stays the same when other files come and go."""
        return f"{self.file}#{self.number}"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source: its path, and its name within the source (relative, with ``/``)."""

    path: Path
    name: str

    @property
    def shown(self) -> str:
        """The path as messages say it."""
        return printable(self.path)


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read.

    Attributes:
        errors: what to do with bytes that are no text: ``strict`` or ``replace``.
        text_field: key or column of the text.
    """

    errors: Literal["strict", "replace"] = "strict"
    text_field: str = "text"


Texts = Iterator[tuple[int, str | None]]
"""Numbers and texts of one file's documents, in order; None where a row has no text."""


def decode(
    data: bytes, reading: Reading, where: str, *, start: int = 0, encoding: str = "utf-8"
) -> str:
    """Bytes to text, by the policy for bad ones.

    Args:
        data: the bytes.
        reading: holds the policy.
        where: names the file, and the line if there is one, in the message.
        start: offset of ``data`` in the (decompressed) file.
        encoding: what the bytes should be.

    Raises:
        DataError: naming the place of the first bad byte, if the policy is ``strict``.
    """
    try:
        return data.decode(encoding, reading.errors)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: byte 0x{data[error.start]:02x} at offset {start + error.start} is not "
            f"{encoding.upper()}: convert the file, or type {REPLACE}"
        ) from None


def encodable(text: str, reading: Reading, where: str) -> str:
    r"""The text, if it can be written as UTF-8: lone surrogates (``\ud800`` in JSON) cannot.

    Raises:
        DataError: if it cannot and the policy is ``strict``.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        if reading.errors == "strict":
            raise DataError(
                f"{where}: the text holds the lone surrogate U+{ord(text[error.start]):04X} at "
                f"character {error.start}, which UTF-8 has no form for: repair the file, or type "
                f"{REPLACE}"
            ) from None
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def unreadable(path: Path, error: BaseException) -> DataError:
    """The error for a file that is torn, locked or gone."""
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return DataError(
        f"{printable(path)}: cannot read this file ({printable(why)}): restore it, or leave it out"
    )
