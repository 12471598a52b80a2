"""Whoever may write a checkpoint, manifest included, still cannot run code by it."""

import io
import os
import pickle

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.filesystem import FileSystemReader, _StorageInfo
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from surefoot.checkpoint.metadata import UnsafeMetadataError, parse_metadata
from surefoot.errors import CheckpointError


class Touch:
    """Pickles into a program that makes a folder when it is loaded."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "code-ran"


@pytest.fixture
def folder(store, root):
    store.save(10, {"w": torch.ones(4, 3)}, {})
    store.save(20, {"w": torch.ones(4, 3)}, {})
    return root / "step-000000020"


def honest(folder):
    return FileSystemReader(folder).read_metadata()


def refused(store, told):
    into = {"w": torch.zeros(4, 3)}
    with pytest.raises(CheckpointError, match=told) as raised:
        store.load(20, into)
    assert "intact one before it is step 10" in str(raised.value)
    assert not into["w"].any()
    with pytest.raises(CheckpointError, match=r"\.metadata"):
        store.tensors(20)


def programs(marker):
    """Pickles that make ``marker`` when read without restrictions, each by another way."""
    path = str(marker).encode()
    yield "plain", pickle.dumps(Touch(marker))
    yield "inside", pickle.dumps(Metadata({"w": Touch(marker)}))
    yield "in planner data", pickle.dumps(Metadata({}, planner_data=Touch(marker)))
    yield "protocol 0", b"cposix\nmkdir\n(V" + path + b"\ntR."
    by_exec = f"__import__('os').mkdir({str(marker)!r})"
    yield "exec", b"cbuiltins\nexec\n(V" + by_exec.encode() + b"\ntR."
    # getattr is a known name, for the sake of enumerations: it must lead nowhere, neither from an
    # import nor from what is known to the globals of the module that made it.
    yield (
        "getattr",
        (
            b"cbuiltins\ngetattr\n(cbuiltins\n__import__\n(Vos\ntRVsystem\ntR(Vmkdir "
            + path
            + b"\ntR."
        ),
    )

    known = b"ctorch.distributed.checkpoint.metadata\nTensorProperties\n"
    method = attribute(known, "__setstate__")
    builtins = call(attribute(attribute(method, "__globals__"), "get"), text("__builtins__"))
    yield "globals", call(call(attribute(builtins, "get"), text("exec")), text(by_exec)) + b"."


def text(value):
    return b"V" + value.encode() + b"\n"


def call(function, *arguments):
    return function + b"(" + b"".join(arguments) + b"tR"


def attribute(value, name):
    return call(b"cbuiltins\ngetattr\n", value, text(name))


def test_these_programs_run_when_nothing_holds_them(folder, marker):
    """The control: DCP's own reader runs each of them."""
    for name, program in programs(marker):
        (folder / ".metadata").write_bytes(program)
        try:
            FileSystemReader(folder).read_metadata()
        except AttributeError:
            pass  # of what the program returned
        assert marker.exists(), name
        marker.rmdir()


def test_a_malicious_metadata_runs_nothing(store, folder, marker, reseal):
    for name, program in programs(marker):
        (folder / ".metadata").write_bytes(program)
        reseal(folder)
        store.verify(20)  # the manifest is valid: only the reading can protect
        refused(store, r"\.metadata cannot be used")
        assert not marker.exists(), name


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("torch", "load"),
        ("torch", "Tensor"),
        ("torch.distributed.checkpoint.metadata", "Metadata.__init__"),
        ("torch.distributed.checkpoint.metadata", "os"),
        ("torch.distributed.checkpoint.metadata", "BytesStorageMetadata"),
        ("pathlib", "PosixPath"),
        ("torch._utils", "_rebuild_tensor_v2"),
    ],
)
def test_names_outside_the_list_are_refused_by_name(module, name):
    program = b"\x80\x04" + b"".join(
        b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name)
    )
    with pytest.raises(
        UnsafeMetadataError, match=f"it asks for {module}.{name}".replace(".", r"\.")
    ):
        parse_metadata(program + b"\x93.", {})


def test_stand_ins_keep_nothing_from_one_file_to_the_next():
    """A pickle can set attributes of a class it was given: not of the next file's."""
    module = b"ctorch.distributed.checkpoint.metadata\nMetadata\n"
    program = b"\x80\x02" + module + b"N}Vstate\nK\x01s\x86b."
    for _ in range(2):
        with pytest.raises(UnsafeMetadataError):
            parse_metadata(program, {})
    assert not hasattr(Metadata, "state")


def test_bytes_that_dcp_would_unpickle_freely_are_refused(store, folder, marker, reseal):
    """DCP loads a BytesStorageMetadata by torch.load(weights_only=False)."""
    program = io.BytesIO()
    torch.save(Touch(marker), program)
    (folder / "__0_0.distcp").write_bytes(program.getvalue())
    metadata = honest(folder)
    metadata.state_dict_metadata = {"w": BytesStorageMetadata()}
    length = len(program.getvalue())
    metadata.storage_data = {MetadataIndex("w"): _StorageInfo("__0_0.distcp", 0, length)}
    metadata.storage_meta = None
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    reseal(folder)
    refused(store, "BytesStorageMetadata")
    assert not marker.exists()


@pytest.mark.parametrize("save", [torch.save, lambda x, f: f.write(pickle.dumps(x))])
def test_a_malicious_data_file_runs_nothing(store, folder, marker, reseal, save):
    program = io.BytesIO()
    save(Touch(marker), program)
    (folder / "__0_0.distcp").write_bytes(program.getvalue())
    metadata = honest(folder)
    (place,) = metadata.storage_data.values()
    place.offset, place.length = 0, len(program.getvalue())
    metadata.storage_meta = None
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    reseal(folder)
    into = {"w": torch.zeros(4, 3)}
    with pytest.raises(CheckpointError, match="its tensors cannot be read") as raised:
        store.load(20, into)
    assert "\n" not in str(raised.value)
    assert not marker.exists()


def changed(folder, **fields):
    metadata = honest(folder)
    (place,) = metadata.storage_data.values()
    for name, value in fields.items():
        setattr(place, name, value)
    metadata.storage_meta = None
    return metadata


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"relative_path": "../step-000000010/__0_0.distcp"}, "refers to the file"),
        ({"relative_path": "/etc/hostname"}, "refers to the file"),
        ({"relative_path": ["__0_0.distcp"]}, "cannot be used"),
        ({"offset": -1}, "bytes outside"),
        ({"length": 10**9}, "bytes outside"),
        ({"offset": 0.5}, "expected"),
        ({"transform_descriptors": ["zstd"]}, "transformation"),
    ],
)
def test_places_outside_the_checkpoint_are_refused(store, folder, reseal, fields, told):
    (folder / ".metadata").write_bytes(pickle.dumps(changed(folder, **fields)))
    reseal(folder)
    refused(store, told)


def tensor(size, *chunks):
    return TensorStorageMetadata(
        properties=TensorProperties(dtype=torch.float32),
        size=torch.Size(size),
        chunks=[ChunkStorageMetadata(torch.Size(o), torch.Size(s)) for o, s in chunks],
    )


@pytest.mark.parametrize(
    ("described", "index", "told"),
    [
        (tensor([4], ([2], [4])), MetadataIndex("w", [2]), "outside"),
        (tensor([4], ([0, 0], [4, 1])), MetadataIndex("w", [0, 0]), "outside"),
        (tensor([4], ([0], [2]), ([2], [2])), MetadataIndex("w", [0]), "no place for a part"),
        (tensor([4], ([0], [4])), MetadataIndex("w", [1]), "no tensor has"),
        (tensor([4], ([0], [4])), MetadataIndex("v", [0]), "no tensor has"),
        (tensor([4], ([0], [4])), MetadataIndex("w"), "expected"),
        (None, MetadataIndex("w", [0]), "expected TensorStorageMetadata, got NoneType"),
    ],
)
def test_descriptions_that_do_not_fit_together_are_refused(described, index, told):
    metadata = Metadata({"w": described}, storage_data={index: _StorageInfo("f", 0, 1)})
    with pytest.raises(UnsafeMetadataError, match=told):
        parse_metadata(pickle.dumps(metadata), {"f": 1})


@pytest.mark.parametrize("data", [b"", b".", b"garbage", pickle.dumps({}), pickle.dumps([1])[:-1]])
def test_what_is_no_metadata_is_refused(data):
    with pytest.raises(UnsafeMetadataError):
        parse_metadata(data, {})


def test_a_state_that_is_no_table_is_refused(store, folder, reseal):
    (folder / "state.json").write_text("[1]")
    reseal(folder)
    with pytest.raises(CheckpointError, match=r"state\.json is no table"):
        store.load(20, {"w": torch.zeros(4, 3)})
    (folder / "state.json").write_text("{")
    reseal(folder)
    with pytest.raises(CheckpointError, match=r"state\.json cannot be used"):
        store.load(20, {"w": torch.zeros(4, 3)})


def test_a_checkpoint_is_an_ordinary_dcp_one(folder):
    """Other tools for torch.distributed.checkpoint read it; no path of this machine is in it."""
    into = {"w": torch.zeros(4, 3)}
    with pytest.warns(UserWarning, match="single process"):
        dcp.load(into, checkpoint_id=folder)
    assert into["w"].tolist() == [[1.0] * 3] * 4
    assert str(folder.parent).encode() not in (folder / ".metadata").read_bytes()
