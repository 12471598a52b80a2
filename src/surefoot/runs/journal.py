"""The journal: one checksummed record a step, appended at once with one unbuffered write.

::

    header  "surefoot", version u16, 0 u16, CRC-32 of these 12 bytes u32
    frame   kind u8, 0 0 0, length u32, CRC-32 u32 of kind to length and payload, payload
    kind 1  a layout:  number u32, then JSON {"integers", "floats", "lists"}
    kind 2  a row:     number of its layout u32, then the bytes of :mod:`surefoot.runs.layout`

All little-endian. A layout is written before the first row that needs it. Reading stops at the
first frame that is torn or does not match its checksum, and says at which byte: what lies behind
is never taken for data.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from surefoot.records import StepRecord, from_json
from surefoot.runs.durable import storage_errors, write_all, write_atomic
from surefoot.runs.layout import Layout, LayoutKey, Row, layout_key

NAME = "journal"
VERSION = 1

_MAGIC = b"surefoot"
_HEADER = struct.Struct("<8sHHI")
_FRAME = struct.Struct("<B3xII")
_CHECKED = 8  # bytes of the frame's head that its CRC covers: kind, padding, length
_NUMBER = struct.Struct("<I")
_LAYOUT, _ROW = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalContents:
    """What could be read of a journal.

    Attributes:
        rows: the good rows, in the order written.
        good_bytes: offset of the first byte that could not be read; the size if all could.
        size: bytes of the file.
        problem: what is wrong, and at which byte; None if nothing is.
    """

    rows: tuple[Row, ...] = ()
    good_bytes: int = 0
    size: int = 0
    problem: str | None = None


class Journal:
    """The journal of a run, open for appending.

    Args:
        path: an existing journal whose every byte is good.
        rows: the rows it holds.
    """

    _fd: int
    _size: int
    _torn: bool

    def __init__(self, path: Path, rows: Iterable[Row] = ()) -> None:
        self.path = path
        self.rows = list(rows)
        self._layouts: dict[LayoutKey, Layout] = {}
        self._open()

    def append(self, record: StepRecord) -> None:
        """Add the row of a step with one write, not flushed to the disk.

        Raises:
            StorageError: if the disk is full; the journal is as it was before.
            ValueError: if the record cannot be stored.
        """
        key = layout_key(record)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = Layout.of(record)
        row = Row(layout, layout.pack(record))
        number = self._numbers.get(layout)
        frames = _row_frame(len(self._numbers) if number is None else number, row)
        if number is None:
            frames = _layout_frame(len(self._numbers), layout) + frames
        with storage_errors(self.path):
            if self._torn:
                self._cut()
            try:
                write_all(self._fd, frames)
            except OSError:
                # Cut off what was written of it; if even that fails, before the next append.
                self._torn = True
                with suppress(OSError):
                    self._cut()
                raise
        self._size += len(frames)
        self._numbers.setdefault(layout, len(self._numbers))
        self.rows.append(row)

    def sync(self) -> None:
        """Flush the rows to the disk."""
        with storage_errors(self.path):
            os.fsync(self._fd)

    def reset(self) -> None:
        """Begin anew with an empty file, in place of this one: its rows are in a segment."""
        write_atomic(self.path, encode(()))
        self.close()
        self.rows = []
        self._open()

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _open(self) -> None:
        self._numbers = {layout: i for i, layout in enumerate(_layouts(self.rows))}
        self._torn = False
        with storage_errors(self.path):
            self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        self._size = os.fstat(self._fd).st_size

    def _cut(self) -> None:
        os.ftruncate(self._fd, self._size)
        self._torn = False


def encode(rows: Iterable[Row]) -> bytes:
    """The bytes of a whole journal of these rows."""
    rows = list(rows)
    head = _MAGIC + struct.pack("<HH", VERSION, 0)
    parts = [head + _NUMBER.pack(zlib.crc32(head))]
    numbers = {layout: i for i, layout in enumerate(_layouts(rows))}
    parts += [_layout_frame(number, layout) for layout, number in numbers.items()]
    parts += [_row_frame(numbers[row.layout], row) for row in rows]
    return b"".join(parts)


def read_journal(path: Path) -> JournalContents:
    """Every good row of a journal; a missing file has none, and a problem."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return JournalContents(problem=f"cannot be read ({error.strerror})")
    problem = _check_header(data)
    if problem is not None:
        return JournalContents(size=len(data), problem=problem)
    rows: list[Row] = []
    good = _HEADER.size
    try:
        for row, end in _frames(data):
            good = end
            if row is not None:
                rows.append(row)
    except _BadFrame as error:
        problem = str(error)
    return JournalContents(rows=tuple(rows), good_bytes=good, size=len(data), problem=problem)


class _BadFrame(Exception):
    """The frame at this offset is not to be read, nor is anything behind it."""


def _frames(data: bytes) -> Iterator[tuple[Row | None, int]]:
    """The row (None for a layout) of each frame, and the offset of its end."""
    layouts: list[Layout] = []
    sizes: list[int] = []
    start = _HEADER.size
    while start < len(data):
        body = start + _FRAME.size
        if body > len(data):
            raise _BadFrame(f"torn at byte {start}: {len(data) - start} bytes of a frame's head")
        kind, length, checksum = _FRAME.unpack_from(data, start)
        end = body + length
        if end > len(data):
            raise _BadFrame(
                f"torn at byte {start}: {len(data) - body} of a frame's {length} bytes are there"
            )
        payload = data[body:end]
        if zlib.crc32(payload, zlib.crc32(data[start : start + _CHECKED])) != checksum:
            raise _BadFrame(f"damaged at byte {start}: a frame does not match its checksum")
        number = _NUMBER.unpack_from(payload)[0] if length >= _NUMBER.size else -1
        content = payload[_NUMBER.size :]
        if kind == _LAYOUT and number == len(layouts):
            layouts.append(from_json(Layout, json.loads(content)))
            sizes.append(layouts[-1].dtype.itemsize)
            yield None, end
        elif kind == _ROW and 0 <= number < len(layouts) and len(content) == sizes[number]:
            yield Row(layouts[number], content), end
        else:
            raise _BadFrame(f"damaged at byte {start}: a frame of kind {kind} is out of place")
        start = end


def _check_header(data: bytes) -> str | None:
    if len(data) < _HEADER.size:
        return "torn at byte 0: the header is not whole"
    magic, version, _, checksum = _HEADER.unpack_from(data)
    if magic != _MAGIC or zlib.crc32(data[: _HEADER.size - 4]) != checksum:
        return "damaged at byte 0: not the header of a journal"
    if version > VERSION:
        return f"written by a newer surefoot (version {version}, this one reads {VERSION})"
    return None


def _layouts(rows: Iterable[Row]) -> list[Layout]:
    return list(dict.fromkeys(row.layout for row in rows))


def _layout_frame(number: int, layout: Layout) -> bytes:
    described = {
        "integers": layout.integers,
        "floats": layout.floats,
        "lists": layout.lists,
    }
    return _frame(_LAYOUT, number, json.dumps(described, separators=(",", ":")).encode())


def _row_frame(number: int, row: Row) -> bytes:
    return _frame(_ROW, number, row.data)


def _frame(kind: int, number: int, content: bytes) -> bytes:
    payload = _NUMBER.pack(number) + content
    head = struct.pack("<B3xI", kind, len(payload))
    return head + _NUMBER.pack(zlib.crc32(payload, zlib.crc32(head))) + payload
