"""A column with gaps handed to polars where it lies, without a copy: the Arrow C data interface.

polars makes a series of a numpy array without copying it, but only if no value is missing. An Arrow
array has a bit a value for that. Its C interface is two small structs
(https://arrow.apache.org/docs/format/CDataInterface.html), which fit here; pyarrow would be a
dependency forty times the size of this package.
"""

import ctypes
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_NULLABLE = 2
_FORMATS = {"float64": b"g", "int64": b"l", "int32": b"i"}


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


_FREE_SCHEMA = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))
_FREE_ARRAY = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))
_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", _FREE_SCHEMA),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", _FREE_ARRAY),
    ("private_data", ctypes.c_void_p),
]
_held: dict[int, object] = {}
"""What arrays that were handed over point to, until they are released."""


@_FREE_SCHEMA  # type: ignore[untyped-decorator]
def _free_schema(schema: Any) -> None:
    schema.contents.release = _FREE_SCHEMA()


@_FREE_ARRAY  # type: ignore[untyped-decorator]
def _free_array(array: Any) -> None:
    _held.pop(array.contents.private_data, None)
    array.contents.release = _FREE_ARRAY()


class Gapped:
    """Numbers of which some are missing, as an object that ``polars.Series`` takes.

    Args:
        values: float64, int64 or int32; what stands where a value is missing means nothing.
        valid: a bit a value, the lowest first (``numpy.packbits(..., bitorder="little")``).
        missing: how many are.
    """

    def __init__(
        self, values: "npt.NDArray[Any]", valid: "npt.NDArray[np.uint8]", missing: int
    ) -> None:
        self._values, self._valid, self._missing = values, valid, missing
        self._structs: Any = None

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """The two structs, as capsules; whoever takes them releases them."""
        schema = _Schema(
            format=_FORMATS[str(self._values.dtype)],
            name=b"",
            flags=_NULLABLE,
            release=_free_schema,
        )
        buffers = (ctypes.c_void_p * 2)(self._valid.ctypes.data, self._values.ctypes.data)
        array = _Array(
            length=len(self._values),
            null_count=self._missing,
            n_buffers=2,
            buffers=buffers,
            release=_free_array,
        )
        array.private_data = ctypes.addressof(array)
        _held[ctypes.addressof(array)] = (self._values, self._valid, buffers, array)
        self._structs = schema, array
        return _capsule(schema, b"arrow_schema"), _capsule(array, b"arrow_array")


def _capsule(struct: Any, name: bytes) -> object:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(struct), name, None)
