"""Names, counts and sizes as messages say them; for recipes and for the data that they name."""

LONGEST = 60
"""Characters of a value that a message shows."""


def printable(text: object) -> str:
    r"""Text in which control characters and lone surrogates are escaped as in Python.

    A file name may hold an escape sequence that steers the terminal, or bytes that are no UTF-8,
    which cannot be printed at all: ``\x1b``, ``\udcff``.
    """
    found = str(text)
    if found.isprintable():
        return found
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in found)


def short(text: str) -> str:
    """The text, cut where it is longer than 60 characters."""
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def count(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size(number: int) -> str:
    """Bytes for people: ``1 byte``, ``12 bytes``, ``1.2 kB``, ``12.6 MB``, ``340 GB``."""
    if number < 1000:
        return count(number, "byte")
    left = number / 1000
    # 999.5 would be rounded to 1e+03.
    for unit in ("kB", "MB", "GB", "TB"):
        if left < 999.5:
            return f"{left:.3g} {unit}"
        left /= 1000
    return f"{left:.3g} PB"
