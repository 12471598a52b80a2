"""Text to tokens and back without loss: byte-level BPE trained here, or a given tokenizer.json."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from tokenizers import Tokenizer as _Backend
from tokenizers import decoders, models, pre_tokenizers, trainers

from surefoot.errors import DataError
from surefoot.recipe.words import printable

END_OF_TEXT = "<|endoftext|>"
"""The special token of a trained tokenizer, with id 0: it stands after every document."""

_KNOWN_ENDS = (
    END_OF_TEXT,
    "<|end_of_text|>",
    "</s>",
    "<eos>",
    "<|eos|>",
    "[EOS]",
    "<|im_end|>",
    "<|end▁of▁sentence|>",
)

_TRAIN_ONE = "--set data.tokenizer=bpe"
"""Only for a new run: one that is resumed keeps its tokenizer."""

_SMALLEST = 257
"""All bytes and the end of text."""

_PROBES = (
    "\n",
    "\n\n",
    "a\nb",
    "a\r\nb",
    "\r",
    "\t",
    "a\tb",
    " a",
    "a ",
    "a\n",
    "a  b   c",
    "def f(x):\n    if x:\n\t\treturn x\n\n\nprint( f(1) )\n",
    "Upper lower 0123456789",
    "don't , stop .",
    "full-width\u3000space and ｗｉｄｅ letters",
    "ﬁ ﬂ ① ㎏ é e\u0301",
    "日本語。中文！한국어 русский ελληνικά العربية हिन्दी",
    "emoji 🙂👩‍👩‍👧‍👦🏳️‍🌈",
    "nul \x00 and \x07\x7f\u0085\u200b\ufeff",
    f"a{END_OF_TEXT}b </s> <s> [UNK]",
)


class Tokenizer:
    """A tokenizer that gives every text back as it was.

    That is verified on a set of probes when it is made (line ends, runs of spaces, forms that
    normalisation would change, emoji, control characters). Special tokens are never read from text:
    a document that contains the characters ``<|endoftext|>`` is encoded as those characters.

    Args:
        text: the contents of a ``tokenizer.json``.
        name: the file's name, for messages.

    Raises:
        DataError: if it cannot be read, loses something of a text, or has no end-of-text token.
    """

    def __init__(self, text: str, name: str) -> None:
        try:
            backend = _Backend.from_str(text)
        except Exception as error:  # the library raises bare Exception
            raise DataError(f"{name}: not a tokenizer.json ({error})") from None
        backend.no_padding()
        backend.no_truncation()
        backend.encode_special_tokens = True
        self._backend = backend
        self.text = text
        self.name = name
        self.sha256 = hashlib.sha256(text.encode()).hexdigest()
        vocabulary: dict[str, int] = backend.get_vocab(with_added_tokens=True)
        self.size = max(vocabulary.values(), default=-1) + 1
        """Highest token number + 1: rows that an embedding needs."""
        self.end_of_text = self._find_end(vocabulary)
        self.cuttable = _is_byte_level(json.loads(text))
        """Whether a document may be encoded in pieces that end at a line break."""
        self._check_probes()

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a ``tokenizer.json``; DataError if it is missing or no UTF-8."""
        try:
            return cls(path.read_bytes().decode("utf-8"), printable(path))
        except OSError as error:
            raise DataError(
                f"{printable(path)}: cannot read this tokenizer ({error.strerror}): restore it, or "
                f"start a new run with {_TRAIN_ONE}, which trains one"
            ) from None
        except UnicodeDecodeError:
            raise DataError(f"{printable(path)}: not a tokenizer.json (it is not UTF-8)") from None

    def encode(self, text: str) -> list[int]:
        """Token numbers of a text, without any special token."""
        ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """As :meth:`encode`, for many texts on all cores."""
        batch = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in batch]

    def decode(self, tokens: Iterable[int] | NDArray[Any]) -> str:
        """The text of token numbers, special tokens included.

        Tokens that begin or end inside a character give U+FFFD there.
        """
        text: str = self._backend.decode([int(t) for t in tokens], skip_special_tokens=False)
        return text

    def check_size(self, vocab_size: int) -> None:
        """Raise DataError if the model's embedding has too few rows for this tokenizer."""
        if self.size > vocab_size:
            raise DataError(
                f"{self.name}: the tokenizer has {self.size} tokens, but architecture.vocab_size = "
                f"{vocab_size}: type --set architecture.vocab_size={self.size}"
            )

    def _find_end(self, vocabulary: dict[str, int]) -> int:
        special = {
            token.content: number
            for number, token in self._backend.get_added_tokens_decoder().items()
            if token.special
        }
        for word in _KNOWN_ENDS:
            if word in special:
                return int(special[word])
        raise DataError(
            f"{self.name}: no end-of-text token among its special tokens; expected one of "
            f"{', '.join(_KNOWN_ENDS)}, found {printable(', '.join(sorted(special)[:8])) or 'none'}"
        )

    def _check_probes(self) -> None:
        for probe in _PROBES:
            back = self.decode(self.encode(probe))
            if back != probe:
                raise DataError(
                    f"{self.name}: this tokenizer does not give a text back as it was: {probe!r} "
                    f"became {back!r} ({_lost(probe, back)}): start a new run with one that does, "
                    f"or with {_TRAIN_ONE}"
                )


def train(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Byte-level BPE (Radford et al. 2019) of at most ``vocab_size`` tokens.

    All 256 bytes are tokens, so no text can be lost. The same texts in the same order give the same
    tokenizer; a small corpus gives fewer tokens than asked for.

    Args:
        texts: the training documents, streamed.
        vocab_size: 257 at least.

    Raises:
        DataError: if ``vocab_size`` cannot hold all bytes and the end-of-text token.
    """
    if vocab_size < _SMALLEST:
        raise DataError(
            f"architecture.vocab_size = {vocab_size} is too small for byte-level BPE, which needs "
            f"256 bytes and an end of text: type --set architecture.vocab_size={_SMALLEST} or more"
        )
    backend = _Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        min_frequency=2,
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return Tokenizer(backend.to_str(), "trained tokenizer")


def _is_byte_level(table: dict[str, Any]) -> bool:
    """No normaliser, and splits that never join a line break to the next line's first character.

    That holds for the byte-level patterns of GPT-2 (Radford et al. 2019) and its successors.
    """
    first = table.get("pre_tokenizer") or {}
    steps = first.get("pretokenizers", [first])
    return table.get("normalizer") is None and all(
        (step.get("type") == "ByteLevel" and not step.get("add_prefix_space"))
        or step.get("type") in ("Split", "Digits")
        for step in steps
    )


def _lost(text: str, back: str) -> str:
    """What is missing, or else what was added, in words."""
    if back == text.lower():
        return "lost: upper case"
    names = {"\n": "line breaks", "\r": "carriage returns", "\t": "tabs", " ": "spaces"}
    lost = [word for char, word in names.items() if back.count(char) < text.count(char)]
    lost += [f"U+{ord(char):04X}" for char in sorted(set(text) - set(back) - set(names))[:6]]
    if lost:
        return f"lost: {', '.join(lost)}"
    added = [word for char, word in names.items() if back.count(char) > text.count(char)]
    return f"added: {', '.join(added) or 'other characters'}"
