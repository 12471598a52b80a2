"""A first pass over a source: how much there is, how it is split, and the hash of its contents."""

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from surefoot.data.cache import Cache
from surefoot.data.sources import Document, Source
from surefoot.data.split import Split, SplitBuilder
from surefoot.errors import DataError
from surefoot.recipe.words import count
from surefoot.records import from_json

_SETTLED_NS = 2 * 10**9
"""A file changed later than this before it was read may change again without a new time stamp."""


class ContentHash:
    """SHA-256 over the identity and text of documents, in order."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, document: Document) -> int:
        """Take in a document; returns the size of its text in bytes of UTF-8."""
        key = document.key.encode("utf-8", "surrogatepass")
        text = document.text.encode()
        self._digest.update(b"%d %d " % (len(key), len(text)))
        self._digest.update(key)
        self._digest.update(text)
        return len(text)

    def hexdigest(self) -> str:
        """The hash as 64 hexadecimal digits."""
        return self._digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a source holds.

    Attributes:
        documents: how many with text.
        without_text: rows that have none and are left out.
        size: bytes of text, as UTF-8.
        characters: the same in characters.
        content_sha256: of all documents' identities and texts, in order.
        split: which of them are held out.
    """

    documents: int
    without_text: int
    size: int
    characters: int
    content_sha256: str
    split: Split


def survey(
    source: Source, *, seed: int, fraction: float, cache: Cache, say: Callable[[str], None]
) -> Survey:
    """Read a source through once, or recall what was found when its files last looked the same.

    What is trusted then: that a file with the same name, size and modification time has the same
    contents. A reading of files changed within the last two seconds is not kept.

    Raises:
        DataError: if it holds no text, or what :meth:`Source.documents` raises.
    """
    started = time.time_ns()
    key, newest = _key(source, seed, fraction)
    if (kept := cache.recall("surveys", key)) is not None:
        # Of another version of surefoot, or damaged: read again and replaced.
        with contextlib.suppress(TypeError, KeyError, ValueError, AttributeError):
            return from_json(Survey, kept)
    files = count(len(source.listing.files), "file")
    say(f"reading {source.name}: {files}")
    content, builder = ContentHash(), SplitBuilder(seed, fraction)
    documents = without_text = size = characters = 0
    for file, number, text in source.rows():
        if not text:
            without_text += 1
            continue
        document = Document(file, number, text)
        documents += 1
        size += content.add(document)
        characters += len(text)
        builder.see(document.key)
    if not documents:
        raise DataError(f"{source.name}: an empty corpus: no text in {files}")
    found = Survey(
        documents=documents,
        without_text=without_text,
        size=size,
        characters=characters,
        content_sha256=content.hexdigest(),
        split=builder.build(),
    )
    if newest < started - _SETTLED_NS and _key(source, seed, fraction)[0] == key:
        cache.remember("surveys", key, asdict(found))
    return found


def surveyed(source: Source, found: Survey, cache: Cache) -> Iterator[Document]:
    """The documents of a source once more, streamed.

    Raises:
        DataError: at the end, if they are not those that were surveyed.
    """
    content = ContentHash()
    for document in source.documents():
        content.add(document)
        yield document
    if content.hexdigest() != found.content_sha256:
        cache.forget("surveys", _key(source, found.split.seed, found.split.fraction)[0])
        raise DataError(
            f"{source.name}: the files are not what they were when first read: start again once "
            "nothing writes there"
        )


def _key(source: Source, seed: int, fraction: float) -> tuple[str, int]:
    fingerprint, newest = source.fingerprint()
    return f"{fingerprint[:48]}-{seed}-{fraction}", newest
