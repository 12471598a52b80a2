"""Which files are read, how, and what is said of those that cannot be."""

import ast
import gzip
import json
import os
import sysconfig
import tokenize
from pathlib import Path

import polars as pl
import pytest
import zstandard

from surefoot.data.sources import Source
from surefoot.errors import DataError
from surefoot.recipe import DataSource


def files_source(path, errors="strict", **settings):
    return Source(DataSource(kind="files", path=str(path), **settings), errors)


def read(path, errors="strict", **settings):
    documents = files_source(path, errors, **settings).documents()
    return [(d.file, d.number, d.text) for d in documents]


def zst(data, *, frames=1):
    step = -(-len(data) // frames)
    parts = [data[i : i + step] for i in range(0, len(data), step)]
    return b"".join(zstandard.ZstdCompressor(write_checksum=True).compress(part) for part in parts)


# The interpreter's own sources.


def test_stdlib_is_the_interpreters_own_sources_without_tests():
    source = Source(DataSource(kind="stdlib"))
    names = [file.name for file in source.listing.files]
    assert names == sorted(names)
    assert {"ast.py", "json/decoder.py", "email/message.py"} <= set(names)
    folders = {part for name in names for part in name.split("/")[:-1]}
    assert not folders & {"test", "tests", "site-packages", "dist-packages", "__pycache__"}
    assert all(name.endswith(".py") for name in names)


def test_stdlib_documents_are_what_tokenize_opens():
    root = Path(sysconfig.get_path("stdlib"))
    wanted = {"ast.py", "this.py", "heapq.py", "sqlite3/__init__.py"}
    for document in Source(DataSource(kind="stdlib")).documents():
        assert document.number == 0
        if document.file in wanted:
            with tokenize.open(root / document.file) as file:
                assert document.text == file.read()
            wanted.remove(document.file)
    assert not wanted


@pytest.mark.parametrize(
    "content",
    [
        b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
        b"\xef\xbb\xbfx = 1\r\ny = 2\r",
        "# coding: shift_jis\nx = '日本'\n".encode("shift_jis"),
        "x = 'é'\n".encode(),
    ],
)
def test_python_is_decoded_as_it_declares(tmp_path, write, monkeypatch, content):
    write(tmp_path, {"a.py": content})
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    [document] = Source(DataSource(kind="stdlib")).documents()
    with tokenize.open(tmp_path / "a.py") as file:
        assert document.text == file.read()
    ast.parse(document.text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# coding: utf-8\nx = '\xe9'\n", "0xe9 at offset 21 is not UTF-8"),
        (b"# coding: ascii\n\n\nx = '\xe9'\n", "0xe9 at offset 23 is not ASCII"),
        (b"# coding: nonsense\nx = 1\n", "unknown encoding: nonsense"),
    ],
)
def test_python_that_is_not_as_it_declares(tmp_path, write, monkeypatch, content, message):
    write(tmp_path, {"a.py": content})
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(DataError, match=rf"a\.py: .*{message}.*--set data.errors=replace"):
        list(Source(DataSource(kind="stdlib")).documents())
    [document] = Source(DataSource(kind="stdlib"), "replace").documents()
    assert document.text.startswith("# coding")


# Kinds of files.


def test_every_kind_plain_and_compressed(tmp_path, write):
    text = "line 1\r\n\tline\u30002 é🙂\x00\n\n"
    rows = "".join(json.dumps({"id": i, "text": f"{text}{i}"}) + "\n" for i in range(3))
    write(
        tmp_path,
        {
            "a.txt": text,
            "b.md.gz": gzip.compress(text.encode()),
            "c.py.zst": zst(text.encode()),
            "d.TXT.GZ": gzip.compress(text.encode()),
            "e.jsonl": rows,
            "f.jsonl.gz": gzip.compress(rows.encode()[:50]) + gzip.compress(rows.encode()[50:]),
            "g.jsonl.zst": zst(rows.encode(), frames=4),
        },
    )
    pl.DataFrame({"text": [f"{text}{i}" for i in range(3)]}).write_parquet(tmp_path / "h.parquet")
    single = [(name, 0, text) for name in ("a.txt", "b.md.gz", "c.py.zst", "d.TXT.GZ")]
    names = ("e.jsonl", "f.jsonl.gz", "g.jsonl.zst", "h.parquet")
    many = [(name, i, f"{text}{i}") for name in names for i in range(3)]
    assert read(tmp_path) == sorted([*single, *many])


def test_a_folder_is_read_through_in_order_without_what_is_hidden(tmp_path, write):
    names = ["b.txt", "a/z.txt", "a/c/d.txt", "a.txt", ".x.txt", ".git/y.txt", "a/.t/z.txt"]
    write(tmp_path, {name: name for name in [*names, "a/picture.png", "README"]})
    assert [file for file, _, _ in read(tmp_path)] == ["a.txt", "a/c/d.txt", "a/z.txt", "b.txt"]
    skipped = files_source(tmp_path).listing.skipped
    assert [line.split(":")[0] for line in skipped] == ["README", "a/picture.png"]


def test_links_that_loop_end_and_links_to_folders_are_read_once(tmp_path, write):
    root, other = tmp_path / "root", tmp_path / "other"
    write(root, {"a/x.txt": "x", "b/y.txt": "y"})
    write(other, {"z.txt": "z"})
    (root / "a/up").symlink_to(root)
    (root / "b/again").symlink_to(root / "b")
    (root / "linked").symlink_to(other)
    (root / "too").symlink_to(other)
    (root / "self").symlink_to(root / "self")
    (root / "gone.txt").symlink_to(root / "nothing")
    expected = [("a/x.txt", 0, "x"), ("b/y.txt", 0, "y"), ("linked/z.txt", 0, "z")]
    assert read(root) == expected
    assert any("gone.txt" in line for line in files_source(root).listing.skipped)


def test_a_glob_over_a_loop_of_links_ends(tmp_path, write):
    write(tmp_path, {"a/x.txt": "x"})
    for name in ("one", "two", "three"):
        (tmp_path / "a" / name).symlink_to(tmp_path)
    assert read(tmp_path / "**" / "*.txt") == [("a/x.txt", 0, "x")]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.txt", ["a.txt", "b.txt"]),
        ("*/*.txt", ["c/d.txt"]),
        ("**/*.txt", ["a.txt", "b.txt", "c/d.txt", "c/e/f.txt"]),
        ("c/**", ["d.txt", "e/f.txt"]),
        ("c/**/f.*", ["e/f.txt"]),
        ("[ab].txt", ["a.txt", "b.txt"]),
        ("a.t?t", ["a.txt"]),
        ("a.txt", ["a.txt"]),
    ],
)
def test_globs(tmp_path, write, pattern, expected):
    write(tmp_path, {name: name for name in ["a.txt", "b.txt", "c/d.txt", "c/e/f.txt", ".h.txt"]})
    assert [file for file, _, _ in read(tmp_path / pattern)] == expected


def test_a_name_with_brackets_is_taken_as_it_is(tmp_path, write):
    write(tmp_path, {"a[1].txt": "x", "a1.txt": "y"})
    assert read(tmp_path / "a[1].txt") == [("a[1].txt", 0, "x")]


def test_home_is_expanded(tmp_path, write, monkeypatch):
    write(tmp_path, {"a.txt": "x"})
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read("~/a.txt") == [("a.txt", 0, "x")]


def test_line_ends_and_characters_are_kept_and_a_byte_order_mark_is_not(tmp_path, write):
    write(
        tmp_path,
        {"a.txt": b"\xef\xbb\xbfa\r\nb\rc\x00\x1a\n", "b.jsonl": b'\xef\xbb\xbf{"text":"x"}'},
    )
    assert read(tmp_path) == [("a.txt", 0, "a\r\nb\rc\x00\x1a\n"), ("b.jsonl", 0, "x")]


def test_rows_without_text_are_left_out_and_do_not_shift_the_numbers(tmp_path, write):
    lines = ['{"text":"a"}', "", '{"text":""}', '{"text":null}', "  ", '{"text":"b"}\r']
    write(tmp_path, {"a.jsonl": "\n".join(lines), "b.txt": ""})
    pl.DataFrame({"text": ["a", None, "", "b"]}).write_parquet(tmp_path / "c.parquet")
    assert read(tmp_path) == [
        ("a.jsonl", 0, "a"),
        ("a.jsonl", 5, "b"),
        ("c.parquet", 0, "a"),
        ("c.parquet", 3, "b"),
    ]


def test_long_lines_and_many_slices(tmp_path, monkeypatch, write):
    from surefoot.data.sources import parquet, stored

    monkeypatch.setattr(stored, "_CHUNK", 7)
    monkeypatch.setattr(parquet, "_FIRST_ROWS", 3)
    monkeypatch.setattr(parquet, "_SLICE_BYTES", 40)
    texts = ["é" * (i * 5 % 13 + 1) for i in range(50)]
    rows = "\n".join(json.dumps({"text": t}, ensure_ascii=False) for t in texts).encode()
    write(tmp_path, {"a.jsonl": rows, "b.jsonl.zst": zst(rows, frames=9)})
    pl.DataFrame({"text": texts}).write_parquet(tmp_path / "c.parquet", row_group_size=7)
    expected = [
        (n, i, t) for n in ("a.jsonl", "b.jsonl.zst", "c.parquet") for i, t in enumerate(texts)
    ]
    assert read(tmp_path) == expected


def test_other_field(tmp_path, write):
    write(tmp_path, {"a.jsonl": '{"content": "x", "text": "no"}\n'})
    pl.DataFrame({"content": ["y"], "n": [1]}).write_parquet(tmp_path / "b.parquet")
    assert [t for _, _, t in read(tmp_path, text_field="content")] == ["x", "y"]


def test_max_bytes_ends_after_the_document_that_reaches_it(tmp_path, write):
    write(tmp_path, {f"{i}.txt": "éé" for i in range(5)})
    for limit, count in [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3), (1000, 5)]:
        assert len(read(tmp_path, max_bytes=limit)) == count


# What cannot be read.


def test_bytes_that_are_no_text(tmp_path, write):
    write(tmp_path, {"a.txt": b"ab\xe9cd"})
    with pytest.raises(DataError) as error:
        read(tmp_path)
    assert str(error.value) == (
        f"{tmp_path}/a.txt: byte 0xe9 at offset 2 is not UTF-8: convert the file, or type --set "
        "data.errors=replace"
    )
    assert read(tmp_path, "replace") == [("a.txt", 0, "ab\ufffdcd")]


def test_bytes_that_are_no_text_in_a_line(tmp_path, write):
    write(tmp_path, {"a.jsonl.gz": gzip.compress(b'{"text":"a"}\n{"text":"b\xff"}\n')})
    with pytest.raises(DataError, match=r"a\.jsonl\.gz:2: byte 0xff at offset 23 is not UTF-8"):
        read(tmp_path)
    assert read(tmp_path, "replace")[1] == ("a.jsonl.gz", 1, "b\ufffd")


def test_lone_surrogates(tmp_path, write):
    write(tmp_path, {"a.jsonl": r'{"text":"a\ud800b\udc00\ud83d\ude42"}'})
    with pytest.raises(DataError, match=r"a\.jsonl:1: .*U\+D800 at character 1.*errors=replace"):
        read(tmp_path)
    assert read(tmp_path, "replace") == [("a.jsonl", 0, "a\ufffdb\ufffd🙂")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not valid JSON"),
        ('{"text": "a"', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('["a"]', "expected a JSON object with a field 'text', got list"),
        ('{"body": "a", "id": 1}', "no field 'text'; found 'body', 'id': type text_field"),
        ("{}", "no field 'text'; found none"),
        ('{"text": 3}', "holds int, expected text"),
    ],
)
def test_bad_lines_are_named(tmp_path, write, line, message):
    write(tmp_path, {"a.jsonl": '{"text":"ok"}\n\n' + line + "\n"})
    with pytest.raises(DataError, match=rf"a\.jsonl:3: .*{message}"):
        read(tmp_path)


def test_bad_parquet_is_named(tmp_path, write):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"body": ["x"], "text": [1]}).write_parquet(path)
    with pytest.raises(DataError, match=r"a\.parquet: the column 'text' is Int64, expected text"):
        read(path)
    with pytest.raises(DataError, match=r"no field 'words'; found 'body', 'text'"):
        read(path, text_field="words")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"a\.parquet: cannot read this file"):
        read(path)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_torn_and_damaged_streams(tmp_path, write, suffix):
    draw = os.urandom(20_000).hex().encode()
    whole = gzip.compress(draw) if suffix == ".gz" else zst(draw, frames=3)
    half = bytearray(whole)
    half[len(half) // 2] ^= 0xFF
    for content in (whole[:-1], whole[: len(whole) // 2], bytes(half), b"", b"plain text"):
        write(tmp_path, {f"a.txt{suffix}": content})
        with pytest.raises(DataError, match=r"a\.txt\.\w+: cannot read this file \(.+\): restore"):
            read(tmp_path)


def test_a_file_that_is_gone_or_locked(tmp_path, write, monkeypatch):
    write(tmp_path, {"a.txt": "a"})
    source = files_source(tmp_path)
    (tmp_path / "a.txt").unlink()
    for act in (lambda: list(source.documents()), source.fingerprint):
        with pytest.raises(DataError, match=r"a\.txt: cannot read this file \(No such file"):
            act()


def test_unknown_kinds_that_were_named(tmp_path, write):
    write(tmp_path, {"a.txt": "a", "b.csv": "b", "c.tar.gz": "c"})
    for pattern in ("*", "b.csv", "c.tar.gz"):
        with pytest.raises(DataError, match=r"(b\.csv|c\.tar\.gz): unknown kind.*\.txt \.md \.py"):
            files_source(tmp_path / pattern)


def test_nothing_there(tmp_path, write):
    for pattern in ("nothing", "*.txt", "no/where/*.txt"):
        with pytest.raises(DataError, match="no such file or folder, and no file matches"):
            files_source(tmp_path / pattern)
    write(tmp_path, {"b.csv": "b"})
    with pytest.raises(DataError, match="no file to read here; known kinds are"):
        files_source(tmp_path)
    with pytest.raises(DataError, match="needs a path"):
        Source(DataSource(kind="files"))


def test_what_is_no_regular_file_does_not_hang(tmp_path, write):
    write(tmp_path, {"a.txt": "a"})
    os.mkfifo(tmp_path / "b.txt")
    assert read(tmp_path) == [("a.txt", 0, "a")]
    with pytest.raises(DataError, match=r"b\.txt: no regular file"):
        files_source(tmp_path / "b.txt")


def test_names_that_are_no_utf8(tmp_path):
    name = os.fsdecode(b"\xff.txt")
    try:
        (tmp_path / name).write_text("x")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    [document] = files_source(tmp_path).documents()
    assert document.file == name
    files_source(tmp_path).fingerprint()


# The state on disk.


def test_the_fingerprint_sees_names_sizes_times_and_settings(tmp_path, write):
    write(tmp_path, {"a.txt": "a", "b.txt": "b"})
    seen = {files_source(tmp_path).fingerprint()[0]}

    def changed(path=tmp_path, errors="strict", **settings):
        one = files_source(path, errors, **settings).fingerprint()[0]
        new = one not in seen
        seen.add(one)
        return new

    assert not changed()
    assert not changed(weight=3.0)
    assert changed(max_bytes=5)
    assert changed(text_field="body")
    assert changed(errors="replace")
    os.utime(tmp_path / "a.txt", (10**9 + 1, 10**9 + 1))
    assert changed()
    (tmp_path / "a.txt").rename(tmp_path / "c.txt")
    assert changed()
    write(tmp_path, {"b.txt": "bb"})
    assert changed()


def test_reading_streams(tmp_path, monkeypatch):
    """A .jsonl larger than what is read of it: the first documents come before the rest is read."""
    from surefoot.data.sources import stored

    taken = 0
    real = stored._plain

    def plain(path):
        nonlocal taken
        for piece in real(path):
            taken += len(piece)
            yield piece

    monkeypatch.setattr(stored, "_plain", plain)
    monkeypatch.setattr(stored, "_CHUNK", 1000)
    line = json.dumps({"text": "x" * 80}) + "\n"
    (tmp_path / "a.jsonl").write_text(line * 1000)
    documents = files_source(tmp_path).documents()
    for _ in range(10):
        next(documents)
    assert taken <= 2000
