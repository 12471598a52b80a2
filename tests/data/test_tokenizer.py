"""No text loses anything, whatever the tokenizer; what cannot be used is refused with a reason."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from surefoot.data.encode import cut, encode
from surefoot.data.sources import Document
from surefoot.data.tokenizer import END_OF_TEXT, Tokenizer, train
from surefoot.errors import DataError

TEXTS = [
    "\n",
    "a\r\nb\r\n",
    "\t\tx\t",
    "  a   b    ",
    "🙂👨‍👩‍👧",
    "nul\x00nul",
    "full\u3000width",
    "\ufeffbom\ufffd",
    "",
    " ",
    "def f():\n    return 1\n\n\n",
]


@pytest.fixture(scope="module")
def trained(words):
    return train([words(i, 300) for i in range(20)], 350)


def backend(**parts):
    """A byte-level tokenizer of the kind that others ship, with some parts replaced."""
    made = Backend(models.BPE())
    made.pre_tokenizer = parts.get("pre", pre_tokenizers.ByteLevel(add_prefix_space=False))
    made.decoder = parts.get("decoder", decoders.ByteLevel())
    if "normalizer" in parts:
        made.normalizer = parts["normalizer"]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=parts.get("special", ["<s>", "</s>"]),
        initial_alphabet=parts.get("alphabet", pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(["some text to learn from\n" * 5], trainer)
    return made


def given_tokenizer(**parts):
    return Tokenizer(backend(**parts).to_str(), "given.json")


@given(text=st.text(max_size=60))
@settings(deadline=None, max_examples=150, database=None)
def test_any_text_comes_back(trained, text):
    assert trained.decode(trained.encode(text)) == text
    assert trained.encode_batch([text]) == [trained.encode(text)]


@pytest.mark.parametrize("text", TEXTS)
def test_odd_texts_come_back(trained, text):
    assert trained.decode(trained.encode(text)) == text


def test_training_fills_the_vocabulary_and_says_what_ends_a_text(trained):
    assert trained.size == 350
    assert trained.end_of_text == 0
    assert trained.decode([0]) == END_OF_TEXT
    assert trained.cuttable


def test_a_small_corpus_gives_fewer_tokens():
    assert train(["ab ab ab"], 5000).size < 300


def test_the_same_texts_give_the_same_tokenizer_in_any_process(words):
    code = (
        "import sys; from surefoot.data.tokenizer import train\n"
        "print(train(sys.stdin.read().split('|'), 500).sha256)"
    )
    texts = [words(i, 400) for i in range(6)]
    shas = [
        subprocess.run(
            [sys.executable, "-c", code],
            input="|".join(texts),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for _ in range(2)
    ]
    assert shas == [train(texts, 500).sha256] * 2


def test_special_tokens_are_not_read_from_text(trained):
    """A document about tokenizers must not end in its middle."""
    text = f"a{END_OF_TEXT}b"
    assert trained.end_of_text not in trained.encode(text)
    assert trained.decode(trained.encode(text)) == text
    other = given_tokenizer()
    assert other.end_of_text not in other.encode("a</s>b")


def test_a_vocabulary_too_small_for_all_bytes_is_refused():
    with pytest.raises(DataError, match=r"vocab_size = 256 .*--set architecture\.vocab_size=257"):
        train(["a"], 256)
    assert train(["a b c"], 257).size == 257


def test_an_error_while_reading_passes_through_training():
    def texts():
        yield "some text"
        raise DataError("a.txt: torn")

    with pytest.raises(DataError, match=r"a\.txt: torn"):
        train(texts(), 300)


# Given tokenizers.


def test_a_given_tokenizer_that_keeps_everything_is_taken(tmp_path):
    made = backend()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    made.enable_truncation(4)
    made.enable_padding(length=64)
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    tokenizer = Tokenizer.load(path)
    text = "a long text " * 20
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.end_of_text == 1
    assert not {0, 1} & set(tokenizer.encode(text))


@pytest.mark.parametrize(
    ("parts", "lost"),
    [
        ({"normalizer": normalizers.Replace("\n", " ")}, "lost: line breaks"),
        ({"normalizer": normalizers.Replace("\r\n", "\n")}, "lost: carriage returns"),
        ({"normalizer": normalizers.Lowercase()}, "lost: upper case"),
        ({"normalizer": normalizers.Replace("\t", "    ")}, "lost: tabs"),
        ({"normalizer": normalizers.NFKC()}, "U\\+3000"),
        ({"normalizer": normalizers.NFC()}, "U\\+0301"),
        ({"normalizer": normalizers.Strip()}, "lost: line breaks"),
        ({"pre": pre_tokenizers.ByteLevel(add_prefix_space=True)}, "added: spaces"),
        (
            {"pre": pre_tokenizers.Whitespace(), "decoder": decoders.Fuse(), "alphabet": []},
            "lost: line breaks",
        ),
        ({"alphabet": ["a", "b", "Ċ"]}, "lost"),
    ],
)
def test_a_given_tokenizer_that_loses_something_is_refused(parts, lost):
    with pytest.raises(
        DataError, match=rf"given\.json: .*became.*{lost}.*a new run .*data\.tokenizer=bpe"
    ):
        given_tokenizer(**parts)


def test_a_given_tokenizer_without_an_end_is_refused():
    with pytest.raises(DataError, match=r"no end-of-text token.*found <pad>, <s>"):
        given_tokenizer(special=["<s>", "<pad>"])


def test_files_that_are_no_tokenizer_are_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    with pytest.raises(DataError) as error:
        Tokenizer.load(path)
    # Right for a new run and for one that is resumed, which takes no other tokenizer.
    assert str(error.value) == (
        f"{path}: cannot read this tokenizer (No such file or directory): restore it, or start a "
        "new run with --set data.tokenizer=bpe, which trains one"
    )
    for content in (b"", b"{}", b"\xff", b'{"model": {"type": "BPE"}}'):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"not a tokenizer\.json"):
            Tokenizer.load(path)


def test_a_vocabulary_larger_than_the_model_names_both_and_what_to_type():
    tokenizer = given_tokenizer()
    tokenizer.check_size(tokenizer.size)
    with pytest.raises(DataError) as error:
        tokenizer.check_size(100)
    assert f"has {tokenizer.size} tokens" in str(error.value)
    assert "architecture.vocab_size = 100:" in str(error.value)
    assert f"--set architecture.vocab_size={tokenizer.size}" in str(error.value)


# Long documents are encoded in pieces.


def test_pieces_are_encoded_as_the_whole(trained, words, monkeypatch):
    from surefoot.data import encode as module

    monkeypatch.setattr(module, "_PIECE_CHARACTERS", 50)
    monkeypatch.setattr(module, "_BATCH_CHARACTERS", 120)
    texts = [
        words(1, 2000).replace("\n ", "\n").replace(" ab", "\n\n   ab").replace("b\n", "b \n\t"),
        "x" * 500,
        "\n" * 300 + "a" + "\n" * 300,
        "é🙂\n" * 300 + "'s\n're\n.\n.\n" * 20,
        "short",
    ]
    pieces = [list(cut(text)) for text in texts]
    assert ["".join(piece) for piece in pieces] == texts
    assert len(pieces[0]) > 100
    assert len(pieces[3]) > 10
    batch = [(Document("f", i, text), False) for i, text in enumerate(texts)]
    for text, tokens in zip(texts, encode(batch, trained), strict=True):
        assert tokens.tolist() == [*trained.encode(text), trained.end_of_text]


def test_a_tokenizer_that_joins_lines_is_not_cut(words):
    assert not given_tokenizer(normalizer=normalizers.Replace("q", "q")).cuttable
    assert given_tokenizer().cuttable
