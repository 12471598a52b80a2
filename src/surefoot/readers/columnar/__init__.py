"""A log of millions of like lines, read as columns; what does not fit goes line by line.

A trainer prints the same record thousands of times; only the digits differ. Lines whose separators
stand at the same places have one *layout* (``layouts``): taken as a matrix of bytes, the columns of
a field are read with a few numpy operations (``digits``, ``stamps``). What a layout means is asked
of its first line, by the format's own parser (``plan``): a layout counts only if each number of
that parser stands at its place. So the outcome is that of reading line by line, and what does not
fit its layout goes that way (``parts``, ``merge``).

For formats whose records are lines of separated fields that do not depend on one another.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from surefoot.readers.blocks import Block
from surefoot.readers.columnar.chunks import whole_lines
from surefoot.readers.columnar.merge import merged
from surefoot.readers.columnar.parts import Chunk, ChunkReader
from surefoot.readers.formats import LineFormat
from surefoot.readers.points import Item
from surefoot.readers.text import Source
from surefoot.readers.text.decoding import encoding_of
from surefoot.readers.text.lines import clean
from surefoot.readers.text.prefixes import Prefixes

THREADS = 2


def usable(fmt: LineFormat, source: Source) -> bool:
    """Whether a file can be read so."""
    return fmt.separator is not None and not source.live and encoding_of(source.head) == "utf-8"


def items(fmt: LineFormat, source: Source) -> Iterator[Item | Block]:
    """As reading line by line, but rows of like lines come as blocks."""
    parser, wanted, prefixes, before = fmt.parser(), fmt.wanted(), Prefixes(), 0
    for chunk in _read(fmt, source):
        slow = [
            (index, item)
            for index in chunk.rest
            for line in clean(before + index + 1, chunk.text(index), prefixes)
            if wanted(line.text)
            for item in parser.feed(line)
        ]
        told = sorted([*slow, *chunk.facts], key=lambda pair: pair[0])
        yield from merged(chunk, told, before)
        before += len(chunk.starts)
    yield from parser.finish()


def _read(fmt: LineFormat, source: Source) -> Iterator[Chunk]:
    """The chunks in order, some read ahead."""
    reader = ChunkReader(fmt)
    waiting: deque[Future[Chunk]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        for fetch in whole_lines(source):
            waiting.append(pool.submit(reader.read, fetch))
            if len(waiting) > THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
