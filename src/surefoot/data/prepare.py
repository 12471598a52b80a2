"""From a recipe's ``[data]`` to a corpus: survey, tokenizer, token files; each cached."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from surefoot.data.cache import Cache, default_folder, key_of
from surefoot.data.corpus import Corpus
from surefoot.data.dataset import TokenDataset, windows
from surefoot.data.encode import TRAIN, VALIDATION, write_tokens
from surefoot.data.sources import Source
from surefoot.data.split import share_of
from surefoot.data.survey import Survey, survey, surveyed
from surefoot.data.tokenizer import Tokenizer, train
from surefoot.data.tokens import TokenFile
from surefoot.errors import DataError
from surefoot.recipe import Data
from surefoot.recipe.words import count, printable, size

FORMAT = 1
"""Part of every cache key: raised when the meaning of an entry changes."""

TRAINING_TEXT = 256 << 20
"""Bytes of text that a tokenizer is trained on at most; of more, a random part of the documents."""

_SHORTEST = 16
"""A sequence shorter than this teaches nothing, and is not offered as a way out."""

_SHOWN = 100
"""Lines of `Corpus.skipped` at most."""

Say = Callable[[str], None]


def prepare(
    data: Data,
    *,
    vocab_size: int,
    sequence_length: int,
    seed: int,
    cache_dir: Path | None = None,
    progress: Say | None = None,
) -> Corpus:
    """Make the tokens of a recipe's data, or find them in the cache.

    Three steps, each kept: a *survey* of each source (split, SHA-256 of the contents), kept by the
    names, sizes and modification times of its files; the *tokenizer*, kept by what it is trained
    on; the *token files* of each source, kept by contents, tokenizer and split. So a second call
    reads no document. What it trusts: that a file whose name, size and modification time are
    unchanged has not changed (a file altered within two seconds before it was read is read again).
    Token files of more than 64 MiB are verified byte by byte when they are built, and by their
    header and size when they are opened; smaller ones byte by byte each time. What is torn or
    altered is built anew.

    Args:
        data: the recipe's section.
        vocab_size: rows of the model's embedding; a trained tokenizer has at most as many tokens.
        sequence_length: tokens of a sequence.
        seed: of the split and the order, unless ``data.seed`` is given.
        cache_dir: default ``data.cache_dir``, else ``$SUREFOOT_CACHE``, else ``~/.cache/surefoot``.
        progress: is told, in a line each, of what takes time.

    Raises:
        DataError: for what cannot be read or used; one line with what to type.
        StorageError: if the cache cannot be written.
    """
    say = progress or (lambda line: None)
    seed = seed if data.seed is None else data.seed
    named = cache_dir or (Path(data.cache_dir).expanduser() if data.cache_dir else default_folder())
    cache = Cache(named)
    sources = [Source(settings, data.errors) for settings in data.sources]
    surveys = [
        survey(source, seed=seed, fraction=data.validation_fraction, cache=cache, say=say)
        for source in sources
    ]
    content = key_of([one.content_sha256 for one in surveys])
    tokenizer, tokenizer_path = _tokenizer(data, sources, surveys, vocab_size, cache, say)
    pairs = [
        _token_files(source, one, tokenizer, cache, say)
        for source, one in zip(sources, surveys, strict=True)
    ]
    names = [source.name for source in sources]
    weights = [source.settings.weight for source in sources]
    _check_lengths(names, pairs, sequence_length)
    # A source whose held-out documents fill no window takes no part in the validation loss.
    usable = [i for i, pair in enumerate(pairs) if windows(len(pair[1]), sequence_length)]
    return Corpus(
        train=TokenDataset(
            [training for training, _ in pairs],
            names,
            weights=weights,
            sequence_length=sequence_length,
            seed=seed,
        ),
        validation=TokenDataset(
            [pairs[i][1] for i in usable],
            [names[i] for i in usable],
            weights=[weights[i] for i in usable],
            sequence_length=sequence_length,
            seed=seed,
            stream="validation",
        ),
        tokenizer=tokenizer,
        tokenizer_path=tokenizer_path,
        content_sha256=content,
        skipped=_skipped(sources, surveys),
    )


def _tokenizer(
    data: Data,
    sources: Sequence[Source],
    surveys: Sequence[Survey],
    vocab_size: int,
    cache: Cache,
    say: Say,
) -> tuple[Tokenizer, Path]:
    if data.tokenizer != "bpe":
        given = Tokenizer.load(Path(data.tokenizer).expanduser())
        given.check_size(vocab_size)
        key = key_of("given", FORMAT, given.sha256)
    else:
        splits = [[one.content_sha256, one.split.seed, one.split.fraction] for one in surveys]
        key = key_of("bpe", FORMAT, splits, vocab_size)

    def build(folder: Path) -> None:
        if data.tokenizer == "bpe":
            text = min(sum(one.size for one in surveys), TRAINING_TEXT)
            say(f"training a tokenizer of at most {vocab_size} tokens on {size(text)} of text")
            made = train(_training_texts(sources, surveys, cache), vocab_size)
        else:
            made = given
        (folder / "tokenizer.json").write_bytes(made.text.encode())
        (folder / "sha256").write_text(made.sha256)

    def open_(folder: Path) -> Tokenizer:
        tokenizer = Tokenizer.load(folder / "tokenizer.json")
        if (folder / "sha256").read_text() != tokenizer.sha256:
            raise DataError(f"{printable(folder)}: this tokenizer was altered")
        return tokenizer

    return cache.entry("tokenizers", key, open_, build), (
        cache.folder / "tokenizers" / key / "tokenizer.json"
    )


def _training_texts(
    sources: Sequence[Source], surveys: Sequence[Survey], cache: Cache
) -> Iterator[str]:
    """Training documents, or a part of them chosen by a hash of each one's identity."""
    part = TRAINING_TEXT / max(1, sum(one.size for one in surveys))
    for source, one in zip(sources, surveys, strict=True):
        for document, held_out in one.split.assign(surveyed(source, one, cache)):
            if not held_out and (part >= 1 or share_of("tokenizer", document.key) < part):
                yield document.text


def _token_files(
    source: Source, one: Survey, tokenizer: Tokenizer, cache: Cache, say: Say
) -> tuple[TokenFile, TokenFile]:
    split = one.split
    key = key_of("tokens", FORMAT, one.content_sha256, split.seed, split.fraction, tokenizer.sha256)

    def build(folder: Path) -> None:
        say(f"encoding {source.name}: {count(one.documents, 'document')}, {size(one.size)}")
        write_tokens(folder, source, one, tokenizer, cache=cache, say=say)

    return cache.entry(
        "tokens", key, lambda f: (TokenFile(f / TRAIN), TokenFile(f / VALIDATION)), build
    )


def _check_lengths(
    names: Sequence[str], pairs: Sequence[tuple[TokenFile, TokenFile]], sequence_length: int
) -> None:
    """Every source needs a training sample, and one of them a validation sample."""
    held_out = max(len(validation) for _, validation in pairs)
    shortest, name = min((len(training), n) for n, (training, _) in zip(names, pairs, strict=True))
    possible = min(shortest, held_out) - 1
    cure = f"add text, or type --set architecture.sequence_length={possible}"
    if possible < _SHORTEST:
        cure = "add text"
    if not windows(shortest, sequence_length):
        raise DataError(
            f"{name}: the training documents have {count(shortest, 'token')}, less than one "
            f"sample of {sequence_length} + 1: {cure}"
        )
    if not windows(held_out, sequence_length):
        raise DataError(
            f"{', '.join(names)}: the held-out documents have {count(held_out, 'token')}, less "
            f"than one sample of {sequence_length} + 1: {cure}, or hold out more with --set "
            "data.validation_fraction=0.1"
        )


def _skipped(sources: Sequence[Source], surveys: Sequence[Survey]) -> tuple[str, ...]:
    lines: list[str] = []
    for source, one in zip(sources, surveys, strict=True):
        lines += source.listing.skipped
        if one.without_text:
            lines.append(f"{source.name}: {count(one.without_text, 'empty document')}")
    if len(lines) > _SHOWN:
        lines[_SHOWN - 1 :] = [f"and {len(lines) - _SHOWN + 1} more"]
    return tuple(lines)
