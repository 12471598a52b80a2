"""Fuzzing of the readers, guided by coverage: which bytes break one?

    pip install atheris                                  # in an environment of its own
    python benchmarks/fuzz_readers.py --reader megatron --minutes 10
    python benchmarks/fuzz_readers.py --all --minutes 10 --resume benchmarks/results/fuzz_readers.md

Every reader of a log format, every kind of configuration, the text layer (packed, encoded, in a
notebook) and standard input. An input begins as a seed of tests/readers/seeds.py and must bring
about nothing but surefoot's own errors, within 20 seconds and 4 GB; what is read must be a sound
table (tests/readers/fuzzing.py). Inputs that break this are kept below ``--faults``.

``--all`` is a queue that can be stopped: FILE is a table of the minutes that each reader has had,
written after every ``--slice``; the reader with the fewest goes next, until each has ``--minutes``.
"""

import argparse
import gzip
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent / "tests" / "readers"
MEMORY = 4 << 30
SECONDS = 20
"""Of one input, beyond which it counts as a fault."""
PART = b"\xff\x00part\xff"
"""Between the records of a framed format; the frames, with right checksums, are put on later."""
HEADER = """\
# Fuzzing of the readers

Made by `benchmarks/fuzz_readers.py` (atheris, guided by coverage, one core). Minutes are those that
a reader has had so far, of the 10 that it is to have; a fault is an input that raises anything but
surefoot's own errors, takes more than 20 seconds or 4 GB, or makes a table that is not sound.
Faults are those met in the minutes counted, and are fixed since unless a line below says otherwise.

| reader | minutes of 10 | executions | faults | date |
|---|---:|---:|---:|---|
"""


@dataclass
class Row:
    """What a reader has had."""

    minutes: float = 0.0
    executions: int = 0
    faults: int = 0
    date: str = "-"


def modules():
    """``(seeds, fuzzing)`` of the tests."""
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    import fuzzing
    import seeds

    return seeds, fuzzing


def readers() -> list[str]:
    seeds, _ = modules()
    logs = [f"log:{name}" for name in seeds.LOGS]
    return [*logs, *(f"config:{name}" for name in seeds.CONFIGS), "text", "standard input"]


# --------------------------------------------------------------------------------- one process


def seeds_of(reader: str) -> list[bytes]:
    seeds, _ = modules()
    kind, _, name = reader.partition(":")
    if kind == "log":
        parts = {"tensorboard": seeds.EVENTS, "wandb": seeds.WANDB}.get(name)
        return [b"\x00" + seeds.LOGS[name]] + ([b"\x01" + PART.join(parts)] if parts else [])
    if kind == "config":
        return [seeds.CONFIGS[name][1]]
    return list(seeds.LOGS.values())


def framed(reader: str, data: bytes) -> bytes:
    """The file that an input of a log format stands for."""
    seeds, _ = modules()
    first, rest = data[:1], data[1:]
    if first == b"\x01" and reader == "log:tensorboard":
        return b"".join(seeds.tf_record(part[:2000]) for part in rest.split(PART)[:12])
    if first == b"\x01" and reader == "log:wandb":
        return seeds.wandb_block(*(part[:2000] for part in rest.split(PART)[:12]))
    return rest


def wrapped(data: bytes) -> bytes:
    """As the text layer meets it: packed, in another encoding, in a notebook, cut."""
    import bz2
    import json
    import lzma

    import zstandard

    how, rest = (data[0] if data else 0), data[1:]
    text = rest.decode("utf-8", "replace")
    made = {
        0: lambda: rest,
        1: lambda: gzip.compress(rest, 1),
        2: lambda: zstandard.compress(rest),
        3: lambda: bz2.compress(rest, 1),
        4: lambda: lzma.compress(rest, preset=0),
        5: lambda: text.encode("utf-16"),
        6: lambda: text.encode("utf-16-le"),
        7: lambda: text.encode("utf-32"),
        8: lambda: text.encode("gb18030"),
        9: lambda: b"\x1f\x8b\x08" + rest,
        10: lambda: b"\x28\xb5\x2f\xfd" + rest,
        11: lambda: b"BZh9" + rest,
        12: lambda: b"\xfd7zXZ\x00" + rest,
        13: lambda: json.dumps(
            {"cells": [{"cell_type": "code", "outputs": [{"text": text}]}], "nbformat": 4}
        ).encode(),
        14: lambda: b'{"cells": ' + rest,
        15: lambda: gzip.compress(rest, 1)[:-5],
    }[how & 15]()
    return made + gzip.compress(b"x") if how & 64 else made


def target(reader: str, folder: Path):
    """The function that takes one input."""
    _, fuzzing = modules()
    from surefoot.readers.logs import formats

    kind, _, name = reader.partition(":")
    path = folder / "input"
    count = 0

    def log(data: bytes) -> None:
        nonlocal count
        count += 1
        path.write_bytes(framed(reader, data))
        if count % 16 == 0:
            fuzzing.read_whole(path)
        else:
            fuzzing.read_one(path, formats()[name])

    def config(data: bytes) -> None:
        named.write_bytes(data)
        fuzzing.configured(named)

    def text(data: bytes) -> None:
        path.write_bytes(wrapped(data))
        fuzzing.read_whole(path)

    if kind == "config":
        seeds, _ = modules()
        named = folder / seeds.CONFIGS[name][0]
        return config
    return {"log": log, "text": text}.get(kind, fuzzing.follow)


def child(reader: str, seconds: int, faults: Path) -> None:
    """Fuzz in this process; libFuzzer ends it."""
    import atheris

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with atheris.instrument_imports(include=["surefoot"]):
        import surefoot.readers.configs.trainers
        from surefoot.readers.logs import formats

        formats()
        surefoot.readers.configs.trainers.formats()
    seeds, fuzzing = modules()
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, data in enumerate(seeds_of(reader)):
        (corpus / str(number)).write_bytes(data)
    run, seen = target(reader, folder), set()
    others = (*seeds.LOGS.values(), *(data for _, data in seeds.CONFIGS.values()))

    def one(data: bytes) -> None:
        try:
            run(data)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in frames if "surefoot" in frame.filename] or frames
            place = f"{type(error).__name__} at {Path(ours[-1].filename).name}:{ours[-1].lineno}"
            if place not in seen:
                seen.add(place)
                (faults / f"{slug(reader)}-{slug(place)}").write_bytes(data)
                print(f"FAULT {place}: {str(error)[:200]!r}", file=sys.stderr, flush=True)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.3:
            return atheris.Mutate(data, most)
        return fuzzing.mutated(data, random, others)[:most]

    options = [
        f"-max_total_time={seconds}", f"-timeout={SECONDS}", "-rss_limit_mb=4096", "-max_len=16384",
        f"-artifact_prefix={faults}/{slug(reader)}-", "-print_final_stats=1", "-verbosity=1",
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(corpus)], one, custom_mutator=mutate)
    atheris.Fuzz()


def slug(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text)


# ------------------------------------------------------------------------------------ the queue


def fuzz(reader: str, minutes: float, faults: Path) -> tuple[int, int]:
    """(executions, faults) of some minutes in processes of their own."""
    faults.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes
    executions, broken = 0, set()
    while (left := round(end - time.monotonic())) > 2:
        process = subprocess.run(
            [sys.executable, __file__, "--child", reader, "--seconds", str(left),
             "--faults", str(faults)],
            stderr=subprocess.PIPE, text=True, errors="replace",
            env={**os.environ, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"},
        )  # fmt: skip
        told = process.stderr
        counts = re.findall(r"^#(\d+)\s", told, re.MULTILINE)
        counts += re.findall(r"stat::number_of_executed_units: (\d+)", told)
        executions += max(map(int, counts), default=0)
        broken |= set(re.findall(r"^FAULT (.*?): ", told, re.MULTILINE))
        stopped = re.findall(r"SUMMARY: libFuzzer: (\w+)", told)
        broken |= {f"{kind} {len(broken)}" for kind in stopped}
        for line in sorted(set(re.findall(r"^(?:FAULT|SUMMARY|==\d+== ERROR).*", told, re.M))):
            print(f"  {line}", flush=True)
        if not counts:
            sys.exit(f"the fuzzer did not start:\n{told[-2000:]}")
    return executions, len(broken)


def table(path: Path) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        found = re.fullmatch(r"\| ([\w: -]+) \| ([\d.]+) \| ([\d,]+) \| (\d+) \| (\S+) \|", line)
        if found:
            rows[found[1]] = Row(
                float(found[2]), int(found[3].replace(",", "")), int(found[4]), found[5]
            )
    return rows


def write(path: Path, rows: dict[str, Row]) -> None:
    """The table; what stands below it stays."""
    held = path.read_text() if path.exists() else ""
    below = held.rpartition("|\n")[2] if "|\n" in held else ""
    lines = [
        f"| {name} | {row.minutes:.2f} | {row.executions:,} | {row.faults} | {row.date} |\n"
        for name, row in rows.items()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(HEADER + "".join(lines) + below)
    part.replace(path)


def queue(path: Path, minutes: float, part: float, faults: Path) -> None:
    rows = {name: Row() for name in readers()} | table(path)
    while True:
        name = min(rows, key=lambda name: rows[name].minutes)
        row = rows[name]
        left = minutes - row.minutes
        if left <= 0.05:
            return
        share = min(part, left)
        executions, broken = fuzz(name, share, faults)
        print(f"{name}: {executions:,} executions, {broken} faults", flush=True)
        row.minutes += share
        row.executions += executions
        row.faults += broken
        row.date = date.today().isoformat()
        write(path, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reader", help="one of them; see --list")
    parser.add_argument("--all", action="store_true", help="the queue of all")
    parser.add_argument("--list", action="store_true", help="names of the readers")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--slice", type=float, default=1.0, help="minutes at a time, of --all")
    parser.add_argument("--resume", type=Path, default=HERE / "results" / "fuzz_readers.md")
    parser.add_argument("--faults", type=Path, default=Path(tempfile.gettempdir()) / "fuzz-faults")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.seconds, options.faults)
    elif options.list:
        print("\n".join(readers()))
    elif options.all:
        queue(options.resume, options.minutes, options.slice, options.faults)
    elif options.reader:
        known = readers()
        named = options.reader if options.reader in known else f"log:{options.reader}"
        if named not in known:
            parser.error(f"no reader {options.reader!r}; known: {', '.join(known)}")
        executions, broken = fuzz(named, options.minutes, options.faults)
        print(f"{named}: {executions:,} executions, {broken} faults in {options.minutes} minutes")
    else:
        parser.error("name a --reader, or --all")


if __name__ == "__main__":
    main()
