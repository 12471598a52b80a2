"""From documents to token files: a stream, batch by batch, on all cores."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.cache import Cache
from surefoot.data.sources import Document, Source
from surefoot.data.survey import Survey, surveyed
from surefoot.data.token_writer import TokenWriter
from surefoot.data.tokenizer import Tokenizer
from surefoot.data.tokens import TokenFile

T = TypeVar("T")

TRAIN, VALIDATION = "train.tokens", "validation.tokens"

_BATCH_CHARACTERS = 1 << 20
"""Text encoded at once; an encoded token takes about 100 bytes until it is written."""

_PIECE_CHARACTERS = 1 << 18
"""Documents longer than this are encoded in pieces, so that a huge one fits into memory too."""

_CUT = re.compile(r"\S\n(?=\S)")
"""Where no token crosses, in any byte-level tokenizer: after a lone line break inside the text."""

_SAY_EVERY = 5.0
"""Seconds between lines of progress."""


def itemsize_for(vocabulary: int) -> int:
    """Bytes of a token number: 2 up to 65536 tokens, else 4."""
    return 2 if vocabulary <= 1 << 16 else 4


def write_tokens(
    folder: Path,
    source: Source,
    survey: Survey,
    tokenizer: Tokenizer,
    *,
    cache: Cache,
    say: Callable[[str], None],
) -> None:
    """Write ``train.tokens`` and ``validation.tokens`` of a source, then read them back and verify.

    Raises:
        DataError: if the source changed since it was surveyed.
    """
    done, spoken = 0, time.monotonic()
    itemsize = itemsize_for(tokenizer.size)
    train, validation = folder / TRAIN, folder / VALIDATION
    documents = surveyed(source, survey, cache)
    with TokenWriter(train, itemsize) as kept, TokenWriter(validation, itemsize) as held_out:
        assigned = survey.split.assign(documents)
        for batch in _groups(assigned, lambda item: len(item[0].text)):
            for (document, held), tokens in zip(batch, encode(batch, tokenizer), strict=True):
                (held_out if held else kept).add(document.file, document.number, tokens)
                done += len(document.text)
            if time.monotonic() - spoken > _SAY_EVERY:
                spoken = time.monotonic()
                say(f"encoding {source.name}: {100 * done // survey.characters} %")
    for path in (train, validation):
        TokenFile(path).verify()


def encode(
    batch: Sequence[tuple[Document, bool]], tokenizer: Tokenizer
) -> list[NDArray[np.uint32]]:
    """Tokens of each document, the end of text too; long ones are encoded in pieces."""
    parts: list[list[NDArray[np.uint32]]] = [[] for _ in batch]
    # A batch may be one huge document, so only some of the pieces are there at a time.
    for group in _groups(_pieces(batch, tokenizer.cuttable), lambda item: len(item[1])):
        encoded = tokenizer.encode_batch([piece for _, piece in group])
        for (owner, _), ids in zip(group, encoded, strict=True):
            parts[owner].append(np.array(ids, dtype=np.uint32))
    end = np.array([tokenizer.end_of_text], dtype=np.uint32)
    return [np.concatenate([*part, end]) for part in parts]


def _pieces(batch: Sequence[tuple[Document, bool]], cuttable: bool) -> Iterator[tuple[int, str]]:
    """Pieces of text and the number of the document that each belongs to."""
    for owner, (document, _) in enumerate(batch):
        for piece in cut(document.text) if cuttable else [document.text]:
            yield owner, piece


def cut(text: str) -> Iterator[str]:
    """A text in pieces of about 256 Ki characters that are encoded as they are in the whole."""
    start = 0
    while len(text) - start > _PIECE_CHARACTERS:
        place = _CUT.search(text, start + _PIECE_CHARACTERS)
        if place is None:
            break
        yield text[start : place.end()]
        start = place.end()
    yield text[start:]


def _groups(items: Iterable[T], length: Callable[[T], int]) -> Iterator[list[T]]:
    """Consecutive items in lists of about 1 Mi characters."""
    group: list[T] = []
    total = 0
    for item in items:
        group.append(item)
        total += length(item)
        if total >= _BATCH_CHARACTERS:
            yield group
            group, total = [], 0
    if group:
        yield group
