"""A checkpoint is what was written, or it is refused by the name of the file that is not."""

import dataclasses
import json
import shutil

import pytest
import torch
import torch.distributed.checkpoint as dcp

from surefoot.checkpoint import CheckpointStore
from surefoot.checkpoint.manifest import MANIFEST, _digest, _dump, read_manifest
from surefoot.errors import CheckpointError

FILES = [".metadata", "__0_0.distcp", "state.json", "manifest.json"]


@pytest.fixture
def saved(store, make_tensors):
    """Intact checkpoints 10, 20 and 30, and tensors to load into."""
    for step in (10, 20, 30):
        store.save(step, make_tensors(step), {"step": step})
    return {name: torch.zeros_like(tensor) for name, tensor in make_tensors(0).items()}


def flip(path, position, bit=0):
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def untouched(tensors):
    return all(not tensor.any() for tensor in tensors.values())


def test_these_are_all_files(saved, root):
    assert sorted(p.name for p in (root / "step-000000030").iterdir()) == sorted(FILES)


def test_dcp_alone_would_not_notice(saved, root, make_tensors):
    """The control: a flipped bit in the middle of the data, and DCP loads it without a word."""
    name = "random.rank0.torch"
    intact = make_tensors(30)[name]
    path = root / "step-000000030" / "__0_0.distcp"
    flip(path, path.read_bytes().index(intact.numpy().tobytes()) + 5, bit=4)
    into = {name: torch.zeros_like(intact)}
    with pytest.warns(UserWarning, match="single process"):
        dcp.load(into, checkpoint_id=path.parent)
    assert (into[name] ^ intact).tolist() == [0] * 5 + [16] + [0] * 34


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("where", [0.0, 0.25, 0.5, 0.8, 1.0])
def test_a_flipped_bit_is_refused_by_file_name(saved, store, root, name, where):
    path = root / "step-000000030" / name
    flip(path, int(where * (path.stat().st_size - 1)), bit=int(where * 7))
    for attempt in (lambda: store.verify(30), lambda: store.load(30, saved)):
        with pytest.raises(CheckpointError, match=name.replace(".", r"\.")) as raised:
            attempt()
        assert "the newest intact one before it is step 20" in str(raised.value)
        assert "\n" not in str(raised.value)
    assert untouched(saved)
    reports = []
    assert store.resumable(reports.append) == 20
    assert len(reports) == 1
    assert name in reports[0]
    assert store.load(20, saved) == {"step": 20}


def test_every_bit_of_the_manifest_counts(saved, root):
    path = root / "step-000000030" / MANIFEST
    intact = path.read_bytes()
    for position in range(0, len(intact), 3):
        flip(path, position, bit=position % 8)
        with pytest.raises(CheckpointError, match=r"manifest\.json"):
            read_manifest(path.parent)
        path.write_bytes(intact)
    read_manifest(path.parent)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_refused_by_name(saved, store, root, name):
    (root / "step-000000030" / name).unlink()
    with pytest.raises(CheckpointError, match=rf"{name} is missing.*intact one .* step 20"):
        store.load(30, saved)
    assert store.resumable() == 20


@pytest.mark.parametrize("name", FILES)
def test_a_torn_file_is_refused_by_name(saved, store, root, name):
    path = root / "step-000000030" / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=name):
        store.load(30, saved)


def test_an_extra_file_is_refused_by_name(saved, store, root):
    (root / "step-000000030" / "__9_0.distcp").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"__9_0\.distcp does not belong"):
        store.load(30, saved)


def test_what_is_no_plain_file_is_refused_by_name(saved, store, root):
    folder = root / "step-000000030"
    moved = root.parent / "elsewhere"
    shutil.move(folder / "__0_0.distcp", moved)
    (folder / "__0_0.distcp").symlink_to(moved)
    with pytest.raises(CheckpointError, match=r"__0_0\.distcp is not a plain file"):
        store.load(30, saved)


def test_sizes_are_compared_before_contents(saved, store, root, monkeypatch):
    path = root / "step-000000030" / "__0_0.distcp"
    path.write_bytes(path.read_bytes() + b"x")
    read = []
    monkeypatch.setattr("surefoot.checkpoint.manifest.sha256_of", lambda path: read.append(path))
    with pytest.raises(CheckpointError, match=r"__0_0\.distcp has \d+ bytes, expected \d+"):
        store.load(30, saved)
    assert not [path for path in read if path.parent.name == "step-000000030"]


def test_nothing_is_parsed_before_all_is_verified(saved, store, root, monkeypatch):
    flip(root / "step-000000030" / "state.json", 3)
    for parser in ("read_metadata", "read_state", "read_into"):
        monkeypatch.setattr(f"surefoot.checkpoint.store.{parser}", pytest.fail)
    with pytest.raises(CheckpointError, match=r"state\.json was altered"):
        store.load(30, saved)


def test_older_damaged_and_quarantined_ones_are_not_offered(saved, root):
    store = CheckpointStore(root, keep_newest=9)
    store.save(40, {}, {}, quarantine="incident")
    store.save(50, {}, {})
    flip(root / "step-000000030" / "state.json", 3)
    flip(root / "step-000000050" / "state.json", 1)
    with pytest.raises(CheckpointError, match="intact one before it is step 20"):
        store.verify(50)
    flip(root / "step-000000020" / "state.json", 1)
    flip(root / "step-000000010" / "state.json", 1)
    with pytest.raises(CheckpointError, match="there is no intact checkpoint before it"):
        store.verify(50)
    reports = []
    assert store.resumable(reports.append) is None
    assert ["step-0000000" in report for report in reports] == [True] * 4


def test_the_signal_one_is_passed_over_when_damaged(saved, store, root):
    store.save(33, {}, {}, quarantine="signal")
    assert store.resumable() == 33
    flip(root / "step-000000033" / ".metadata", 3)
    assert store.resumable() == 30


def test_a_newer_format_is_refused_by_name(saved, store, root):
    path = root / "step-000000030" / MANIFEST
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    for attempt in (lambda: store.load(30, saved), lambda: store.verify(30), store.resumable):
        with pytest.raises(CheckpointError, match=r"has format 2, .* up to format 1.* pip install"):
            attempt()
    store.save(40, {}, {})  # newer than it: nothing is left behind by going on from here
    assert store.resumable() == 40
    for step in range(50, 150, 10):
        store.save(step, {}, {})
    assert path.exists()


def test_a_checkpoint_under_the_name_of_another_step_is_refused(saved, store, root):
    shutil.copytree(root / "step-000000020", root / "step-000000090")
    with pytest.raises(CheckpointError, match="belongs to step 20, expected step 90"):
        store.load(90, saved)
    assert store.latest() == store.resumable() == 30


@pytest.mark.parametrize(
    "change",
    [
        {"step": True},
        {"step": "30"},
        {"serial": None},
        {"files": []},
        {"files": {"../x": {"size": 1, "sha256": ""}}},
        {"files": {"x": {"size": "1", "sha256": ""}}},
        {"quarantine": 3},
    ],
)
def test_a_manifest_of_other_types_is_refused(saved, root, change):
    path = root / "step-000000030" / MANIFEST
    fields = {**json.loads(path.read_text()), **change}
    fields.pop("sha256")
    path.write_bytes(_dump({**fields, "sha256": _digest(fields)}))
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        read_manifest(path.parent)


def test_a_damaged_checkpoint_can_be_saved_anew(saved, store, root, make_tensors):
    flip(root / "step-000000030" / MANIFEST, 20)
    store.save(30, make_tensors(30), {"again": True})
    assert store.load(30, saved) == {"again": True}
    assert (root / "unreadable-step-000000030").is_dir()


def test_identity_tells_saves_apart(saved, root):
    manifest = read_manifest(root / "step-000000030")
    assert dataclasses.replace(manifest, serial=9).identity != manifest.identity


def test_a_checkpoint_that_vanishes_while_it_is_read(saved, store, root, monkeypatch):
    """Another process rotates it out: an error of one line, not a traceback."""
    from surefoot.checkpoint import store as module

    def vanish(folder, step):
        manifest = read_manifest(root / "step-000000030")
        shutil.rmtree(root / "step-000000030")
        return manifest

    monkeypatch.setattr(module.places, "read_checkpoint", vanish)
    with pytest.raises(CheckpointError, match="cannot be listed"):
        store.tensors(30)
