"""Date and time in fixed columns, many at once."""

from typing import TYPE_CHECKING

from surefoot.readers.columnar.digits import numbers

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Flags = npt.NDArray[np.bool_]
    Floats = npt.NDArray[np.float64]


def times(stamps: "Bytes") -> "tuple[Floats, Flags]":
    """Seconds since 1970 of date and time in fixed columns, and where they are such."""
    import numpy as np

    shape = np.frombuffer(b"0000-00-00T00:00:00", np.uint8)
    clock = stamps[:, :19].copy()
    digits = shape == ord("0")
    good = ((clock[:, digits] >= ord("0")) & (clock[:, digits] <= ord("9"))).all(axis=1)
    good &= (clock[:, 4] == ord("-")) & (clock[:, 7] == ord("-"))
    good &= (clock[:, 13] == ord(":")) & (clock[:, 16] == ord(":"))
    clock[:, 10] = ord("T")
    year = clock[:, :4].astype(int) @ [1000, 100, 10, 1] - 53328
    month, day, hour, minute, second = (
        clock[:, i : i + 2].astype(int) @ [10, 1] - 528 for i in (5, 8, 11, 14, 17)
    )
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    lengths = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    good &= (month >= 1) & (month <= 12) & (year >= 1)
    length = lengths[np.clip(month, 1, 12) - 1] + (leap & (month == 2))
    good &= (day >= 1) & (day <= length) & (hour < 24) & (minute < 60) & (second < 60)
    # Days since 1970 by the calendar that begins in March (Howard Hinnant, days_from_civil).
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    seconds = (days * 86400 + hour * 3600 + minute * 60 + second).astype(np.float64)
    if stamps.shape[1] > 20:
        part = stamps[:, 20:]
        fraction, told = numbers(part)
        good &= told
        seconds = seconds + fraction / 10.0 ** part.shape[1]
    return seconds, good
