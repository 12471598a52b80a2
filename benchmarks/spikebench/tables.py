"""Signal tables in few bytes: rounded floats, differences in time, bytes by place, zstd.

A table holds the rows of one run in order. A number keeps as many mantissa bits as its signal
deserves (the loss 16, other scalars 10, values of places 7: 0.4 %, far below their noise); NaN and
infinities stay what they are, and an absent number stays absent.
"""

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import zstandard

from surefoot.errors import UsageError
from surefoot.records import CATALOGUE, StepRecord

MAGIC = b"SPIKEB01"
BITS = {"loss": 16, "validation_loss": 16, "learning_rate": 20}
SCALAR_BITS, PLACE_BITS = 10, 7
EXACT = 23
INFINITE = 0x7F800000
INTEGERS = ("data_phase",)
"""Integer signals beside those that the catalogue calls so."""

Places = Mapping[str, tuple[str, ...]]


def rounded(values: npt.NDArray[np.float32], bits: int) -> npt.NDArray[np.float32]:
    """``values`` with ``bits`` mantissa bits, to nearest; non-finite ones unchanged."""
    drop = EXACT - bits
    raw = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    if drop:
        up = (raw + (1 << (drop - 1))) >> drop << drop
        # The largest floats would become infinite: they are rounded down.
        raw = np.where((up & INFINITE) == INFINITE, raw >> drop << drop, up)
    kept = np.ascontiguousarray(raw.astype(np.uint32)).view(np.float32)
    return np.where(np.isfinite(values), kept, values).astype(np.float32)


def is_integer(name: str) -> bool:
    """Whether a scalar is a counter."""
    return name in INTEGERS or (name in CATALOGUE and CATALOGUE[name].integer)


def write(path: Path, records: Iterable[StepRecord], places: Places) -> None:
    """Write the records of one run; the file appears whole or not at all."""
    rows = list(records)
    columns: list[dict[str, object]] = []
    blocks: list[bytes] = []

    def put(name: str, kind: str, data: npt.NDArray[np.generic], mask: object, bits: int) -> None:
        present = np.asarray(mask, dtype=bool)
        packed = b"" if present.all() else np.packbits(present).tobytes()
        body = _shuffled(data, bits)
        columns.append(
            {"name": name, "kind": kind, "bits": bits, "mask": len(packed), "bytes": len(body)}
        )
        blocks.extend((packed, body))

    everywhere = np.ones(len(rows), dtype=bool)
    put("step", "row", np.array([r.step for r in rows], np.int64), everywhere, 0)
    put("attempt", "row", np.array([r.attempt for r in rows], np.int64), everywhere, 0)
    for name in sorted({name for r in rows for name in r.values}):
        mask = [name in r.values for r in rows]
        found = [r.values[name] for r in rows if name in r.values]
        if is_integer(name):
            put(name, "integer", np.array(found, np.int64), mask, 0)
        else:
            bits = BITS.get(name, SCALAR_BITS)
            put(name, "scalar", rounded(np.array(found, np.float32), bits), mask, bits)
    for name, names in places.items():
        mask = [name in r.places for r in rows]
        array = np.array([r.places[name] for r in rows if name in r.places], np.float32)
        array = array.reshape(-1, len(names)).T
        put(name, "places", rounded(np.ascontiguousarray(array), PLACE_BITS), mask, PLACE_BITS)
    head = {
        "rows": len(rows),
        "columns": columns,
        "places": {k: list(v) for k, v in places.items()},
    }
    header = json.dumps(head).encode()
    body = zstandard.ZstdCompressor(level=19).compress(
        struct.pack("<I", len(header)) + header + b"".join(blocks)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".tmp")
    part.write_bytes(MAGIC + body)
    part.replace(path)


def read(path: Path) -> tuple[list[StepRecord], dict[str, tuple[str, ...]]]:
    """The records of a table, and the names of its places."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    if raw[: len(MAGIC)] != MAGIC:
        raise UsageError(f"{path}: no signal table of SpikeBench")
    data = zstandard.ZstdDecompressor().decompress(raw[len(MAGIC) :])
    (length,) = struct.unpack_from("<I", data)
    head = json.loads(data[4 : 4 + length])
    places = {name: tuple(names) for name, names in head["places"].items()}
    count, at = int(head["rows"]), 4 + length
    rows: list[tuple[dict[str, float | int], dict[str, npt.NDArray[np.float32]]]]
    rows = [({}, {}) for _ in range(count)]
    own: dict[str, list[int]] = {}
    for column in head["columns"]:
        name, kind = column["name"], column["kind"]
        mask = np.ones(count, dtype=bool)
        if column["mask"]:
            mask = np.unpackbits(np.frombuffer(data, np.uint8, column["mask"], at))[:count] > 0
        at += column["mask"]
        block = data[at : at + column["bytes"]]
        at += column["bytes"]
        there = np.flatnonzero(mask)
        width = len(places[name]) if kind == "places" else 1
        values = _unshuffled(block, column["bits"], width, len(there))
        if kind == "row":
            own[name] = values[0].tolist()
        elif kind == "places":
            for index, row in enumerate(there):
                rows[row][1][name] = values[:, index].astype(np.float32)
        else:
            for row, value in zip(there, values[0].tolist(), strict=True):
                rows[row][0][name] = value
    records = [
        StepRecord(step=step, attempt=attempt, values=values, places=arrays)
        for step, attempt, (values, arrays) in zip(own["step"], own["attempt"], rows, strict=True)
    ]
    return records, places


def _shuffled(data: npt.NDArray[np.generic], bits: int) -> bytes:
    """Differences in time, as bytes of one significance after the other."""
    rows = np.atleast_2d(data)
    raw = rows.view(np.uint32).astype(np.int64) >> (EXACT - bits) if bits else rows.astype(np.int64)
    # Non-finite payloads below the kept bits are not kept: a NaN stays one as its top bit is set.
    steps = np.diff(raw, axis=1, prepend=0)
    coded = np.where(steps >= 0, steps << 1, (-steps << 1) - 1).astype(np.uint64)
    return np.ascontiguousarray(coded.reshape(-1).view(np.uint8).reshape(-1, 8).T).tobytes()


def _unshuffled(block: bytes, bits: int, width: int, count: int) -> npt.NDArray[np.generic]:
    planes = np.frombuffer(block, np.uint8).reshape(8, -1)
    coded = np.ascontiguousarray(planes.T).view(np.uint64).reshape(width, count)
    steps = np.where(
        coded & np.uint64(1),
        -((coded + np.uint64(1)) >> np.uint64(1)).astype(np.int64),
        (coded >> np.uint64(1)).astype(np.int64),
    )
    raw = np.cumsum(steps, axis=1)
    if not bits:
        return raw
    return (raw << (EXACT - bits)).astype(np.uint32).view(np.float32)


def thinned(records: Iterable[StepRecord], every: int) -> Iterator[StepRecord]:
    """Only the records of step 1 and of multiples of ``every``, as a rarely logging run has."""
    return (r for r in records if r.step == 1 or r.step % every == 0)
