"""TFRecord files: records with their lengths and checksums, found many at a time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING

from surefoot.readers.logs._crc32c import checksums, masked

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Whole = npt.NDArray[np.int64]

HEADER, AROUND = 12, 16
"""Bytes before a record (length and its checksum), and of all that is around it."""
WINDOW = 2 << 20
LONGEST = 32 << 20
"""A record that is longer is passed over unread: a graph or an image, never a scalar."""
CHECKED = 16 << 10
"""Records up to this long have their checksum compared."""
_LENGTH = Struct("<Q")


@dataclass(slots=True)
class Frames:
    """The records of one file.

    Args:
        chunks: its bytes.

    Attributes:
        damaged: records, or stretches between records, that could not be used.
        first: byte of the file where the first of them lies.
        skipped: bytes that were passed over in search of the next record.
        torn: the file ends in the middle of a record.
        count: records that were read.
    """

    chunks: Iterable[bytes]
    damaged: int = 0
    first: int | None = None
    skipped: int = 0
    torn: bool = False
    count: int = 0
    _held: bytearray = field(default_factory=bytearray)
    _offset: int = 0
    _lost: bool = False
    _pass: int = 0

    def windows(self) -> Iterator[tuple["Bytes", "Whole", "Whole"]]:
        """(bytes, where records begin in them, their lengths), window by window.

        The records have right checksums, as far as these are compared, and are complete.
        """
        for chunk in self.chunks:
            if self._pass:
                gone = min(self._pass, len(chunk))
                self._pass -= gone
                self._offset += gone
                chunk = chunk[gone:]
            self._held += chunk
            if len(self._held) >= WINDOW:
                yield from self._take()
        yield from self._take()
        if self._held or self._pass:
            sound = not self._lost and self._sound_header(0)
            if not sound:
                if not self._lost:
                    self._harm(0)
                self.skipped += len(self._held)
            self.torn = sound

    def _take(self) -> Iterator[tuple["Bytes", "Whole", "Whole"]]:
        import numpy as np

        held, at = bytes(self._held), 0
        data = np.frombuffer(held, np.uint8)
        while True:
            if self._lost:
                found = _next_header(data, at)
                self.skipped += found[0] - at
                at = found[0]
                if not found[1]:
                    break
                self._lost = False
            heads, lengths, end = _chain(held, data, at)
            sound = _headers(data, heads)
            whole = len(heads) if sound.all() else int(sound.argmin())
            if whole:
                yield data, *self._checked(data, heads[:whole] + HEADER, lengths[:whole])
            at = end if whole == len(heads) else int(heads[whole])
            if whole == len(heads):
                if len(held) - at < HEADER:
                    break
                if self._sound_header(at):
                    (length,) = _LENGTH.unpack_from(held, at)
                    if length > LONGEST:
                        self._pass = max(0, length + AROUND - (len(held) - at))
                        at = min(len(held), at + length + AROUND)
                        if self._pass:
                            break
                        continue
                    break
            self._harm(at)
            self._lost = True
            at += 1
            self.skipped += 1
        self._offset += at
        del self._held[:at]

    def _checked(self, data: "Bytes", begins: "Whole", sizes: "Whole") -> tuple["Whole", "Whole"]:
        import numpy as np

        short = np.flatnonzero(sizes <= CHECKED)
        ends = begins[short] + sizes[short]
        told = _words(data, ends)
        wrong = short[told != masked(checksums(data, begins[short], sizes[short]))]
        self.count += len(begins) - len(wrong)
        if not len(wrong):
            return begins, sizes
        for row in wrong.tolist():
            self._harm(int(begins[row]) - HEADER)
        right = np.ones(len(begins), bool)
        right[wrong] = False
        return begins[right], sizes[right]

    def _harm(self, at: int) -> None:
        self.damaged += 1
        if self.first is None:
            self.first = self._offset + at

    def _sound_header(self, at: int) -> bool:
        import numpy as np

        if len(self._held) - at < HEADER:
            return True  # too little is there to say
        data = np.frombuffer(bytes(self._held[at : at + HEADER]), np.uint8)
        return bool(_headers(data, np.zeros(1, np.int64))[0])


def begins_well(head: bytes) -> tuple[int, int] | None:
    """(begin, length) of the first record, if ``head`` begins with a sound header."""
    import numpy as np

    if len(head) < HEADER:
        return None
    if not _headers(np.frombuffer(head[:HEADER], np.uint8), np.zeros(1, np.int64))[0]:
        return None
    return HEADER, int(_LENGTH.unpack_from(head)[0])


def _chain(held: bytes, data: "Bytes", at: int) -> tuple["Whole", "Whole", int]:
    """Where records begin from ``at`` on, their lengths, and where the last whole one ends.

    Places that look like the beginning of an event are found at once. Where each is followed by
    the next as its length says, all of them are taken; elsewhere one record at a time is.
    """
    import numpy as np

    begins, lengths, ends, breaks = _likely(data)
    limit = len(held)
    taken: list[tuple[Whole, Whole]] = []
    while at + AROUND <= limit:
        row = int(np.searchsorted(begins, at))
        if row < len(begins) and begins[row] == at and ends[row] <= limit:
            last = int(breaks[np.searchsorted(breaks, row)]) + 1
            last -= int(ends[last - 1] > limit)
            taken.append((begins[row:last], lengths[row:last]))
            at = int(ends[last - 1])
            continue
        (length,) = _LENGTH.unpack_from(held, at)
        if length > LONGEST or at + length + AROUND > limit:
            break
        taken.append((np.array([at]), np.array([length])))
        at += length + AROUND
    none = np.array([], np.int64)
    return (
        np.concatenate([none, *(begin for begin, _ in taken)]),
        np.concatenate([none, *(size for _, size in taken)]),
        at,
    )


def _likely(data: "Bytes") -> tuple["Whole", "Whole", "Whole", "Whole"]:
    """(places like the beginning of an event, lengths, ends, numbers of those with no next)."""
    import numpy as np

    count = max(0, len(data) - HEADER)
    like = data[HEADER:] == 9  # the field of the time
    for byte in range(2, 8):
        like &= data[byte : count + byte] == 0  # the length is below 65,536
    begins = np.flatnonzero(like)
    lengths = data[begins].astype(np.int64) | data[begins + 1].astype(np.int64) << 8
    ends = begins + lengths + AROUND
    single = np.ones(len(begins), bool)
    single[:-1] = ends[:-1] != begins[1:]
    return begins, lengths, ends, np.flatnonzero(single)


def _headers(data: "Bytes", begins: "Whole") -> "npt.NDArray[np.bool_]":
    """Whether the checksum of the length is right."""
    import numpy as np

    lengths = np.full(len(begins), 8, np.int64)
    return np.equal(_words(data, begins + 8), masked(checksums(data, begins, lengths)))


def _words(data: "Bytes", begins: "Whole") -> "npt.NDArray[np.uint32]":
    import numpy as np

    word = np.zeros(len(begins), np.uint32)
    for byte in range(4):
        word |= data[begins + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def _next_header(data: "Bytes", at: int) -> tuple[int, bool]:
    """The next place from ``at`` with a sound header; or how far there is none, and False."""
    import numpy as np

    last = len(data) - HEADER
    for begin in range(at, last + 1, 1 << 20):
        piece = data[begin : min(begin + (1 << 20), last + 1) + HEADER - 1]
        count = len(piece) - HEADER + 1
        likely = piece[:count] != 0  # lengths below 4 GiB: four zeros at the end
        likely |= piece[1 : count + 1] != 0
        for byte in range(4, 8):
            likely &= piece[byte : count + byte] == 0
        places = np.flatnonzero(likely)
        sound = places[_headers(piece, places)]
        if len(sound):
            return begin + int(sound[0]), True
    return max(at, last + 1), False
