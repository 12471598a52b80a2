"""What a run is fed: prepared at its start, and found to be the same at every later look.

A run goes on with the tokens it began with. The hashes of its text and of its tokenizer are in its
spec, and a copy of the tokenizer lies in its folder: one that was edited, or trained anew by
another version of the library, would change every token without a word.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from surefoot import runs
from surefoot.data import Corpus, prepare
from surefoot.errors import DataError
from surefoot.recipe import Recipe
from surefoot.records import TrainSpec
from surefoot.train.ranks import Ranks

Say = Callable[[str], None]

TOKENIZER = "tokenizer.json"
"""The run folder keeps its tokenizer, so that its model can be exported without the data."""


def prepare_corpus(recipe: Recipe, ranks: Ranks, say: Say) -> Corpus:
    """The recipe's corpus; the first rank builds it, the others find it in the cache."""

    def build() -> Corpus:
        a, d = recipe.architecture, recipe.data
        return prepare(
            d,
            vocab_size=a.vocab_size,
            sequence_length=a.sequence_length,
            seed=recipe.data_seed,
            cache_dir=None if d.cache_dir is None else Path(d.cache_dir),
            progress=say if ranks.is_main else None,
        )

    corpus = build() if ranks.is_main else None
    ranks.barrier()
    return corpus or build()


def recorded(spec: TrainSpec, corpus: Corpus) -> TrainSpec:
    """The spec with the hashes of what the run is fed."""
    data = replace(
        spec.data,
        content_sha256=corpus.content_sha256,
        tokenizer_sha256=_sha256(corpus.tokenizer_path),
    )
    return replace(spec, data=data)


def corpus_of_run(folder: Path, spec: TrainSpec, recipe: Recipe, ranks: Ranks, say: Say) -> Corpus:
    """The corpus that a run was started on.

    Args:
        folder: the run folder.
        spec: of the run.
        recipe: of the run.
        ranks: this process.
        say: told what goes on.

    Raises:
        DataError: if text or tokenizer are no longer those that the run was started on.
    """
    wanted, kept = spec.data.tokenizer_sha256, folder / TOKENIZER
    intact = wanted is not None and kept.is_file() and _sha256(kept) == wanted
    data = recipe.data.model_copy(update={"tokenizer": str(kept)})
    with_kept = recipe.model_copy(update={"data": data})
    # A given tokenizer may be gone or edited by now. One that was trained is in the cache, as a
    # rule, with the tokens that it made.
    given = recipe.data.tokenizer != "bpe"
    corpus = prepare_corpus(with_kept if intact and given else recipe, ranks, say)
    if wanted not in (None, _sha256(corpus.tokenizer_path)):
        if not intact:
            raise DataError(
                f"the tokenizer of run {folder.name!r} has changed, and its own copy {kept} is "
                "missing or altered: restore one of them, or start a new run"
            )
        corpus = prepare_corpus(with_kept, ranks, say)
    if spec.data.content_sha256 not in (None, corpus.content_sha256):
        raise DataError(
            f"the data of run {folder.name!r} has changed: its content hash was "
            f"{str(spec.data.content_sha256)[:12]}, now it is {corpus.content_sha256[:12]}; "
            "restore the files (or the Python version, for stdlib), or start a new run"
        )
    return corpus


def keep_tokenizer(folder: Path, corpus: Corpus) -> None:
    """Copy the tokenizer into the run folder."""
    text = corpus.tokenizer_path.read_bytes()
    kept = folder / TOKENIZER
    if not kept.is_file() or kept.read_bytes() != text:
        runs.write_atomic(kept, text)


def kept_tokenizer(folder: Path, spec: TrainSpec) -> Path:
    """The run's own tokenizer.

    Raises:
        DataError: if it is missing or not the one that the run was started with.
    """
    kept, wanted = folder / TOKENIZER, spec.data.tokenizer_sha256
    if not kept.is_file() or wanted not in (None, _sha256(kept)):
        raise DataError(
            f"{kept} is missing or altered: `surefoot train --name {folder.name} --resume` writes "
            "it anew where the run's data is at hand"
        )
    return kept


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
