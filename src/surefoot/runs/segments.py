"""Segments: committed rows as ``SSSSSSSSS-EEEEEEEEE.parquet``, the rows of steps S to E.

A segment is whole or not there. Small ones are merged into larger ones; the merged file is
committed before its parts go, and whoever finds both takes the wider.
"""

import io
import os
import re
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.runs.durable import TEMPORARY, fsync_dir, remove, write_atomic
from surefoot.runs.tables import complete, unite

if TYPE_CHECKING:
    import polars

MERGE_BYTES = 64 << 20
"""About how large a segment grows by merging."""
MERGE_COUNT = 8
"""How many segments a merge takes at least."""
SET_ASIDE = ".damaged"
"""Ending of a segment that could not be used and stood where a new one comes."""

_NAME = re.compile(r"(\d{9,})-(\d{9,})\.parquet")
# In the file's own metadata: the CRC-32 of all its bytes, these eight digits taken as zeros.
_CHECKSUM = "surefoot.checksum"
_MARK, _BLANK = b"surefoot-crc32:", b"0" * 8


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """A segment file, by the steps of its first and last row."""

    first: int
    last: int
    path: Path = field(compare=False)

    @property
    def span(self) -> int:
        """How many steps there are from its first to its last."""
        return self.last - self.first + 1

    def covers(self, other: "Segment") -> bool:
        """Whether the other one's steps are all within this one's, and it is another file."""
        return self != other and self.first <= other.first and other.last <= self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """What a folder of segments holds.

    Attributes:
        good: the segments that could be read, with their rows; none is within another.
        covered: leftovers of a merge that was cut short: every row is in a good one.
        bad: files with a segment's name that cannot be used.
        temporary: files of a write that was cut short.
        problems: what could not be used, a sentence each.
    """

    good: "tuple[tuple[Segment, polars.DataFrame], ...]" = ()
    covered: tuple[Segment, ...] = ()
    bad: tuple[Segment, ...] = ()
    temporary: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def frames(self) -> "list[polars.DataFrame]":
        """The rows of the good segments."""
        return [frame for _, frame in self.good]


def commit(
    folder: Path,
    frame: "polars.DataFrame",
    before: str | None = "segment.before_rename",
    after: str | None = "segment.after_rename",
) -> Segment:
    """Write the rows of ``frame`` (at least one) as a segment, durably.

    Raises:
        StorageError: if the disk is full; nothing has changed then.
    """
    frame = complete(frame).sort("step")
    steps = frame["step"]
    first, last = int(steps[0]), int(steps[-1])
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata={_CHECKSUM: (_MARK + _BLANK).decode()})
    data = bytearray(buffer.getbuffer())
    place, checksum = _seal(data)
    data[place] = checksum
    path = folder / f"{first:09d}-{last:09d}.parquet"
    write_atomic(path, data, before=before, after=after)
    return Segment(first, last, path)


def load(segment: Segment) -> "polars.DataFrame":
    """The rows of a segment, sorted by step.

    Raises:
        OSError: if it is gone (merged), or cannot be opened.
        ValueError: saying why its contents cannot be used.
    """
    import polars as pl

    data = segment.path.read_bytes()
    # Before any parser sees it: polars does not notice a flipped bit in a compressed page.
    if _MARK not in data:
        raise ValueError("is torn or foreign: it has no checksum of surefoot")
    place, checksum = _seal(data)
    if data[place] != checksum:
        raise ValueError("is torn or damaged: it does not match its checksum")
    try:
        frame = pl.read_parquet(io.BytesIO(data))
        first, last = frame["step"][0], frame["step"][-1]
    except Exception as error:
        raise ValueError(f"cannot be read ({' '.join(str(error).split())[:200]})") from None
    if (first, last) != (segment.first, segment.last):
        raise ValueError(f"does not hold the steps of its name, but {first} to {last}")
    return frame


def _seal(data: bytes | bytearray) -> tuple[slice, bytes]:
    """Where the checksum of a segment's bytes stands, and what it is."""
    start = data.rindex(_MARK) + len(_MARK)
    end = start + len(_BLANK)
    view = memoryview(data)
    crc = zlib.crc32(view[end:], zlib.crc32(_BLANK, zlib.crc32(view[:start])))
    return slice(start, end), f"{crc:08x}".encode()


def list_segments(folder: Path) -> list[Segment]:
    """Every file of ``folder`` with a segment's name, by first step; nothing is opened."""
    return _segments(folder, [path.name for path in folder.iterdir()])


def _segments(folder: Path, names: Sequence[str]) -> list[Segment]:
    matches = [match for match in map(_NAME.fullmatch, names) if match]
    return sorted(Segment(int(m[1]), int(m[2]), folder / m[0]) for m in matches)


def read_segments(folder: Path, known: Sequence[str] = ()) -> Segments:
    """Read a folder of segments, also while it is written to.

    Args:
        folder: may be missing.
        known: names of other files that belong there.
    """
    cache: dict[Segment, polars.DataFrame | str] = {}
    while folder.is_dir():
        names = sorted(path.name for path in folder.iterdir())
        with suppress(_Gone):
            return _read(folder, names, known, cache)
        # A merge took a part away after it was listed: its rows are in a file not yet listed.
    return Segments()


class _Gone(Exception):
    """A file was listed, and deleted before it was opened."""


def _read(
    folder: Path,
    names: Sequence[str],
    known: Sequence[str],
    cache: "dict[Segment, polars.DataFrame | str]",
) -> Segments:
    good: list[tuple[Segment, polars.DataFrame]] = []
    covered: list[Segment] = []
    bad: list[Segment] = []
    problems: list[str] = []
    # The widest first: what it covers need not be opened, if it has a row of every step.
    for segment in sorted(_segments(folder, names), key=lambda s: (s.first - s.last, s.first)):
        if any(wider.covers(segment) and wider.span == len(rows) for wider, rows in good):
            covered.append(segment)
            continue
        if segment not in cache:
            try:
                cache[segment] = load(segment)
            except ValueError as error:
                cache[segment] = str(error)
            except OSError as error:
                if not os.path.lexists(segment.path):
                    raise _Gone from None
                cache[segment] = f"cannot be read ({error.strerror})"
        content = cache[segment]
        if isinstance(content, str):
            bad.append(segment)
            problems.append(f"{segment.path.name} {content}; its rows are left out")
        else:
            good.append((segment, content))
    temporary = []
    for name in names:
        stem = name.removesuffix(TEMPORARY)
        if name != stem and (stem in known or _NAME.fullmatch(stem)):
            temporary.append(folder / name)
            problems.append(f"{name} is what a write that was cut short left; ignored")
        elif not (name in known or _NAME.fullmatch(name) or name.endswith(SET_ASIDE)):
            problems.append(f"{name} does not belong here; ignored")
    return Segments(
        good=tuple(sorted(good, key=lambda pair: pair[0])),
        covered=tuple(covered),
        bad=tuple(bad),
        temporary=tuple(temporary),
        problems=tuple(problems),
    )


def mergeable(sizes: Sequence[int], limit: int = MERGE_BYTES, count: int = MERGE_COUNT) -> int:
    """How many of the newest segments are worth a merge; 0 = none.

    Takes as many as give one file of at most ``limit`` bytes, if there are at least ``count`` and
    none is more than half of the whole: so a row is rewritten only when its file at least doubles.

    Args:
        sizes: bytes of each segment, oldest first.
        limit: largest file to make.
        count: smallest number of files to merge.
    """
    for start in range(len(sizes) - count + 1):
        group = sizes[start:]
        if sum(group) <= limit and 2 * max(group) <= sum(group):
            return len(group)
    return 0


def merge_newest(folder: Path, limit: int = MERGE_BYTES) -> None:
    """Merge the newest segments of ``folder`` where :func:`mergeable` says so.

    Raises:
        StorageError: if the disk is full; the parts are untouched then.
    """
    listed = list_segments(folder)
    number = mergeable([s.path.stat().st_size for s in listed], limit)
    parts: dict[Segment, polars.DataFrame] = {}
    for part in reversed(listed[len(listed) - number :]):
        try:
            parts[part] = load(part)
        except ValueError:
            break  # damaged: reading reports it, and nothing is merged over it
    if len(parts) >= MERGE_COUNT:
        frames = list(parts.values())[::-1]
        merged = commit(folder, unite(frames), before="merge", after="merge")
        discard(folder, [part for part in parts if part != merged])


def discard(folder: Path, segments: Sequence[Segment]) -> None:
    """Delete segments whose rows are elsewhere, newest first, durably."""
    for segment in sorted(segments, reverse=True):
        remove(segment.path)
    if segments:
        fsync_dir(folder)
