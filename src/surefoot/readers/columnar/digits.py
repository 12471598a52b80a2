"""Numbers of many rows of bytes at once, as ``float`` would read each."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Floats = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]

_SPACE, _PLUS, _MINUS, _DOT, _ZERO, _NINE = b" +-.09"
_E = (ord("E"), ord("e"))
_POWERS = tuple(10.0**k for k in range(23))
"""Powers of ten that a double holds exactly."""


def numbers(field: "Bytes") -> "tuple[Floats, Flags]":
    """The number in each row of a matrix of bytes, as ``float`` would read it, and where it could.

    Rows hold ``[spaces][sign]digits[.digits][E[sign]digits][spaces]``, points and exponents in the
    same columns. Results are correctly rounded: mantissas below 2^53, powers of ten up to 22.
    Other rows are flagged False.
    """
    import numpy as np

    columns = np.ascontiguousarray(field.T)  # a column of bytes is read as one stretch of memory
    count = columns.shape[1]
    constant = [bool((column == column[0]).all()) for column in columns]
    if all(constant):
        alone = _one(bytes(field[0]))
        return np.full(count, np.nan if alone is None else alone), np.full(count, alone is not None)
    digits = [bool((column - _ZERO <= 9).all()) for column in columns]
    part = _Part(count)
    mantissa, exponent, places = part, None, 0
    point = behind = False
    for column, same, all_digits in zip(columns, constant, digits, strict=True):
        byte = int(column[0])
        if same and byte == _DOT and not point and exponent is None:
            point = True
            part.begun = None
        elif same and byte in _E and exponent is None and part.digits:
            part = exponent = _Part(count, blanks=False)
        elif same and byte == _SPACE and part.digits and part.begun is None:
            behind = True
        elif behind:
            part.good &= column == _SPACE
        else:
            part.add(column, all_digits)
            places += int(point and exponent is None)
    good = mantissa.good & mantissa.complete() & (mantissa.value < 2**53)
    power: Any = -places
    if mantissa.digits > 18 or not mantissa.digits:
        return np.full(count, np.nan), np.zeros(count, bool)
    if exponent is not None:
        good &= exponent.good & (exponent.digits > 0) & exponent.complete()
        power = exponent.signed() - places
    value = mantissa.signed().astype(np.float64)
    if exponent is None:
        return value / _POWERS[places] if places else value, good
    good &= np.abs(power) <= 22
    scale = np.array(_POWERS)[np.minimum(np.abs(power), 22)]
    return np.where(power < 0, value / scale, value * scale), good


class _Part:
    """The digits before or behind an exponent's mark, column by column."""

    def __init__(self, count: int, *, blanks: bool = True) -> None:
        import numpy as np

        self.blanks = blanks
        self.value = np.zeros(count, np.int64)
        self.good = np.ones(count, bool)
        self.sign: Ints | None = None
        # Whether a sign or digit, and whether a digit was there; None: in every row.
        self.begun: Flags | None = np.zeros(count, bool)
        self.told: Flags | None = self.begun
        self.digits = 0

    def add(self, column: "Bytes", all_digits: bool) -> None:
        """Take the next byte of each row: a digit, or before the first one a sign or a blank."""
        import numpy as np

        if all_digits:
            self.value *= 10
            self.value += column
            self.value -= _ZERO
            self.begun = self.told = None
            self.digits += 1
            return
        number = (column >= _ZERO) & (column <= _NINE)
        if self.begun is None:
            self.good &= number
        else:
            minus = ~number & ~self.begun & (column == _MINUS)
            signed = minus | (~number & ~self.begun & (column == _PLUS))
            blank = ~number & ~self.begun & (column == _SPACE)
            self.good &= number | signed | (blank if self.blanks else False)
            if minus.any():
                self.sign = np.where(minus, -1, 1 if self.sign is None else self.sign)
            self.begun = self.begun | number | signed
            if bool(self.begun.all()):
                self.begun = None
        if self.told is not None:
            self.told = self.told | number
        self.value = self.value * 10 + np.where(number, column.astype(np.int64) - _ZERO, 0)
        self.digits += int(bool(number.any()))

    def complete(self) -> "Flags | bool":
        """Where there was a digit at all."""
        return True if self.told is None else self.told

    def signed(self) -> "Ints":
        """The whole number with its sign."""
        return self.value if self.sign is None else self.value * self.sign


def _one(text: bytes) -> float | None:
    try:
        return None if b"_" in text else float(text)
    except ValueError:
        return None
