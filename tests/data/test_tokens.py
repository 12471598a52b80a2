"""Token files: what is written comes back, and what was torn or altered is recognised."""

import hashlib
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from surefoot.data import Span, TokenFile, TokenWriter
from surefoot.data import tokens as module
from surefoot.data.tokens import HEADER_SIZE
from surefoot.errors import DataError

DOCUMENTS = [("a.txt", 0, [5, 6, 0]), ("b.jsonl", 3, [7, 0]), ("b.jsonl", 9, [8, 9, 10, 11, 0])]


@pytest.fixture(params=[2, 4])
def path(tmp_path, request):
    path = tmp_path / "x.tokens"
    with TokenWriter(path, request.param) as writer:
        for document in DOCUMENTS:
            writer.add(*document)
    return path


def test_what_is_written_comes_back(path):
    file = TokenFile(path)
    assert file.tokens.tolist() == [5, 6, 0, 7, 0, 8, 9, 10, 11, 0]
    assert len(file) == 10
    assert file.documents == 3
    assert os.listdir(path.parent) == ["x.tokens"]


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (0, 1, [("a.txt", 0, 0, 1)]),
        (1, 4, [("a.txt", 0, 1, 2), ("b.jsonl", 3, 0, 1)]),
        (2, 3, [("a.txt", 0, 2, 1)]),
        (4, 5, [("b.jsonl", 3, 1, 1)]),
        (8, 10, [("b.jsonl", 9, 3, 2)]),
        (0, 10, [("a.txt", 0, 0, 3), ("b.jsonl", 3, 0, 2), ("b.jsonl", 9, 0, 5)]),
    ],
)
def test_spans(path, start, stop, expected):
    assert TokenFile(path).spans(start, stop) == tuple(
        Span(file=f, document=d, token_offset=o, tokens=n) for f, d, o, n in expected
    )


def test_a_span_in_words(path):
    words = [str(TokenFile(path).spans(6, stop)[0]) for stop in (7, 8)]
    assert words == [
        "b.jsonl, document 9, token 1 of the document",
        "b.jsonl, document 9, tokens 1 to 2 of the document",
    ]


def test_names_that_cannot_be_printed_are_escaped(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff\x1b.tokens")
    with TokenWriter(path, itemsize=2) as writer:
        writer.add("a\x1b[31m\udcff.txt", 0, [5, 6, 0])
    span = TokenFile(path).spans(0, 2)[0]
    assert str(span) == r"a\x1b[31m\udcff.txt, document 0, tokens 0 to 1 of the document"
    for damage in (b"", b"\0" * 300):
        path.write_bytes(damage)
        with pytest.raises(DataError) as error:
            TokenFile(path)
        assert str(error.value).startswith(rf"{tmp_path}/\udcff\x1b.tokens: ")


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (3, 3), (0, 11)])
def test_spans_out_of_range(path, start, stop):
    with pytest.raises(IndexError, match="<= 10"):
        TokenFile(path).spans(start, stop)


def test_every_altered_byte_is_recognised(path):
    whole = path.read_bytes()
    for i in range(len(whole)):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 4]) + whole[i + 1 :])
        with pytest.raises(DataError, match=r"x\.tokens: "):
            TokenFile(path)


def test_every_torn_length_is_recognised(path):
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"x\.tokens: "):
            TokenFile(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(DataError, match="torn token file"):
        TokenFile(path)


def test_large_files_are_checked_in_full_when_asked(path, monkeypatch):
    monkeypatch.setattr(module, "_HASHED_WHEN_OPENED", 0)
    whole = bytearray(path.read_bytes())
    middle = HEADER_SIZE + TokenFile(path).header.tokens_size
    for place, what in ((HEADER_SIZE + 3, "tokens"), (middle + 2, "document table")):
        altered = bytearray(whole)
        altered[place] ^= 1
        path.write_bytes(altered)
        file = TokenFile(path)
        with pytest.raises(DataError, match=f"the {what} of this token file"):
            file.verify()
    path.write_bytes(whole)
    TokenFile(path).verify()
    path.write_bytes(whole[:-1])
    with pytest.raises(DataError, match="torn"):
        TokenFile(path)
    path.write_bytes(bytes(whole[:-1]) + b"\xff")
    with pytest.raises(DataError, match="names in this token file"):
        TokenFile(path)


def test_foreign_missing_and_newer_files(path):
    whole = path.read_bytes()
    path.write_bytes(b"something else entirely" * 40)
    with pytest.raises(DataError, match="not a token file"):
        TokenFile(path)
    newer = bytearray(whole)
    newer[8:12] = (2).to_bytes(4, "little")
    newer[HEADER_SIZE - 32 : HEADER_SIZE] = hashlib.sha256(newer[: HEADER_SIZE - 32]).digest()
    path.write_bytes(newer)
    with pytest.raises(DataError, match="token file of format 2, this surefoot reads 1"):
        TokenFile(path)
    path.unlink()
    with pytest.raises(DataError, match="cannot read this token file"):
        TokenFile(path)


def test_the_layout_does_not_change(tmp_path):
    """Files of format 1 stay readable: these bytes may not change without a new format."""
    path = tmp_path / "x.tokens"
    with TokenWriter(path, 2) as writer:
        for document in DOCUMENTS:
            writer.add(*document)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == GOLDEN


GOLDEN = "4b9ecf2bcb21e66b45f71ab0d40cc61715db15add97e4c1fd153e6f782959cd3"


def test_a_writer_that_failed_leaves_nothing_that_is_whole(tmp_path):
    path = tmp_path / "x.tokens"
    try:
        with TokenWriter(path, 2) as writer:
            writer.add(*DOCUMENTS[0])
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    with pytest.raises(DataError, match="cut short"):
        TokenFile(path)
    assert os.listdir(tmp_path) == ["x.tokens"]


@pytest.mark.parametrize("bad", [[65536], [-1]])
def test_tokens_that_do_not_fit_are_refused(tmp_path, bad):
    with TokenWriter(tmp_path / "x", 2) as writer:
        with pytest.raises(ValueError, match="do not fit uint16"):
            writer.add("a", 0, bad)


def test_uint32_holds_large_vocabularies(tmp_path):
    with TokenWriter(tmp_path / "x", 4) as writer:
        writer.add("a", 0, [2**32 - 1, 65536])
    assert TokenFile(tmp_path / "x").tokens.tolist() == [2**32 - 1, 65536]


def test_an_empty_file_can_be_opened(tmp_path):
    with TokenWriter(tmp_path / "x", 2):
        pass
    assert len(TokenFile(tmp_path / "x")) == 0


def test_a_worker_process_maps_the_file_itself(path):
    data = pickle.dumps(TokenFile(path))
    assert len(data) < 1000
    assert np.array_equal(pickle.loads(data).tokens, TokenFile(path).tokens)


def test_writing_takes_constant_memory(tmp_path):
    """20 MB of tokens in 50 000 documents, written by a process whose memory grows by less."""
    code = f"""
import resource
import numpy as np
from surefoot.data import TokenWriter
tokens = np.arange(200) % 1000
with TokenWriter(__import__("pathlib").Path({str(tmp_path / "x")!r}), 2) as writer:
    for number in range(1000):
        writer.add("a", number, tokens)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(50_000):
        writer.add("a", number, tokens)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 8000  # kilobytes
