"""What must hold of every reading, whatever the bytes are; and changes to make of a seed.

Shared by ``test_fuzz.py`` (random, in the suite) and ``benchmarks/fuzz_readers.py`` (guided by
coverage).
"""

import io
from collections.abc import Callable
from pathlib import Path
from random import Random

import polars as pl

from surefoot.errors import SurefootError
from surefoot.readers import Following, read_configs, read_run
from surefoot.readers.formats import LogFormat
from surefoot.readers.run import read_file
from surefoot.readers.text import Source
from surefoot.records import Run


class Fault(AssertionError):
    """Something that no input may bring about."""


def sound(frame: pl.DataFrame, places: bool = True) -> None:
    """A table of a run: steps of each attempt rise, and every other value is a number.

    Raises:
        Fault: if not.
    """
    if frame.columns[:2] != ["step", "attempt"] and set(frame.columns) < {"step", "attempt"}:
        raise Fault(f"columns {frame.columns[:4]}")
    if frame["step"].dtype != pl.Int64 or frame["step"].null_count():
        raise Fault("steps are no whole numbers")
    if frame["attempt"].dtype != pl.Int32 or frame["attempt"].null_count():
        raise Fault("attempts are no whole numbers")
    if frame.select("step", "attempt").is_duplicated().any():
        raise Fault("a step of an attempt is there twice")
    for name, kind in frame.schema.items():
        inner = kind.inner if isinstance(kind, pl.List) else kind
        if inner not in (pl.Int64, pl.Int32, pl.Float64, pl.Float32):
            raise Fault(f"column {name!r} is of {kind}")


def rising(run: Run) -> None:
    """The winning history: each step once, in order.

    Raises:
        Fault: if not.
    """
    sound(run.signals)
    steps = run.signals["step"]
    if not (steps.diff().drop_nulls() > 0).all():
        raise Fault("the steps of the history do not rise")
    if run.superseded is not None:
        sound(run.superseded)


def read_whole(path: Path, format_in: str | None = None) -> Run | None:
    """Read a run as ``diagnose`` does; None if surefoot says that it cannot be."""
    try:
        run = read_run(path, format_in=format_in)
    except SurefootError as error:
        _told(error)
        return None
    rising(run)
    return run


def read_one(path: Path, fmt: LogFormat) -> None:
    """Read a file as of one format, without recognition."""
    try:
        gathered, _ = read_file(path, fmt, None)
    except SurefootError as error:
        _told(error)
        return
    sound(gathered.frame)


def follow(data: bytes, name: str | None = None) -> None:
    """Read bytes from standard input, as they come."""
    following = Following(format_in=name, source=Source("-", io.BytesIO(data)))
    try:
        last: tuple[int, int] | None = None
        for record in following.records():
            if last is not None and (record.attempt, record.step) <= last:
                raise Fault(f"{(record.attempt, record.step)} comes after {last}")
            last = record.attempt, record.step
            if any(not isinstance(value, int | float) for value in record.values.values()):
                raise Fault(f"no numbers: {record.values}")
        rising(following.run())
    except SurefootError as error:
        _told(error)


def configured(path: Path) -> None:
    """Read a configuration, and write down what was understood."""
    try:
        found = read_configs(path)
    except SurefootError as error:
        _told(error)
        return
    for finding in found.findings:
        if not finding.message or "\n" in finding.message:
            raise Fault(f"a finding of no line: {finding.message!r}")
    found.spec.stated()


def _told(error: SurefootError) -> None:
    text = str(error)
    if not text or "\n" in text or len(text) > 4000:
        raise Fault(f"an error that is not a line: {text[:200]!r}")
    text.encode()  # what is shown must be text that can be shown


# ------------------------------------------------------------------------------------- changes

NUMBERS = (
    b"0", b"-1", b"1e999", b"-1e999", b"nan", b"-nan", b"inf", b"Infinity", b"1,234", b"1,2,3",
    b"99999999999999999999", b"9223372036854775807", b"9223372036854775808", b"1e18", b"1e19",
    b"-9223372036854775809", b"1e-400", b"0x10", b"1_000", b".", b"1.", b"-", b"1e", b"12.5K",
    b"1" * 400, b"1" * 5000, b"\xd9\xa1\xd9\xa2", b"\xef\xbc\x91", b"\xc2\xb2", b"None", b"true",
    b"2147483648", b"1.5", b"00012", b"+3", b"1/0", b"0/0",
)  # fmt: skip
PIECES = (
    b"", b"\0", b"\r", b"\r\n", b"\n", b"\t", b" ", b"\x1b[31m", b"\x08", b"\xff", b"\xc3", b"|",
    b":", b"=", b",", b"{", b"}", b"[", b"]", b"(", b")", b"'", b'"', b"\\", b"\\ud800", b"@",
    b"/", b"%", b"$", b"$(", b"${", b"`", b"<<E", b"&a", b"*a", b"!!python/object:os.system",
    b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b", b"(\xb5/\xfd", b"BZh9", b"\xfd7zXZ\0", b"PAR1",
    b"attempt", b"step", b"loss", b"loss@places", b"grad_norm@a", b"timestamp", b"epoch",
    b"validation_loss", b"update_skipped", b"\xe6\xad\xa5", b"[rank3]: ", b"12: ", b"> ",
    b"2024-02-30T25:61:61 ", b'{"log":"', b"\xe2\x80\xa8", b"\x85", b"\x0c", b"---\n", b"- ", b"#",
    b"[[a]]\n", b"a.b.c = 1\n", b'"nbformat": 4, "cells": ', b"NaN", b"null",
)  # fmt: skip


def mutated(data: bytes, random: Random, others: tuple[bytes, ...] = ()) -> bytes:
    """A few changes, each at a random place: bytes, numbers, pieces, lines, a part of another."""
    held = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3, 5, 8))):
        change = random.choice(CHANGES)
        change(held, random, others)
        if len(held) > 1 << 16:
            del held[1 << 16 :]
    return bytes(held)


def _place(held: bytearray, random: Random) -> int:
    return random.randrange(len(held) + 1)


def _byte(held: bytearray, random: Random, others: tuple[bytes, ...]) -> None:
    if held:
        held[random.randrange(len(held))] = random.randrange(256)


def _bit(held: bytearray, random: Random, others: tuple[bytes, ...]) -> None:
    if held:
        held[random.randrange(len(held))] ^= 1 << random.randrange(8)


def _insert(held: bytearray, random: Random, others: tuple[bytes, ...]) -> None:
    at = _place(held, random)
    held[at:at] = random.choice(PIECES) * random.choice((1, 1, 1, 2, 40))


def _cut(held: bytearray, random: Random, others: tuple[bytes, ...]) -> None:
    at = _place(held, random)
    del held[at : at + random.choice((1, 2, 8, 64, 1 << 20))]


def _repeat(held: bytearray, random: Random, others: tuple[bytes, ...]) -> None:
    begin = _place(held, random)
    part = held[begin : begin + random.randrange(1, 64)]
    at = _place(held, random)
    held[at:at] = part * random.choice((1, 2, 16))


def _number(held: bytearray, random: Random, others: tuple[bytes, ...]) -> None:
    """Put an awkward number in place of one."""
    places = [i for i, byte in enumerate(held) if 48 <= byte <= 57]
    if not places:
        return
    begin = end = random.choice(places)
    while begin > 0 and held[begin - 1] in b"0123456789.eE+-":
        begin -= 1
    while end < len(held) and held[end] in b"0123456789.eE+-":
        end += 1
    held[begin:end] = random.choice(NUMBERS)


def _word(held: bytearray, random: Random, others: tuple[bytes, ...]) -> None:
    """Put a key in place of another word."""
    places = [i for i, byte in enumerate(held) if chr(byte).isalpha() and byte < 128]
    if not places:
        return
    begin = end = random.choice(places)
    while begin > 0 and held[begin - 1 : begin].isalpha():
        begin -= 1
    while end < len(held) and held[end : end + 1].isalpha():
        end += 1
    held[begin:end] = random.choice(PIECES)


def _line(held: bytearray, random: Random, others: tuple[bytes, ...]) -> None:
    """Move, drop or double a line."""
    lines = bytes(held).split(b"\n")
    line = lines.pop(random.randrange(len(lines)))
    for _ in range(random.choice((0, 1, 2, 20))):
        lines.insert(random.randrange(len(lines) + 1), line)
    held[:] = b"\n".join(lines)


def _splice(held: bytearray, random: Random, others: tuple[bytes, ...]) -> None:
    """Put a part of another seed in."""
    if others:
        other = random.choice(others)
        begin = random.randrange(len(other) + 1)
        at = _place(held, random)
        held[at : at + random.choice((0, 0, 20))] = other[begin : begin + random.randrange(200)]


Change = Callable[[bytearray, Random, tuple[bytes, ...]], None]
CHANGES: tuple[Change, ...] = (
    _byte, _bit, _insert, _insert, _cut, _repeat, _number, _number, _number, _word, _line, _splice,
)  # fmt: skip
