"""From documents to token files: a stream, batch by batch, on all cores."""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surefoot.data.cache import Cache
from surefoot.data.sources import Document, Source
from surefoot.data.survey import Survey, surveyed
from surefoot.data.token_writer import TokenWriter
from surefoot.data.tokenizer import Tokenizer
from surefoot.data.tokens import TokenFile

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
        for batch in _batches(survey.split.assign(documents)):
            for (document, held), tokens in zip(batch, encode(batch, tokenizer), strict=True):
                (held_out if held else kept).add(document.file, document.number, tokens)
                done += len(document.text)
            if time.monotonic() - spoken > _SAY_EVERY:
                spoken = time.monotonic()
                say(f"encoding {source.name}: {100 * done // survey.characters} %")
    for path in (train, validation):
        TokenFile(path).verify()


def encode(
    batch: Iterable[tuple[Document, bool]], tokenizer: Tokenizer
) -> list[NDArray[np.uint32]]:
    """Tokens of each document, the end of text too; long ones are encoded in pieces."""
    pieces: list[str] = []
    owners: list[int] = []
    count = 0
    for document, _ in batch:
        for piece in cut(document.text) if tokenizer.cuttable else [document.text]:
            pieces.append(piece)
            owners.append(count)
        count += 1
    tokens: list[list[NDArray[np.uint32]]] = [[] for _ in range(count)]
    start = 0
    while start < len(pieces):  # a batch may be one huge document: only some pieces at a time
        stop, length = start, 0
        while stop < len(pieces) and (stop == start or length < _BATCH_CHARACTERS):
            length += len(pieces[stop])
            stop += 1
        encoded = tokenizer.encode_batch(pieces[start:stop])
        for owner, ids in zip(owners[start:stop], encoded, strict=True):
            tokens[owner].append(np.array(ids, dtype=np.uint32))
        start = stop
    end = np.array([tokenizer.end_of_text], dtype=np.uint32)
    return [np.concatenate([*parts, end]) for parts in tokens]


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


def _batches(
    documents: Iterable[tuple[Document, bool]],
) -> Iterator[list[tuple[Document, bool]]]:
    batch: list[tuple[Document, bool]] = []
    length = 0
    for item in documents:
        batch.append(item)
        length += len(item[0].text)
        if length >= _BATCH_CHARACTERS:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch
