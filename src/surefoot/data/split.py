"""Which documents are held out: by a hash of each document's own identity."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from surefoot.data.sources import Document


def share_of(seed: int | str, key: str) -> float:
    """A number in [0, 1) that depends on the seed and the document's identity alone."""
    digest = blake2b(
        key.encode("utf-8", "surrogatepass"), digest_size=8, salt=b"split", key=str(seed).encode()
    ).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


@dataclass(frozen=True, slots=True)
class Split:
    """How one source is divided into training and validation documents.

    A document whose :func:`share_of` is below ``fraction`` is held out, whatever other documents
    there are. Only where that leaves one side empty, the document nearest the threshold changes
    sides; and where the source is a single document, its last part is held out, cut at a line
    break, as document 1 of the file.

    Attributes:
        seed: of the run's data.
        fraction: share of the documents held out.
        moved: identity of the one document that changes sides, if any.
        single: whether the source is a single document.
    """

    seed: int
    fraction: float
    moved: str | None = None
    single: bool = False

    def holds_out(self, key: str) -> bool:
        """Whether the document with this identity is for validation."""
        return (share_of(self.seed, key) < self.fraction) != (key == self.moved)

    def assign(self, documents: Iterable[Document]) -> Iterator[tuple[Document, bool]]:
        """Each document, and whether it is held out."""
        for document in documents:
            if not self.single:
                yield document, self.holds_out(document.key)
                continue
            text = document.text
            cut = int(len(text) * (1 - self.fraction))
            cut = text.rfind("\n", 0, cut) + 1 or cut
            for number, part in ((0, text[:cut]), (1, text[cut:])):
                if part:
                    yield Document(document.file, document.number + number, part), number == 1


class SplitBuilder:
    """Sees every document once and then knows the :class:`Split`."""

    def __init__(self, seed: int, fraction: float) -> None:
        self._seed, self._fraction = seed, fraction
        self._count = 0
        self._lowest: tuple[float, str] | None = None
        self._highest: tuple[float, str] | None = None

    def see(self, key: str) -> None:
        """Take note of a document."""
        self._count += 1
        at = (share_of(self._seed, key), key)
        self._lowest = min(self._lowest or at, at)
        self._highest = max(self._highest or at, at)

    def build(self) -> Split:
        """The split of what was seen; at least one document."""
        assert self._lowest is not None
        assert self._highest is not None
        moved = None
        if self._lowest[0] >= self._fraction:
            moved = self._lowest[1]
        elif self._highest[0] < self._fraction:
            moved = self._highest[1]
        single = self._count == 1
        return Split(self._seed, self._fraction, None if single else moved, single)
