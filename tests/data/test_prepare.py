"""From a recipe to a corpus: what is kept, what is trusted, and what cannot be used."""

import json
import os
import time

import numpy as np
import pytest

from surefoot.data import TokenFile, prepare
from surefoot.data import encode as encode_module
from surefoot.data.sources import Source
from surefoot.data.tokenizer import train
from surefoot.errors import DataError
from surefoot.recipe import Data, DataSource


def documents_of(files, end):
    """{(file, number): tokens} of token files, by cutting at the end-of-text token."""
    found = {}
    for file in files:
        position = 0
        while position < len(file):
            [span] = file.spans(position, position + 1)
            stop = position + int(np.argmax(file.tokens[position:] == end)) + 1
            found[span.file, span.document] = file.tokens[position:stop]
            position = stop
    return found


def test_every_document_is_there_once_and_decodes_to_its_text(corpus, folder):
    texts = {(p.name, 0): p.read_bytes().decode() for p in folder.iterdir()}
    sides = [
        documents_of(part.files, corpus.end_of_text) for part in (corpus.train, corpus.validation)
    ]
    assert not sides[0].keys() & sides[1].keys()
    found = {key: corpus.decode(tokens) for side in sides for key, tokens in side.items()}
    assert found == {key: text + "<|endoftext|>" for key, text in texts.items()}
    assert 2 <= len(sides[1]) <= 16
    for part in (corpus.train, corpus.validation):
        assert sum(int((f.tokens == corpus.end_of_text).sum()) for f in part.files) == sum(
            f.documents for f in part.files
        )


def test_the_tokenizer_sees_training_documents_only(write, make, tmp_path, words):
    """A word that only held-out documents contain is not merged into tokens."""
    write(tmp_path / "c", {f"{i:03d}.txt": words(i, 60) for i in range(60)})
    corpus = make(tmp_path / "c", validation_fraction=0.3)
    held = documents_of(corpus.validation.files, corpus.end_of_text)
    for name, _ in held:
        write(tmp_path / "c", {name: "xyzzyq " * 200})
    corpus = make(tmp_path / "c", validation_fraction=0.3, vocab_size=400)
    assert documents_of(corpus.validation.files, corpus.end_of_text).keys() == held.keys()
    assert len(corpus.encode("xyzzyq")) == 6
    assert len(corpus.encode(words(1, 60)[:20])) < 20


def test_a_second_call_reads_no_document(write, make, tmp_path, words, monkeypatch):
    write(tmp_path / "c", {f"{i}.txt": words(i, 100) for i in range(10)})
    lines = []
    first = make(tmp_path / "c", progress=lines.append)
    assert [line.split()[0] for line in lines] == ["reading", "training", "encoding"]
    monkeypatch.setattr(Source, "rows", lambda self: pytest.fail("the files were read again"))
    second = make(tmp_path / "c", progress=pytest.fail)
    assert second.content_sha256 == first.content_sha256
    assert second.tokenizer_path == first.tokenizer_path
    assert np.array_equal(second.train.batch(range(50)), first.train.batch(range(50)))


def test_two_caches_hold_the_same_bytes(folder, tmp_path):
    data = Data(sources=(DataSource(kind="files", path=str(folder)),))
    contents = []
    for name in ("one", "two"):
        prepare(data, vocab_size=300, sequence_length=16, seed=1, cache_dir=tmp_path / name)
        files = sorted(p for p in (tmp_path / name).rglob("*") if p.is_file())
        contents.append([(p.relative_to(tmp_path / name), p.read_bytes()) for p in files])
    assert contents[0] == contents[1]
    assert len(contents[0]) > 4


def test_what_changes_the_tokens_and_what_does_not(write, make, tmp_path, words):
    write(tmp_path / "c", {f"{i}.txt": words(i, 100) for i in range(10)})

    def state(**settings):
        corpus = make(tmp_path / "c", **settings)
        return corpus.content_sha256, corpus.train.files[0].path

    base = state()
    assert state(sequence_length=8) == base
    assert state(seed=2)[0] == base[0]
    assert state(seed=2)[1] != base[1]
    assert state(vocab_size=290)[1] != base[1]
    assert state(validation_fraction=0.5)[1] != base[1]
    write(tmp_path / "c", {"3.txt": words(3, 100) + "more"})
    changed = state()
    assert changed[0] != base[0]
    assert changed[1] != base[1]
    write(tmp_path / "c", {"3.txt": words(3, 100)})
    assert state() == base
    (tmp_path / "c" / "3.txt").rename(tmp_path / "c" / "4b.txt")
    assert state()[0] != base[0]


def test_data_seed_goes_before_the_recipes(make, folder):
    def batch(**settings):
        return make(folder, **settings).train.batch(range(8)).tolist()

    settings = {"validation_fraction": 0.2}
    one = batch(seed=1, **settings)
    assert batch(seed=2, **settings) != one


def test_seed_of_the_section_wins(folder, tmp_path):
    source = DataSource(kind="files", path=str(folder))
    batches = []
    for section, recipe in [(7, 1), (7, 2), (None, 7)]:
        data = Data(sources=(source,), seed=section)
        corpus = prepare(data, vocab_size=300, sequence_length=16, seed=recipe, cache_dir=tmp_path)
        batches.append(corpus.train.batch(range(8)).tolist())
    assert batches[0] == batches[1] == batches[2]


def test_files_touched_a_moment_ago_are_read_again(write, make, tmp_path, words):
    """A second write within the clock's grain, of the same size, must not go unseen."""
    write(tmp_path / "c", {f"{i}.txt": words(i, 100) for i in range(10)})
    now = time.time()
    path = tmp_path / "c" / "3.txt"
    os.utime(path, (now, now))
    first = make(tmp_path / "c")
    path.write_bytes(path.read_bytes().replace(b"a", b"j"))
    os.utime(path, (now, now))
    assert make(tmp_path / "c").content_sha256 != first.content_sha256


def test_files_that_change_while_they_are_read(write, make, tmp_path, words):
    """They change after the survey: no tokenizer and no tokens of the changed text are kept."""
    write(tmp_path / "c", {f"{i}.txt": words(i, 100) for i in range(10)})
    target, lines = None, []

    def change(line):
        lines.append(line)
        if target and line.startswith(target):
            write(tmp_path / "c", {"3.txt": words(99, 100)})

    for target, more in (("training", "x"), ("encoding", "yy")):
        write(tmp_path / "c", {"3.txt": words(3, 100) + more})
        lines.clear()
        with pytest.raises(DataError, match="not what they were when first read: start again"):
            make(tmp_path / "c", progress=change)
        assert lines[-1].startswith(target)
        assert not list((tmp_path / "cache").rglob(".tmp-*"))
    target = None
    corpus = make(tmp_path / "c")
    sides = [documents_of(p.files, corpus.end_of_text) for p in (corpus.train, corpus.validation)]
    texts = {name: corpus.decode(t) for side in sides for (name, _), t in side.items()}
    assert texts["3.txt"] == words(99, 100) + "<|endoftext|>"


def test_an_altered_file_with_its_old_time_is_caught_when_tokens_are_built(
    write, make, tmp_path, words
):
    write(tmp_path / "c", {f"{i}.txt": words(i, 100) for i in range(10)})
    make(tmp_path / "c")
    write(tmp_path / "c", {"3.txt": words(3, 100).swapcase()})
    with pytest.raises(DataError, match="start again"):
        make(tmp_path / "c", vocab_size=280)
    corpus = make(tmp_path / "c", vocab_size=280)  # the stale survey was dropped
    assert words(3, 100).swapcase() in "".join(
        corpus.decode(f.tokens) for p in (corpus.train, corpus.validation) for f in p.files
    )


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "tokenizer", "survey"])
def test_a_damaged_cache_is_built_anew(write, make, tmp_path, words, damage):
    write(tmp_path / "c", {f"{i}.txt": words(i, 100) for i in range(10)})
    first = make(tmp_path / "c")
    expected = first.train.batch(range(20)).tolist()
    path = {
        "tokenizer": first.tokenizer_path,
        "survey": next((tmp_path / "cache" / "surveys").glob("*.json")),
    }.get(damage, first.train.files[0].path)
    whole = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(whole[:-9])
    elif damage == "tokenizer":
        path.write_bytes(bytes(whole).replace(b'"ef"', b'"fe"').replace(b"\n", b"\n "))
    else:
        whole[len(whole) // 2] ^= 1
        path.write_bytes(whole)
    again = make(tmp_path / "c")
    assert again.train.batch(range(20)).tolist() == expected
    again.train.files[0].verify()


# Several sources, small sources, and the splits.


def test_blends_keep_to_their_weights(write, make, tmp_path, words):
    write(tmp_path / "a", {f"{i}.txt": words(i, 200) for i in range(10)})
    write(tmp_path / "b", {f"{i}.txt": words(i + 50, 40) for i in range(10)})
    corpus = make(tmp_path / "a", tmp_path / "b", weights=[3.0, 1.0], validation_fraction=0.3)
    for part in (corpus.train, corpus.validation):
        names = [part.provenance(i).source for i in range(80)]
        assert names.count(str(tmp_path / "a")) == 60
    assert corpus.evaluation_indices(5) == range(5)
    assert corpus.evaluation_indices(10**6) == range(len(corpus.validation))


def test_a_blend_reuses_what_was_prepared_of_each_source(write, make, tmp_path, words):
    for name in "ab":
        write(tmp_path / name, {f"{i}.txt": words(ord(name) + i, 100) for i in range(10)})
    tokenizer = make(tmp_path / "a").tokenizer_path
    lines = []
    make(tmp_path / "a", tmp_path / "b", tokenizer=str(tokenizer), progress=lines.append)
    assert [line.split(":")[0].split("/")[-1] for line in lines] == ["b", "b"]


def test_a_source_whose_held_out_documents_are_short_is_only_trained_on(
    write, make, tmp_path, words
):
    write(tmp_path / "a", {f"{i}.txt": words(i, 200) for i in range(10)})
    write(tmp_path / "b", {f"{i:03d}.txt": "ab" for i in range(60)})
    corpus = make(tmp_path / "a", tmp_path / "b", validation_fraction=0.05)
    assert len(corpus.train.files) == 2
    assert corpus.validation.names == (str(tmp_path / "a"),)


def test_a_single_file_is_split_too(write, make, tmp_path, words):
    write(tmp_path / "c", {"input.txt": words(1, 3000)})
    corpus = make(tmp_path / "c" / "input.txt", validation_fraction=0.1)
    text = "".join(
        corpus.decode(f.tokens) for p in (corpus.train, corpus.validation) for f in p.files
    )
    assert text.replace("<|endoftext|>", "") == words(1, 3000)
    assert corpus.train.provenance(0).documents[0].document == 0
    assert corpus.validation.provenance(0).documents[0].document == 1
    assert 0.08 < corpus.validation.tokens / (corpus.train.tokens + corpus.validation.tokens) < 0.12


def test_what_was_passed_over_is_told(write, make, tmp_path, words):
    write(tmp_path / "c", {f"{i}.txt": words(i, 100) for i in range(10)})
    write(
        tmp_path / "c", {"empty.txt": "", "rows.jsonl": '{"text":null}\n{"text":"ab"}', "x.csv": ""}
    )
    skipped = make(tmp_path / "c").skipped
    assert skipped[0].startswith("x.csv: not one of .txt")
    assert skipped[1] == f"{tmp_path / 'c'}: 2 empty documents"
    write(tmp_path / "c", {f"{i}.bin": "" for i in range(300)})
    skipped = make(tmp_path / "c").skipped
    assert len(skipped) == 100
    assert skipped[-1] == "and 203 more"


def test_progress_in_words(write, make, tmp_path, words):
    lines = []
    write(tmp_path / "c", {"a.txt": "one two three four five six seven eight\n" * 100})
    make(tmp_path / "c/a.txt", progress=lines.append)
    assert lines == [
        f"reading {tmp_path}/c/a.txt: 1 file",
        "training a tokenizer of at most 300 tokens on 4 kB of text",
        f"encoding {tmp_path}/c/a.txt: 1 document, 4 kB",
    ]
    lines.clear()
    write(tmp_path / "c", {"b.jsonl": '{"text": "ab"}\n' * 6 + '{"text": null}\n'})
    with pytest.raises(DataError, match="less than one sample"):
        make(tmp_path / "c/b.jsonl", progress=lines.append)
    assert lines == [
        f"reading {tmp_path}/c/b.jsonl: 1 file",
        "training a tokenizer of at most 300 tokens on 12 bytes of text",
        f"encoding {tmp_path}/c/b.jsonl: 6 documents, 12 bytes",
    ]


def test_names_that_cannot_be_printed_are_escaped(write, make, tmp_path, words):
    """In messages, progress, what was skipped, and where a sample comes from."""
    root = tmp_path / os.fsdecode(b"c\xff")
    shown = rf"{tmp_path}/c\udcff"
    write(root, {"a\x1b[31m.txt": words(1, 300), "b\n.txt": words(2, 300), "c\x1b.csv": ""})
    lines = []
    corpus = make(root, progress=lines.append, validation_fraction=0.3)
    assert len(lines) >= 3
    assert all(line.isprintable() for line in lines)
    assert corpus.skipped[0].startswith(r"c\x1b.csv: not one of ")
    found = {corpus.train.provenance(0), corpus.validation.provenance(0)}
    assert {one.source for one in found} == {shown}
    assert {one.file for one in found} == {r"a\x1b[31m.txt", r"b\n.txt"}
    write(root, {"a\x1b[31m.txt": b"ab\xff"})
    with pytest.raises(DataError) as error:
        make(root)
    assert str(error.value).startswith(rf"{shown}/a\x1b[31m.txt: byte 0xff at offset 2 ")


def test_large_documents_and_batches(write, make, tmp_path, words, monkeypatch):
    monkeypatch.setattr(encode_module, "_PIECE_CHARACTERS", 100)
    monkeypatch.setattr(encode_module, "_BATCH_CHARACTERS", 150)
    monkeypatch.setattr(encode_module, "_SAY_EVERY", 0.0)
    texts = {f"{i}.txt": words(i, 50 * i + 1).replace("\n ", "\n") for i in range(10)}
    write(tmp_path / "c", texts)
    lines = []
    corpus = make(tmp_path / "c", validation_fraction=0.3, progress=lines.append)
    assert lines[-1].endswith("100 %")
    assert len(lines) > 8
    for part in (corpus.train, corpus.validation):
        for (name, _), tokens in documents_of(part.files, corpus.end_of_text).items():
            assert tokens.tolist() == [*corpus.encode(texts[name]), corpus.end_of_text]


def test_a_large_corpus_trains_the_tokenizer_on_a_part(write, make, tmp_path, words, monkeypatch):
    import importlib

    module = importlib.import_module("surefoot.data.prepare")
    write(tmp_path / "c", {f"{i:03d}.txt": words(i, 100) for i in range(100)})
    seen = []
    real = module.train

    def spy(texts, vocab_size):
        seen.append(list(texts))
        return real(seen[-1], vocab_size)

    monkeypatch.setattr(module, "train", spy)
    monkeypatch.setattr(module, "TRAINING_TEXT", 12_000)
    make(tmp_path / "c")
    assert 15 < len(seen[0]) < 60


# Tokenizers.


def test_a_given_tokenizer_is_copied_into_the_cache(make, folder, tmp_path, words):
    path = tmp_path / "mine.json"
    path.write_text(train([words(1, 500)], 290).text)
    corpus = make(folder, tokenizer=str(path), vocab_size=1000)
    assert corpus.tokenizer_path.read_text() == path.read_text()
    assert tmp_path / "cache" in corpus.tokenizer_path.parents
    assert json.loads(corpus.tokenizer_path.read_text())["model"]["type"] == "BPE"


def test_a_given_tokenizer_too_large_for_the_model(make, folder, tmp_path, words):
    path = tmp_path / "mine.json"
    path.write_text(train([words(1, 500)], 290).text)
    with pytest.raises(DataError, match=r"290 tokens.*= 280.*--set architecture.vocab_size=290"):
        make(folder, tokenizer=str(path), vocab_size=280)


def test_a_vocabulary_above_65536_is_kept_in_32_bits(make, folder, monkeypatch):
    monkeypatch.setattr(encode_module, "itemsize_for", lambda size: 4)
    assert make(folder).train.files[0].tokens.dtype == np.uint32
    monkeypatch.undo()
    assert [encode_module.itemsize_for(n) for n in (300, 65536, 65537)] == [2, 2, 4]


# What cannot be used.


def test_an_empty_corpus(write, make, tmp_path):
    write(tmp_path / "c", {"a.txt": "", "b.jsonl": "\n\n"})
    with pytest.raises(DataError, match="an empty corpus: no text in 2 files"):
        make(tmp_path / "c")
    with pytest.raises(DataError, match=r"an empty corpus: no text in 1 file$"):
        make(tmp_path / "c/a.txt")


def test_a_corpus_shorter_than_one_sequence(write, make, tmp_path):
    write(tmp_path / "c", {f"{i}.txt": "abc" for i in range(4)})
    with pytest.raises(DataError) as error:
        make(tmp_path / "c", sequence_length=64)
    # "abc" becomes one token, and each document has an end; one of four is held out.
    assert str(error.value) == (
        f"{tmp_path / 'c'}: the training documents have 6 tokens, less than one sample of 64 + 1: "
        "add text"
    )
    make(tmp_path / "c", sequence_length=1)


@pytest.mark.parametrize(("size", "offered"), [(34, 15), (36, 16)])
def test_a_shorter_sequence_is_offered_where_it_is_of_use(write, make, tmp_path, size, offered):
    """Without merges, each letter is a token, and each document has an end."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    write(tmp_path / "c", {"0.txt": letters[: size // 2 - 2], "1.txt": letters[size // 2 :]})
    with pytest.raises(DataError) as error:
        make(tmp_path / "c", vocab_size=257, sequence_length=64)
    cure = f"add text, or type --set architecture.sequence_length={offered}"
    assert str(error.value).endswith(f": {cure}" if offered >= 16 else ": add text")


def test_held_out_documents_shorter_than_one_sequence(write, make, tmp_path, words):
    write(tmp_path / "c", {**{f"{i}.txt": "ab" for i in range(50)}, "z.txt": words(1, 900)})
    with pytest.raises(DataError, match=r"held-out documents have \d+ tokens.*validation_frac"):
        make(tmp_path / "c", sequence_length=64)


def test_a_single_character(write, make, tmp_path):
    write(tmp_path / "c", {"a.txt": "x"})
    with pytest.raises(DataError, match="the training documents have 0 tokens"):
        make(tmp_path / "c")


def test_bad_text_is_named_before_anything_is_kept(write, make, tmp_path, words):
    write(tmp_path / "c", {f"{i}.txt": words(i, 100) for i in range(5)})
    write(tmp_path / "c", {"bad.txt": b"ab\xff"})
    with pytest.raises(DataError, match=r"bad\.txt: byte 0xff at offset 2.*data\.errors=replace"):
        make(tmp_path / "c")
    assert not list((tmp_path / "cache").rglob("*.json"))
    corpus = make(tmp_path / "c", errors="replace")
    text = "".join(
        corpus.decode(f.tokens) for p in (corpus.train, corpus.validation) for f in p.files
    )
    assert "ab\ufffd<|endoftext|>" in text


@pytest.mark.slow
def test_stdlib_from_nothing_and_again(tmp_path):
    data = Data(sources=(DataSource(kind="stdlib"),))
    corpora, seconds = [], []
    for _ in range(2):
        start = time.process_time()
        corpora.append(
            prepare(data, vocab_size=2048, sequence_length=256, seed=1, cache_dir=tmp_path)
        )
        seconds.append(time.process_time() - start)
    assert seconds[0] < 60
    assert seconds[1] < 1
    assert corpora[0].train.tokens > 2_000_000
    for corpus in corpora:
        for file in (*corpus.train.files, *corpus.validation.files):
            assert isinstance(file, TokenFile)
            file.verify()
    assert np.array_equal(corpora[0].train.batch(range(64)), corpora[1].train.batch(range(64)))
