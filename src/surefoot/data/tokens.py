"""Token files: memory-mapped token numbers with a header, a document table and checksums.

Layout, little-endian::

    0      256 bytes   header: magic, version, item size, counts, checksums, its own checksum
    256    tokens      uint16 or uint32; each document is followed by the end-of-text token
           documents   per document: first token (u8), number within its file (u8), file (u4)
           names       the files' names, a JSON list

The header is written last, so that a file whose writing was cut short has none.
"""

import hashlib
import json
import struct
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import DataError
from surefoot.recipe.words import printable

MAGIC = b"SFTOKENS"
VERSION = 1
HEADER_SIZE = 256
TABLE = np.dtype([("start", "<u8"), ("number", "<u8"), ("file", "<u4")])
"""A row of the document table."""

_FIELDS = struct.Struct("<8sIIQQQ32s32s")
_HASHED_WHEN_OPENED = 64 << 20
"""Files up to this many bytes are hashed at every opening: about a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a token file says of itself. Checksums are SHA-256."""

    itemsize: int
    tokens: int
    documents: int
    names_size: int
    tokens_sha256: bytes
    table_sha256: bytes
    """Of the document table and the names."""

    @property
    def tokens_size(self) -> int:
        """Bytes of the tokens."""
        return self.itemsize * self.tokens

    @property
    def file_size(self) -> int:
        """Bytes of the whole file."""
        table = TABLE.itemsize * self.documents
        return HEADER_SIZE + self.tokens_size + table + self.names_size

    def to_bytes(self) -> bytes:
        """The 256 bytes at the head of the file."""
        body = _FIELDS.pack(
            MAGIC,
            VERSION,
            self.itemsize,
            self.tokens,
            self.documents,
            self.names_size,
            self.tokens_sha256,
            self.table_sha256,
        ).ljust(HEADER_SIZE - 32, b"\0")
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> "Header":
        """Read a header; DataError if it is torn, altered, foreign or of a newer version."""
        if len(data) < HEADER_SIZE or not data.startswith(MAGIC):
            raise DataError(f"{name}: not a token file, or one whose writing was cut short")
        if hashlib.sha256(data[:-32]).digest() != data[-32:]:
            raise DataError(f"{name}: the header of this token file was altered")
        _, version, *rest = _FIELDS.unpack_from(data)
        if version != VERSION:
            raise DataError(
                f"{name}: token file of format {version}, this surefoot reads {VERSION}"
            )
        return cls(*rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a document.

    Attributes:
        file: name of the file within the source, with control characters and what is no UTF-8
            escaped.
        document: number of the document within the file (line of a .jsonl, row of a .parquet).
        token_offset: first token of the part, counted within the document.
        tokens: length of the part; the end-of-text token belongs to its document.
    """

    file: str
    document: int
    token_offset: int
    tokens: int

    def __str__(self) -> str:
        first, last = self.token_offset, self.token_offset + self.tokens - 1
        tokens = f"token {first}" if first == last else f"tokens {first} to {last}"
        return f"{self.file}, document {self.document}, {tokens} of the document"


class TokenFile:
    """A token file, open for reading.

    On opening, the header and the file's size are checked, and every byte if there are at most
    64 MiB of them; :meth:`verify` checks every byte whatever the size.

    Args:
        path: the file.

    Raises:
        DataError: if it is missing, torn, altered, foreign or of a newer format.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self.header = Header.from_bytes(file.read(HEADER_SIZE), printable(path))
                if (size := path.stat().st_size) != self.header.file_size:
                    raise DataError(
                        f"{printable(path)}: torn token file: {size} bytes, its header says "
                        f"{self.header.file_size}"
                    )
                self.names = self._read_names(file)
        except OSError as error:
            raise DataError(
                f"{printable(path)}: cannot read this token file ({error.strerror})"
            ) from None
        head = self.header
        tokens_end = HEADER_SIZE + head.tokens_size
        self.tokens = _map(path, f"<u{head.itemsize}", HEADER_SIZE, head.tokens)
        self._table = _map(path, TABLE, tokens_end, head.documents)
        if head.file_size <= _HASHED_WHEN_OPENED:
            self.verify()

    def _read_names(self, file: BinaryIO) -> list[str]:
        file.seek(self.header.file_size - self.header.names_size)
        try:
            return [str(name) for name in json.loads(file.read())]
        except ValueError:
            raise DataError(
                f"{printable(self.path)}: the names in this token file were altered"
            ) from None

    def verify(self) -> None:
        """Raise DataError if any byte was altered since the file was written."""
        middle = HEADER_SIZE + self.header.tokens_size
        parts = (
            ("tokens", HEADER_SIZE, middle, self.header.tokens_sha256),
            ("document table", middle, self.header.file_size, self.header.table_sha256),
        )
        with self.path.open("rb") as file:
            for what, start, stop, expected in parts:
                if _hash_range(file, start, stop) != expected:
                    raise DataError(
                        f"{printable(self.path)}: the {what} of this token file was altered"
                    )

    def __len__(self) -> int:
        return self.header.tokens

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenFile, (self.path,)  # a worker process maps the file itself

    @property
    def documents(self) -> int:
        """How many documents the file holds."""
        return self.header.documents

    def spans(self, start: int, stop: int) -> tuple[Span, ...]:
        """The documents that the tokens ``start .. stop - 1`` belong to, in order."""
        if not 0 <= start < stop <= len(self):
            raise IndexError(f"expected 0 <= start < stop <= {len(self)}, got {start}, {stop}")
        starts = self._table["start"]
        found = []
        row = bisect_right(starts, start) - 1
        while row < self.documents and starts[row] < stop:
            begin = int(starts[row])
            end = int(starts[row + 1]) if row + 1 < self.documents else len(self)
            first = max(start, begin)
            found.append(
                Span(
                    file=printable(self.names[self._table["file"][row]]),
                    document=int(self._table["number"][row]),
                    token_offset=first - begin,
                    tokens=min(stop, end) - first,
                )
            )
            row += 1
        return tuple(found)


def _map(path: Path, dtype: Any, offset: int, length: int) -> NDArray[Any]:
    if not length:
        return np.zeros(0, dtype=dtype)  # the system maps no empty range
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=length)


def _hash_range(file: BinaryIO, start: int, stop: int) -> bytes:
    digest = hashlib.sha256()
    file.seek(start)
    left = stop - start
    while left and (piece := file.read(min(left, 1 << 20))):
        digest.update(piece)
        left -= len(piece)
    return digest.digest()
