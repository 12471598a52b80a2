"""What a JSON document weighs once it is decoded: a small file may hold millions of empty lists."""

LIGHT = 16 << 20
"""Bytes of a document that is not weighed."""
MOST = 3 << 30
"""Bytes of memory that a decoded document may take."""


def too_heavy(document: bytes) -> bool:
    """Whether a JSON document would take more than :data:`MOST` bytes of memory, by its marks."""
    if len(document) <= LIGHT:
        return False
    marks = {b"[": 72, b"{": 240, b",": 40, b'"': 30}
    return sum(size * document.count(mark) for mark, size in marks.items()) > MOST
