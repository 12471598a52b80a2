"""One record of a TensorBoard event file: step, time, scalars, and where in it they lie."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct

from surefoot.readers.logs._protobuf import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    Buffer,
    Malformed,
    fields,
    signed,
    text,
    varint,
)

_FLOATS = {"<f4": Struct("<f"), "<f8": Struct("<d")}
_CONTENT = {
    1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 5: "<i2", 6: "i1", 9: "<i8", 10: "u1",
    17: "<u2", 19: "<f2", 22: "<u4", 23: "<u8",
}  # fmt: skip
"""TensorFlow's numbers of types (DT_FLOAT, ...) as numpy names; 14 is bfloat16, which it lacks."""
BFLOAT16 = 14
_LISTS = {5: "<f4", 6: "<f8"}
_COUNTS = frozenset((7, 10, 11, 13, 16, 17))
"""Lists of a TensorProto that hold varints: int_val, int64_val, bool_val, half_val, uint*_val."""


@dataclass(slots=True)
class Scalar:
    """A number under a tag.

    Attributes:
        kind: numpy name of how it lies at ``begin``; None if it must be decoded record by record.
    """

    tag: str
    value: float
    begin: int
    kind: str | None


@dataclass(slots=True)
class Parsed:
    """One event.

    Attributes:
        step_begin: of the step's bytes, to ``step_end``; both 0 if there are none (step 0).
        time_begin: of the 8 bytes of the time; -1 if there are none.
        first_tag: where the first tag begins.
    """

    step: int = 0
    step_begin: int = 0
    step_end: int = 0
    time: float = math.nan
    time_begin: int = -1
    first_tag: int = 0
    scalars: list[Scalar] = field(default_factory=list)

    @property
    def fixed(self) -> bool:
        """Whether every number lies where its like lies in records with the same other bytes."""
        return bool(self.scalars) and all(scalar.kind for scalar in self.scalars)


def parse(data: Buffer, begin: int, end: int, others: set[str]) -> Parsed:
    """The event that lies in ``data[begin:end]``.

    Tags that say they hold something else than scalars are added to ``others``, and are left out
    from then on: only the first value of a tag need say what it is.

    Raises:
        Malformed: if it is no message.
    """
    event = Parsed()
    for number, wire, at, stop, value in fields(data, begin, end):
        if number == 1 and wire == FIXED64:
            event.time, event.time_begin = _FLOATS["<f8"].unpack_from(data, at)[0], at
        elif number == 2 and wire == VARINT:
            event.step, event.step_begin, event.step_end = signed(value), at, stop
        elif number == 5 and wire == BYTES:
            for inner, kind, first, last, _ in fields(data, at, stop):
                if inner == 1 and kind == BYTES:
                    _value(data, first, last, others, event)
    return event


def _value(data: Buffer, begin: int, end: int, others: set[str], event: Parsed) -> None:
    """A Summary.Value."""
    tag, plugin = "", ""
    simple, tensor = -1, (0, 0)
    other = False
    for number, wire, at, stop, _ in fields(data, begin, end):
        if number == 1 and wire == BYTES:
            tag = text(data, at, stop)
            event.first_tag = event.first_tag or at
        elif number == 2 and wire == FIXED32:
            simple = at
        elif number == 8 and wire == BYTES:
            tensor = (at, stop)
        elif number == 9 and wire == BYTES:
            plugin = _plugin(data, at, stop) or plugin
        elif number in (3, 4, 5, 6):
            other = True
    if plugin not in ("", "scalars"):
        others.add(tag)
    if not tag or other or tag in others:
        return
    if simple >= 0:
        value = _FLOATS["<f4"].unpack_from(data, simple)[0]
        event.scalars.append(Scalar(tag, value, simple, "<f4"))
    elif tensor[1]:
        found = _tensor(data, *tensor)
        if found is not None:
            event.scalars.append(Scalar(tag, *found))


def _plugin(data: Buffer, begin: int, end: int) -> str:
    for number, wire, at, stop, _ in fields(data, begin, end):
        if number == 1 and wire == BYTES:
            for inner, kind, first, last, _ in fields(data, at, stop):
                if inner == 1 and kind == BYTES:
                    return text(data, first, last)
    return ""


def _tensor(data: Buffer, begin: int, end: int) -> tuple[float, int, str | None] | None:
    """The number of a TensorProto with one element, as ``(value, begin, kind)``; else None."""
    kind, size = 0, 1
    content: tuple[int, int] | None = None
    found: list[tuple[float, int, str | None]] = []
    for number, wire, at, stop, value in fields(data, begin, end):
        if number == 1 and wire == VARINT:
            kind = value
        elif number == 2 and wire == BYTES:
            size = _elements(data, at, stop)
        elif number == 4 and wire == BYTES and stop > at:
            content = (at, stop)
        elif number in _LISTS and wire in (BYTES, FIXED32, FIXED64):
            name = _LISTS[number]
            width = _FLOATS[name].size
            if (stop - at) % width:
                raise Malformed(f"a list of numbers of {stop - at} bytes at byte {at}")
            if stop - at == width:
                found.append((_FLOATS[name].unpack_from(data, at)[0], at, name))
            elif stop > at:
                return None
        elif number in _COUNTS and wire == VARINT:
            found.append((_whole(value, kind), at, None))
        elif number in _COUNTS and wire == BYTES:
            for value, where in _packed(data, at, stop):
                found.append((_whole(value, kind), where, None))
                if len(found) > 1:
                    return None
    if size != 1 or len(found) > 1 or (kind not in _CONTENT and kind != BFLOAT16):
        return None
    if content is not None:
        return _of_content(data, *content, kind)
    # TensorFlow leaves out what is zero.
    return found[0] if found else (0.0, begin, None)


def _of_content(
    data: Buffer, begin: int, end: int, kind: int
) -> tuple[float, int, str | None] | None:
    import numpy as np

    raw = bytes(data[begin:end])
    if kind == BFLOAT16:
        return (_bfloat16(int.from_bytes(raw, "little")), begin, None) if len(raw) == 2 else None
    name = _CONTENT[kind]
    if len(raw) != np.dtype(name).itemsize:
        return None
    return float(np.frombuffer(raw, name)[0]), begin, name


def _elements(data: Buffer, begin: int, end: int) -> int:
    size = 1
    for number, wire, at, stop, value in fields(data, begin, end):
        if number == 2 and wire == BYTES:
            length = 0
            for inner, kind, _, _, told in fields(data, at, stop):
                if inner == 1 and kind == VARINT:
                    length = signed(told)
            size *= length
        elif number == 3 and value:
            return 0  # unknown rank
    return size


def _packed(data: Buffer, begin: int, end: int) -> Iterator[tuple[int, int]]:
    at = begin
    while at < end:
        where = at
        value, at = varint(data, at, end)
        yield value, where


def _whole(value: int, kind: int) -> float:
    """A number of a list of varints: whole, or the bits of a 16-bit float."""
    if kind == 19:
        import numpy as np

        return float(np.uint16(value & 0xFFFF).view(np.float16))
    if kind == BFLOAT16:
        return _bfloat16(value & 0xFFFF)
    return float(value if kind == 23 else signed(value))


def _bfloat16(bits: int) -> float:
    value: float = _FLOATS["<f4"].unpack((bits << 16).to_bytes(4, "little"))[0]
    return value
