"""The disk is full: the save fails with one line, its part is gone, the last checkpoint is good."""

import errno
import os
import resource
import subprocess

import pytest
import torch

from surefoot.checkpoint import CheckpointStore
from surefoot.errors import StorageError


def tensors(fill):
    return {f"w{n}": torch.full((50_000,), float(fill)) for n in range(10)}  # 2 MB


def check_failed_save(root, told):
    store = CheckpointStore(root, keep_newest=2, interval=10)
    before = sorted(path.name for path in root.iterdir())
    with pytest.raises(StorageError, match=told) as raised:
        store.save(20, tensors(20), {"at": 20})
    assert "\n" not in str(raised.value)
    assert "step-000000020" in str(raised.value)
    assert sorted(path.name for path in root.iterdir()) == before
    store.verify(10)
    assert store.latest() == store.resumable(pytest.fail) == 10
    into = tensors(0)
    assert store.load(10, into) == {"at": 10}
    assert all(tensor.eq(10).all() for tensor in into.values())


@pytest.fixture
def saved(root):
    CheckpointStore(root, keep_newest=2, interval=10).save(10, tensors(10), {"at": 10})
    return root


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 3 MB: one checkpoint fits, a second one does not."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a tmpfs")
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_really_full(small_disk):
    root = small_disk / "checkpoints"
    store = CheckpointStore(root, keep_newest=2, interval=10)
    store.save(10, tensors(10), {"at": 10})
    check_failed_save(root, r"the disk is full .*--resume; what was committed before is intact")
    store.save(20, {"w": torch.zeros(10)}, {})  # a small one fits: the space was given back
    assert store.latest() == 20


def test_a_file_that_is_really_refused(saved):
    """The kernel refuses in the middle of a write: files may grow to 1 MB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        check_failed_save(saved, r"exceed the limit on file sizes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class FullFile:
    """A file on a disk with some bytes left."""

    def __init__(self, file, left):
        self.file, self.left = file, left

    def write(self, data):
        self.left -= len(data)
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)


@pytest.mark.parametrize("left", [0, 100, 1_000, 200_500, 1_000_000, 2_000_000])
def test_full_in_the_middle_of_the_data(saved, monkeypatch, left):
    from surefoot.checkpoint import storage

    class FullPath(type(saved)):
        def open(self, *args, **kwargs):
            return FullFile(super().open(*args, **kwargs), left)

    monkeypatch.setattr(storage, "Path", FullPath)
    check_failed_save(saved, "the disk is full")


@pytest.mark.parametrize("what", ["fsync", "mkdir"])
def test_full_when_flushing_or_making_the_folder(saved, monkeypatch, what):
    def refuse(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, what, refuse)
        check_failed_save(saved, "the disk is full")


@pytest.mark.parametrize("file", ["state.json", "manifest.json"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_refused_at_a_late_file(saved, monkeypatch, file, error):
    replace = os.replace

    def refuse(source, target):
        if str(target).endswith(file):
            raise OSError(error, os.strerror(error))
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        check_failed_save(saved, r"disk|device")
