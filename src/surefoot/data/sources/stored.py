"""Bytes of a file, decompressed as they are read: plain, .gz or .zst."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from surefoot.data.sources.document import BOM, unreadable
from surefoot.errors import DataError
from surefoot.recipe.words import printable

COMPRESSIONS = (".gz", ".zst")
_CHUNK = 1 << 20


def chunks(path: Path) -> Iterator[bytes]:
    """The decompressed contents in pieces of about 1 MiB, without a leading byte-order mark.

    Raises:
        DataError: if the file cannot be read, is damaged, or ends in the middle of a stream.
    """
    reader = {".gz": _gzip, ".zst": _zstd}.get(path.suffix.lower(), _plain)
    first = True
    try:
        if reader is not _plain and path.stat().st_size == 0:
            raise EOFError("it is empty, which no compressed file is")
        for piece in reader(path):
            yield piece[len(BOM) :] if first and piece.startswith(BOM) else piece
            first = False
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from None


def contents(path: Path) -> bytes:
    """The whole decompressed contents."""
    return b"".join(chunks(path))


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    r"""Offset (in the decompressed contents) and bytes of each line, without its ``\n``."""
    offset, begun = 0, list[bytes]()
    for piece in chunks(path):
        *ended, rest = piece.split(b"\n")
        for end in ended:
            line = b"".join([*begun, end])
            begun.clear()
            yield offset, line
            offset += len(line) + 1
        begun.append(rest)
    if last := b"".join(begun):
        yield offset, last


def _plain(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            yield piece


def _gzip(path: Path) -> Iterator[bytes]:
    with gzip.open(path, "rb") as file:
        while piece := file.read(_CHUNK):
            yield piece


def _zstd(path: Path) -> Iterator[bytes]:
    # Frame by frame: the library's file reader takes a torn frame for the end of the file.
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    fed = False
    for piece in _plain(path):
        data = piece
        while data:
            if frame.eof:
                frame = decompressor.decompressobj()
            try:
                out = frame.decompress(data)
            except zstandard.ZstdError as error:
                raise unreadable(path, error) from None
            fed, data = True, frame.unused_data
            if out:
                yield out
    if fed and not frame.eof:
        raise DataError(
            f"{printable(path)}: cannot read this file (it ends in the middle of a zstd frame): "
            "restore it, or leave it out"
        )
