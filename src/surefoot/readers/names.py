"""From the keys that trainers print to the catalogue's signals and units.

A key is taken apart: ``elapsed time per iteration (ms)`` has the unit ``ms`` and the stem
``elapsed_time_per_iteration``; the stem is looked up. What is not found keeps its own stem as the
name of its column, so that no field is lost.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from surefoot.readers.aliases import ALIASES, LOCALISED, PLACES, STRIPPED


@dataclass(frozen=True, slots=True)
class Name:
    """What a key stands for.

    Attributes:
        column: name of the signal; ``signal@place`` for a value of one layer or tensor.
        factor: the printed number times this is in the catalogue's unit.
        key: as the trainer printed it.
        known: whether the key was recognised; else ``column`` is only its cleaned form.
    """

    column: str
    factor: float
    key: str
    known: bool


_UNIT = re.compile(r"\s*[\(\[]([^()\[\]]{1,24})[\)\]]\s*$")
_TRAILING = re.compile(r"[ _]in[ _](s|ms|seconds|secs)$")
_OTHER = re.compile(r"[^0-9a-z_@.]+")
_TIMES = {
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "ms": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "min": 60.0,
}  # fmt: skip
_SIZES = {
    "b": 1.0, "byte": 1.0, "bytes": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9,
    "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30,
}  # fmt: skip
_PER_DEVICE = re.compile(r"(?:/|per_?)(?:gpu|device|npu|chip)", re.IGNORECASE)


class Names:
    """Names of one file's keys.

    Args:
        own: the format's own keys, before the common table: key -> (signal, factor).
        mapping: what the user said, before all: signal -> key.
        log_base: of the logarithm in which losses are printed; None for nats.
    """

    def __init__(
        self,
        own: Mapping[str, tuple[str, float]] | None = None,
        mapping: Mapping[str, str] | None = None,
        log_base: float | None = None,
    ) -> None:
        self._own = dict(own or {})
        self._mapped = {key: signal for signal, key in (mapping or {}).items()}
        self._log = math.log(log_base) if log_base else 1.0
        self._known: dict[str, Name] = {}

    def of(self, key: str) -> Name:
        """The name of a key."""
        name = self._known.get(key)
        if name is None:
            name = self._find(key)
            if key not in self._mapped and name.column in self._mapped.values():
                # The user named another key of this signal: this one keeps a name of its own.
                stem = split_unit(key)[0] or "value"
                column = f"{stem}_2" if stem == name.column else stem
                name = Name(column, name.factor, key, False)
            self._known[key] = name
        return name

    @property
    def used(self) -> dict[str, Name]:
        """Every key asked for so far, and its name."""
        return dict(self._known)

    def _find(self, key: str) -> Name:
        stem, unit = split_unit(key)
        if key in self._mapped:
            signal = self._mapped[key]
            return Name(signal, factor_of(signal, unit), key, True)
        if key in self._own:
            signal, factor = self._own[key]
            return self._nats(Name(signal, factor, key, True))
        for pattern, signal in PLACES:
            found = pattern.fullmatch(key)
            if found is not None:
                kind = signal.format(*[g.replace("/", "_") for g in found.groups()[1:]])
                return Name(f"{kind}@{found[1]}", 1.0, key, True)
        common = lookup(stem)
        if common is not None:
            signal = common
            if signal == "tokens_per_second" and (
                _PER_DEVICE.search(key) or (unit and _PER_DEVICE.search(unit))
            ):
                signal = "tokens_per_second_per_device"
            return self._nats(Name(signal, factor_of(signal, unit), key, True))
        column = stem or "value"
        if column in ("step", "attempt"):  # columns of the table itself
            column = f"{column}_told"
        if unit in _TIMES:
            return Name(column, _TIMES[unit], key, False)
        if unit in _SIZES:
            return Name(column, _SIZES[unit], key, False)
        return Name(column, 0.01 if unit == "%" else 1.0, key, False)

    def _nats(self, name: Name) -> Name:
        if self._log != 1.0 and name.column in ("loss", "validation_loss", "nll_loss"):
            return Name(name.column, name.factor * self._log, name.key, name.known)
        return name


def split_unit(key: str) -> tuple[str, str]:
    """``elapsed time per iteration (ms)`` -> (``elapsed_time_per_iteration``, ``ms``)."""
    unit = ""
    found = _UNIT.search(key)
    if found is not None:
        unit, key = found[1].strip().lower(), key[: found.start()]
    else:
        trailing = _TRAILING.search(key)
        if trailing is not None:
            unit, key = trailing[1], key[: trailing.start()]
    stem = key.strip()
    stem = LOCALISED.get(stem, stem).lower()
    stem = _OTHER.sub("_", stem).strip("_.")
    if not unit:
        head, _, last = stem.rpartition("_")
        if head and last in ("ms", "bytes", "gib", "mib", "gb", "mb"):
            unit, stem = last, head
        elif head and last in ("s", "secs", "seconds") and "per" not in head.split("_"):
            if stem not in ALIASES:  # tok/s is a rate
                unit, stem = last, head
    return stem, unit


def lookup(stem: str) -> str | None:
    """The signal of a stem, with what trainers put before it taken off; None if unknown."""
    signal = ALIASES.get(stem)
    if signal is not None:
        return signal
    for prefix in STRIPPED:
        if stem.startswith(prefix) and len(stem) > len(prefix):
            signal = ALIASES.get(stem[len(prefix) :])
            if signal is not None:
                return signal
    return None


def factor_of(signal: str, unit: str) -> float:
    """From the printed unit to the catalogue's."""
    if unit in _TIMES:
        return _TIMES[unit]
    if unit in _SIZES and signal.startswith("memory"):
        return _SIZES[unit]
    return 0.01 if unit == "%" else 1.0
