"""Entries of the cache are whole or absent, whoever builds them and whenever it is killed."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from surefoot.data import cache as module
from surefoot.data.cache import Cache, default_folder, key_of
from surefoot.errors import DataError, StorageError

PREPARE = """
import os, signal, sys
from pathlib import Path
from surefoot.data import cache, prepare, token_writer
from surefoot.recipe import Data, DataSource
{before}
data = Data(sources=(DataSource(kind="files", path={folder!r}),), validation_fraction=0.2)
corpus = prepare(data, vocab_size=300, sequence_length=16, seed=1, cache_dir=Path({cache!r}),
                 progress=lambda line: print(line, flush=True))
print("sum", int(corpus.train.files[0].tokens.sum()))
"""


def start(folder, cache, before=""):
    code = PREPARE.format(folder=str(folder), cache=str(cache), before=before)
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    out, err = process.communicate(timeout=100)
    return process.returncode, out, err


def read_value(folder: Path) -> str:
    text = (folder / "value").read_text()
    if text == "torn":
        raise DataError("torn")
    return text


def write_value(text):
    return lambda folder: (folder / "value").write_text(text)


def test_an_entry_is_built_once(tmp_path):
    cache = Cache(tmp_path / "deep" / "cache")
    assert cache.entry("kind", "k", read_value, write_value("one")) == "one"
    assert cache.entry("kind", "k", read_value, write_value("two")) == "one"
    assert cache.entry("kind", "other", read_value, write_value("two")) == "two"


@pytest.mark.parametrize("damage", ["torn", "missing", "file"])
def test_what_is_not_whole_is_built_anew(tmp_path, damage):
    cache = Cache(tmp_path)
    cache.entry("kind", "k", read_value, write_value("one"))
    value = tmp_path / "kind" / "k" / "value"
    value.unlink()
    if damage == "torn":
        value.write_text("torn")
    if damage == "file":
        value.parent.rmdir()
        value.parent.write_text("in the way")
    assert cache.entry("kind", "k", read_value, write_value("two")) == "two"
    assert [p.name for p in (tmp_path / "kind").iterdir() if p.name != ".lock-k"] == ["k"]


def test_a_build_that_fails_leaves_nothing(tmp_path):
    def build(folder):
        write_value("half")(folder)
        raise DataError("a.txt: torn")

    with pytest.raises(DataError, match=r"a\.txt"):
        Cache(tmp_path).entry("kind", "k", read_value, build)
    assert os.listdir(tmp_path / "kind") == [".lock-k"]


def test_without_locks_the_first_to_finish_wins(tmp_path, monkeypatch):
    import contextlib

    monkeypatch.setattr(Cache, "_locked", lambda *_: contextlib.nullcontext(False))
    cache = Cache(tmp_path)

    def build(folder):
        write_value("slow")(folder)
        final = tmp_path / "kind" / "k"
        final.mkdir()
        write_value("fast")(final)

    assert cache.entry("kind", "k", read_value, build) == "fast"
    assert os.listdir(tmp_path / "kind") == ["k"]


def test_without_locks_one_that_comes_in_between_is_kept(tmp_path, monkeypatch):
    import contextlib

    monkeypatch.setattr(Cache, "_locked", lambda *_: contextlib.nullcontext(False))
    looked = []

    def open_(folder):
        looked.append(folder)
        if len(looked) == 3:  # the last look before the rename
            folder.mkdir()
            write_value("other")(folder)
            raise DataError("not yet")
        return read_value(folder)

    real = Path.rename
    monkeypatch.setattr(
        Path, "rename", lambda a, b: real(a, b) if b.name == "k" else a.joinpath("gone").stat()
    )
    assert Cache(tmp_path).entry("kind", "k", open_, write_value("mine")) == "other"
    assert os.listdir(tmp_path / "kind") == ["k"]


def test_a_shared_cache_can_be_read_by_others(tmp_path):
    mask = os.umask(0o022)
    try:
        cache = Cache(tmp_path / "shared")
        cache.entry("kind", "k", read_value, write_value("one"))
        cache.remember("kind", "r", {})
    finally:
        os.umask(mask)
    for path in (tmp_path / "shared").rglob("*"):
        assert path.stat().st_mode & 0o444 == 0o444, path


def test_remembered_values(tmp_path):
    cache = Cache(tmp_path)
    assert cache.recall("kind", "k") is None
    cache.remember("kind", "k", {"a": 1, "b": ["é"]})
    assert cache.recall("kind", "k") == {"a": 1, "b": ["é"]}
    path = tmp_path / "kind" / "k.json"
    whole = path.read_text()
    altered = [whole[:-1], "", "[]", "{}", whole.replace("1", "2", 1), json.dumps({"value": {}})]
    for content in altered:
        path.write_text(content)
        assert cache.recall("kind", "k") is None, content
    cache.remember("kind", "k", {"a": 2})
    cache.forget("kind", "k")
    cache.forget("kind", "k")
    assert cache.recall("kind", "k") is None
    assert os.listdir(tmp_path / "kind") == [".lock-k"]


def test_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SUREFOOT_CACHE", raising=False)
    assert default_folder() == tmp_path / ".cache" / "surefoot"
    monkeypatch.setenv("SUREFOOT_CACHE", "/elsewhere")
    assert default_folder() == Path("/elsewhere")


def test_keys_differ_by_every_part():
    keys = [key_of(1, 2), key_of(12), key_of("1", 2), key_of(1, [2]), key_of(1, 2.5), key_of()]
    assert len(set(keys)) == len(keys)


def test_a_disk_that_refuses(tmp_path, monkeypatch):
    cache = Cache(tmp_path)
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):

        def refuse(path, code=code):
            raise OSError(code, os.strerror(code), str(path))

        monkeypatch.setattr(module, "fsync_file", refuse)
        with pytest.raises(StorageError, match=r"cannot write .*--set data\.cache_dir=DIR"):
            cache.entry("kind", "k", read_value, write_value("x"))
        assert os.listdir(tmp_path / "kind") == [".lock-k"]


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "f").write_text("x")
    for path in (tmp_path / "f", tmp_path / "f" / "below"):
        with pytest.raises(StorageError, match="cannot write"):
            Cache(path)


def test_a_full_disk_while_tokens_are_written(write, words, tmp_path):
    """The limit on file sizes makes the write itself fail, as a full disk does."""
    before = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000))
"""
    write(tmp_path / "c", {f"{i}.txt": words(i, 1000) for i in range(40)})
    code, out, err = finish(start(tmp_path / "c", tmp_path / "cache", before))
    assert code == 1
    assert "encoding" in out
    assert "StorageError: cannot write" in err
    entries = [p.name for p in (tmp_path / "cache").rglob("*") if p.suffix == ".tokens"]
    assert entries == []
    assert "sum" not in out


KILLED = """
def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
"""
POINTS = {
    "while the table is written": "token_writer.TokenWriter._finish = kill",
    "before the files are flushed": "cache.fsync_file = kill",
    "before the rename": "cache.Path.rename = kill",
    "while documents are written": """
real, count = token_writer.TokenWriter.add, [0]
def add(self, *args):
    count[0] += 1
    kill() if count[0] == 20 else real(self, *args)
token_writer.TokenWriter.add = add
""",
}


@pytest.mark.parametrize("point", POINTS)
def test_killed_builds_are_never_taken_for_whole(folder, tmp_path, corpus, point):
    cache = tmp_path / "cache"
    code, out, _ = finish(start(folder, cache, KILLED + POINTS[point]))
    assert code == -9
    assert "sum" not in out
    code, out, err = finish(start(folder, cache))
    assert code == 0, err
    assert f"sum {int(corpus.train.files[0].tokens.sum())}" in out
    assert [p.name for p in cache.rglob(".tmp-*")] == []
    assert len(list(cache.rglob("train.tokens"))) == 1


def test_processes_that_start_at_once_take_turns(folder, tmp_path, corpus):
    processes = [start(folder, tmp_path / "cache") for _ in range(3)]
    results = [finish(process) for process in processes]
    assert [code for code, _, _ in results] == [0, 0, 0], results
    outs = "".join(out for _, out, _ in results)
    assert outs.count(f"sum {int(corpus.train.files[0].tokens.sum())}") == 3
    assert outs.count("encoding") == 1
    assert outs.count("training a tokenizer") == 1
