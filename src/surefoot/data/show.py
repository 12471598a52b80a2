"""What a step fed the model: text, and where it comes from."""

from collections.abc import Iterable
from dataclasses import dataclass

from surefoot.data.corpus import Corpus
from surefoot.data.dataset import Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSample:
    """A sample of a step.

    Attributes:
        position: number of the sample in the run.
        text: its tokens decoded, end-of-text tokens included.
        provenance: source, epoch, and its documents with file, number and token offset.
        character_offset: where it begins, in characters of its first document.
    """

    position: int
    text: str
    provenance: Provenance
    character_offset: int


def samples_of_step(
    corpus: Corpus, consumed: int, size: int, *, skips: Iterable[tuple[int, int]] = ()
) -> list[ShownSample]:
    """The samples of the step that began after ``consumed`` samples.

    Args:
        corpus: the run's.
        consumed: samples consumed before the step.
        size: samples of the step.
        skips: raw ranges that the run had skipped by then.
    """
    dataset = corpus.train.with_skips(skips)
    positions = range(consumed, consumed + size)
    shown = []
    for position, tokens in zip(positions, dataset.batch(positions), strict=True):
        provenance = dataset.provenance(position)
        first = dataset.document_tokens(position, provenance.documents[0])
        # A sample may begin inside a character: then the two texts differ from there on.
        texts = [corpus.decode(first), corpus.decode([*first, *tokens])]
        shown.append(
            ShownSample(
                position=position,
                text=corpus.decode(tokens),
                provenance=provenance,
                character_offset=_common(*texts),
            )
        )
    return shown


def _common(a: str, b: str) -> int:
    """Length of the common beginning."""
    pairs = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))
