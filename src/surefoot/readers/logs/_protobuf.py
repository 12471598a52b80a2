"""Protocol buffers as they lie on the wire: fields of a message, without a schema and unpacked."""

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Buffer = bytes | bytearray | memoryview


class Malformed(ValueError):
    """The bytes are no message."""


def varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """The unsigned number at ``at``, and where what follows it begins.

    Raises:
        Malformed: if it does not end before ``end``, or in ten bytes.
    """
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise Malformed(f"a number that does not end at byte {at}")


def signed(value: int) -> int:
    """An int64 or int32 field: two's complement in 64 bits."""
    return value - (1 << 64) if value >> 63 else value


def fields(data: Buffer, at: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(number, wire type, begin, end, value) of each field of the message ``data[at:end]``.

    ``begin`` and ``end`` are where its bytes lie, without the tag and the length; ``value`` is the
    number of a :data:`VARINT`, else 0.

    Raises:
        Malformed: if something reaches beyond ``end``, or is of no wire type in use.
    """
    while at < end:
        tag, at = varint(data, at, end)
        wire, number, value = tag & 7, tag >> 3, 0
        if not number:
            raise Malformed(f"field 0 at byte {at}")
        begin = at
        if wire == VARINT:
            value, at = varint(data, at, end)
        elif wire == BYTES:
            length, begin = varint(data, at, end)
            at = begin + length
        elif wire == FIXED64:
            at += 8
        elif wire == FIXED32:
            at += 4
        else:
            raise Malformed(f"wire type {wire} at byte {at}")
        if at > end:
            raise Malformed(f"field {number} reaches beyond the message")
        yield number, wire, begin, at, value


def text(data: Buffer, begin: int, end: int) -> str:
    """A string field; bytes that are no UTF-8 are replaced."""
    return bytes(data[begin:end]).decode("utf-8", "replace")
