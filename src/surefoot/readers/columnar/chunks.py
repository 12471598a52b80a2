"""A file in pieces of whole lines, each read when it is asked for."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from surefoot.readers.text import Source
from surefoot.readers.text.lines import LONGEST

CHUNK = 16 << 20
"""Bytes of a piece, about."""
PAD = 16
"""Zeros behind the last line of a piece, at least; one may have become its line feed."""


def whole_lines(source: Source) -> Iterator[Callable[[], bytearray]]:
    """Whole lines, about :data:`CHUNK` bytes at a time, each read when it is asked for."""
    path = source.file
    if path is not None:
        yield from _of_file(path)
        return
    held = b""
    for piece in source.chunks(CHUNK):
        held += piece
        cut = held.rfind(b"\n") + 1
        if cut and len(held) >= CHUNK // 4:
            yield partial(padded, held[:cut])
            held = held[cut:]
        elif not cut and len(held) > 4 * CHUNK:
            held = held[:LONGEST]  # one endless line: what matters of it is at its beginning
    if held:
        yield partial(padded, held)


def _of_file(path: Path) -> Iterator[Callable[[], bytearray]]:
    with open(path, "rb") as file:
        begin, size = 0, path.stat().st_size
        while begin < size:
            end = behind = min(begin + CHUNK, size)
            file.seek(end)
            while end < size and (piece := file.read(1 << 16)):
                feed = piece.find(b"\n")
                behind += len(piece) if feed < 0 else feed + 1
                if feed >= 0:
                    break
            # Of an endless line only the beginning is read.
            yield partial(_read_range, path, begin, min(behind, end + LONGEST))
            begin = behind


def _read_range(path: Path, begin: int, end: int) -> bytearray:
    data = bytearray(end - begin + PAD)
    with open(path, "rb") as file, memoryview(data) as view:
        file.seek(begin)
        size = file.readinto(view[: end - begin])
    del data[size + PAD :]  # the file may have become shorter
    return _ended(data, size)


def _ended(data: bytearray, size: int) -> bytearray:
    """Whole lines: a line feed at the end of the ``size`` bytes, then zeros."""
    if size and data[size - 1] != 10:
        data[size] = 10
    return data


def padded(lines: bytes) -> bytearray:
    """Whole lines followed by zeros, so that a row of bytes may reach beyond the last line."""
    return _ended(bytearray(lines) + bytes(PAD), len(lines))
