"""The framing of ``.wandb`` files: a LevelDB log of blocks with the checksum of zlib."""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from struct import Struct

MAGIC = b":W&B\xe1\xbe\x00"
"""Name, magic number and version 0, at the beginning of the first block."""
BLOCK, HEADER = 32768, 7
LONGEST = 64 << 20
"""A record that is longer is left out: it is no row of numbers."""
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
_HEAD = Struct("<IHB")
_SEEDS = {kind: zlib.crc32(bytes([kind])) for kind in (FULL, FIRST, MIDDLE, LAST)}


@dataclass(slots=True)
class Store:
    """The records of one file.

    Args:
        chunks: its bytes.

    Attributes:
        damaged: records or parts of records that could not be used.
        first: byte of the file where the first of them lies.
        torn: the file ends in the middle of a record.
        count: records that were read.
    """

    chunks: Iterable[bytes]
    damaged: int = 0
    first: int | None = None
    torn: bool = False
    count: int = 0
    _begun: bytearray | None = None
    _offset: int = 0
    _held: bytearray = field(default_factory=bytearray)

    def records(self) -> Iterator[bytes]:
        """Each whole record with right checksums."""
        for chunk in self.chunks:
            self._held += chunk
            at = 0
            while len(self._held) - at >= BLOCK:
                yield from self._block(bytes(self._held[at : at + BLOCK]), last=False)
                at += BLOCK
            del self._held[:at]
        yield from self._block(bytes(self._held), last=True)
        self.torn = self.torn or self._begun is not None

    def _block(self, block: bytes, *, last: bool) -> Iterator[bytes]:
        at = len(MAGIC) if not self._offset else 0
        while len(block) - at >= HEADER:
            part = _part(block, at)
            if part is None:
                if not block[at:].strip(b"\0"):
                    break  # room taken in advance and not used
                if last and _cut(block, at):
                    self._begun, self.torn = None, True
                    break
                self._harm(at)
                beyond = _beyond(block, at)
                if beyond is None:
                    break  # what follows is found again where the next block begins
                at = beyond
                continue
            kind, end = part
            data = block[at + HEADER : end]
            done = self._take(kind, data, at)
            if done is not None:
                self.count += 1
                yield done
            at = end
        else:
            self.torn = self.torn or (last and bool(block[at:].strip(b"\0")))
        self._offset += len(block)

    def _take(self, kind: int, data: bytes, at: int) -> bytes | None:
        """One part; the record that it completes."""
        begun = self._begun
        if kind in (FULL, FIRST):
            if begun is not None:
                self._harm(at)  # the record before has no end
            self._begun = bytearray(data) if kind == FIRST else None
            return data if kind == FULL else None
        if begun is None:
            return None  # its beginning was lost, and counted
        if len(begun) + len(data) > LONGEST:
            self._begun = None
            return None
        begun += data
        if kind == MIDDLE:
            return None
        self._begun = None
        return bytes(begun)

    def _harm(self, at: int) -> None:
        self._begun = None
        self.damaged += 1
        if self.first is None:
            self.first = self._offset + at


def _part(block: bytes, at: int) -> tuple[int, int] | None:
    """(kind, end) of the part at ``at``, if it is sound."""
    checksum, length, kind = _HEAD.unpack_from(block, at)
    end = at + HEADER + length
    if kind not in _SEEDS or end > len(block):
        return None
    if zlib.crc32(memoryview(block)[at + HEADER : end], _SEEDS[kind]) != checksum:
        return None
    return kind, end


def _cut(block: bytes, at: int) -> bool:
    """Whether a part looks as if the file only ended before it did."""
    _, length, kind = _HEAD.unpack_from(block, at)
    return kind in _SEEDS and len(block) < at + HEADER + length <= BLOCK


def _beyond(block: bytes, at: int) -> int | None:
    """Where the part after a damaged one begins, if its length is still right."""
    _, length, _ = _HEAD.unpack_from(block, at)
    end = at + HEADER + int(length)
    if len(block) - end < HEADER or _part(block, end) is None:
        return None
    return end
