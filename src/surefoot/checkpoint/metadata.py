"""DCP's ``.metadata`` without running what it says.

torch.distributed.checkpoint describes its data files in a pickle, and a pickle is a program. Here
it is read by an unpickler that knows a fixed list of names, each replaced by an inert stand-in that
can only hold what it was given; the result is then checked item by item and rebuilt as DCP's own
classes. So neither the allow-list nor torch's classes have to be trusted with hostile input.
"""

import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

_METADATA = "torch.distributed.checkpoint.metadata"

_RECORDS = (
    (_METADATA, "Metadata"),
    (_METADATA, "TensorStorageMetadata"),
    (_METADATA, "TensorProperties"),
    (_METADATA, "ChunkStorageMetadata"),
    (_METADATA, "MetadataIndex"),
    (_METADATA, "StorageMeta"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
)
"""Classes with content. BytesStorageMetadata is left out on purpose: DCP loads what it describes
with an unrestricted ``torch.load``."""

_DTYPES: Mapping[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        "float64 float32 float16 bfloat16 complex64 complex128 bool "
        "uint8 uint16 uint32 uint64 int8 int16 int32 int64 "
        "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
    ).split()
    if hasattr(torch, name)
}


class UnsafeMetadataError(Exception):
    """The pickle asks for something outside the list, or does not describe a checkpoint."""


class _Record:
    """Stand-in for a class of DCP: holds the pickled state, does nothing."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _size(items: Any = ()) -> tuple[Any, ...]:
    return tuple(items)


def _ignored(*_: Any) -> None:
    """Stand-in for what carries no information here: layouts and memory formats."""


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        # New types for each file: even what a pickle writes onto a class is gone afterwards.
        known: dict[tuple[str, str], Any] = {key: type(key[1], (_Record,), {}) for key in _RECORDS}
        known.update({("torch", name): dtype for name, dtype in _DTYPES.items()})
        known["torch", "Size"] = _size
        known["torch.serialization", "_get_layout"] = _ignored
        known[_METADATA, "_MEM_FORMAT_ENCODING"] = _ignored
        # Python 3.11.0 and 3.11.1 pickle an enumeration's member as getattr(class, name).
        known["builtins", "getattr"] = _ignored
        self._known = known

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._known[module, name]
        except KeyError:
            raise UnsafeMetadataError(f"it asks for {module}.{name}") from None


def parse_metadata(data: bytes, sizes: Mapping[str, int]) -> Metadata:
    """Read the bytes of a ``.metadata`` file.

    Args:
        data: the content of ``.metadata``.
        sizes: the data files it may refer to, with their sizes in bytes.

    Returns:
        DCP's Metadata, holding tensors only.

    Raises:
        UnsafeMetadataError: if it asks for anything outside the list, refers to other files or
            places than ``sizes`` allows, or is not a DCP description of tensors.
    """
    try:
        return _rebuild(_Unpickler(data).load(), sizes)
    except UnsafeMetadataError:
        raise
    except Exception as error:  # a hostile pickle can raise anything from inside the unpickler
        raise UnsafeMetadataError(f"it is no DCP metadata ({type(error).__name__})") from error


def _rebuild(root: Any, sizes: Mapping[str, int]) -> Metadata:
    fields = _state(root, "Metadata")
    tensors = {
        _expect(name, str): _tensor(described)
        for name, described in _expect(fields["state_dict_metadata"], dict).items()
    }
    parts = {name: {chunk.offsets for chunk in tensor.chunks} for name, tensor in tensors.items()}
    places = {}
    for key, info in _expect(fields["storage_data"], dict).items():
        index = _state(key, "MetadataIndex")
        name, offset = _expect(index["fqn"], str), _shape(index.get("offset"))
        if offset not in parts.get(name, ()):
            raise UnsafeMetadataError(f"it stores a part of {name!r} that no tensor has")
        places[MetadataIndex(name, offset)] = _place(info, sizes)
    for name, offsets in parts.items():
        if any(MetadataIndex(name, offset) not in places for offset in offsets):
            raise UnsafeMetadataError(f"it has no place for a part of {name!r}")
    return Metadata(
        state_dict_metadata=dict(tensors), storage_data=places, storage_meta=StorageMeta()
    )


def _tensor(described: Any) -> TensorStorageMetadata:
    fields = _state(described, "TensorStorageMetadata")
    properties = _state_of(fields["properties"], "TensorProperties")
    dtype = _expect(_expect(properties, tuple)[0], torch.dtype)
    size = _shape(fields["size"])
    chunks = []
    for item in _expect(fields["chunks"], list):
        chunk = _state(item, "ChunkStorageMetadata")
        offsets, sizes = _shape(chunk["offsets"]), _shape(chunk["sizes"])
        inside = len(offsets) == len(sizes) == len(size) and all(
            offset + length <= whole
            for offset, length, whole in zip(offsets, sizes, size, strict=True)
        )
        if not inside:
            raise UnsafeMetadataError(f"a part {sizes} at {offsets} lies outside {size}")
        chunks.append(ChunkStorageMetadata(offsets=offsets, sizes=sizes))
    return TensorStorageMetadata(properties=TensorProperties(dtype=dtype), size=size, chunks=chunks)


def _place(info: Any, sizes: Mapping[str, int]) -> _StorageInfo:
    fields = _state(info, "_StorageInfo")
    path, offset, length = (fields[key] for key in ("relative_path", "offset", "length"))
    if fields.get("transform_descriptors"):
        raise UnsafeMetadataError("it asks for a transformation of the data")
    if path not in sizes:
        raise UnsafeMetadataError(f"it refers to the file {path!r}")
    if min(_expect(offset, int), _expect(length, int)) < 0 or offset + length > sizes[path]:
        raise UnsafeMetadataError(f"it refers to bytes outside {path}")
    return _StorageInfo(relative_path=path, offset=offset, length=length)


def _state_of(value: Any, name: str) -> Any:
    if not (isinstance(value, _Record) and type(value).__name__ == name):
        raise UnsafeMetadataError(f"expected {name}, got {type(value).__name__}")
    return value.state


def _state(value: Any, name: str) -> dict[str, Any]:
    state: dict[str, Any] = _expect(_state_of(value, name), dict)
    return state


def _shape(value: Any) -> torch.Size:
    items = _expect(value, tuple)
    if not all(type(item) is int and item >= 0 for item in items):
        raise UnsafeMetadataError(f"{items} is no shape")
    return torch.Size(items)


def _expect(value: Any, kind: Callable[..., Any]) -> Any:
    if type(value) is not kind:
        raise UnsafeMetadataError(f"expected {kind}, got {type(value).__name__}")
    return value
