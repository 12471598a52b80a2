"""Two processes over gloo: one checkpoint, all succeed or all raise, other layouts read it."""

import os
import subprocess
import sys

import pytest

WORKER = r"""
import os, sys, errno, pathlib, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from surefoot.checkpoint import *
from surefoot.checkpoint import storage
from surefoot.errors import *

rank, root = int(sys.argv[1]), pathlib.Path(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{root}/meeting", rank=rank, world_size=2)
store = CheckpointStore(root / "checkpoints", keep_newest=9, interval=10)

def build(seed, shard=False):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 15), nn.Tanh(), nn.Linear(15, 8))
    if shard:
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.device_mesh import init_device_mesh
        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    else:
        model = DistributedDataParallel(model)
    return model, torch.optim.AdamW(model.parameters(), fused=not shard)

def train(model, optimizer):
    generator = torch.Generator().manual_seed(rank)
    for _ in range(2):
        model(torch.randn(4, 8, generator=generator)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor

def raises(kind, told, call):
    try:
        call()
    except kind as error:
        assert told in str(error), str(error)
        messages = [None, None]
        dist.all_gather_object(messages, str(error))
        assert messages[0] == messages[1] or not isinstance(error, SurefootError), messages
    else:
        raise SystemExit(f"rank {rank}: did not raise {told}")

# DDP: what ranks hold alike is written once, shared out; each has its own random state.
model, optimizer = build(0)
train(model, optimizer)
torch.manual_seed(1000 + rank)
tensors, hyper = training_tensors(model, optimizer)
tensors |= capture_random()
info = store.save(10, tensors, {"hyper": hyper, "rank": rank})
assert info.step == 10
follows = torch.rand(3)
again, again_optimizer = build(1)
into, _ = training_tensors(again, again_optimizer)
into |= capture_random()
state = store.load(10, into)
assert state["rank"] == 0
assert all(torch.equal(tensors[name], into[name]) for name in tensors)
restore_random(into)
assert torch.equal(torch.rand(3), follows)
assert len({t.shape for n, t in store.tensors(10).items() if "random" in n and "torch" in n}) == 1
names = [n for n in store.tensors(10) if n.startswith("random")]
assert len(names) == 4, names
files = {f.name: f.stat().st_size for f in (root / "checkpoints/step-000000010").iterdir()}
assert {"__0_0.distcp", "__1_0.distcp"} <= set(files), files

# FSDP2: each rank writes its part.
model, optimizer = build(0, shard=True)
train(model, optimizer)
tensors, hyper = training_tensors(model, optimizer)
store.save(20, tensors, {"hyper": hyper})
again, again_optimizer = build(1, shard=True)
into, _ = training_tensors(again, again_optimizer)
store.load(20, into)
assert all(torch.equal(local(tensors[n]), local(into[n])) for n in tensors)
whole = {n: t.full_tensor() if hasattr(t, "full_tensor") else t for n, t in tensors.items()}
if rank == 0:
    torch.save(whole, root / "whole.pt")
# A replicated one reads the sharded one.
ddp, ddp_optimizer = build(2)
into, _ = training_tensors(ddp, ddp_optimizer)
store.load(20, into)
assert all(torch.equal(whole[n], into[n]) for n in whole)

# A failure on one rank only is everyone's, and leaves nothing behind.
refuse_on = 1
real = storage._HashedFile.write
def refuse(self, data):
    if rank == refuse_on:
        self.error = OSError(errno.ENOSPC, "No space left on device")
        raise self.error
    return real(self, data)
for refuse_on in (0, 1):
    storage._HashedFile.write = refuse
    raises(StorageError, "the disk is full", lambda: store.save(30, into, {}))
    storage._HashedFile.write = real
    assert sorted(p.name for p in (root / "checkpoints").iterdir()) == [
        "index.json", "step-000000010", "step-000000020"]
bad = dict(into) if rank == 0 else {**into, "model.0.bias": 1.0}
raises((TypeError, RuntimeError), "expected a tensor, got float", lambda: store.save(30, bad, {}))
wrong = dict(into) if rank == 0 else {**into, "model.0.bias": torch.zeros(3)}
raises(CheckpointError, "model.0.bias is float32 [15] in it", lambda: store.load(20, wrong))

# Each rank verifies a part of the files; what any finds, all refuse.
for name in (".metadata", "__0_0.distcp", "__1_0.distcp", "state.json", "manifest.json"):
    path = root / "checkpoints/step-000000020" / name
    intact = path.read_bytes()
    dist.barrier()
    if rank == 0:
        path.write_bytes(intact[:-1] + bytes([intact[-1] ^ 1]))
    dist.barrier()
    raises(CheckpointError, name, lambda: store.load(20, into))
    raises(CheckpointError, "intact one before it is step 10", lambda: store.load(20, into))
    assert store.resumable() == 10
    dist.barrier()
    if rank == 0:
        path.write_bytes(intact)
    dist.barrier()
store.load(20, into)
assert store.resumable() == 20
# Statuses are rank 0's to change.
assert store.confirm(10) == ((10,) if rank == 0 else ())
dist.barrier()
assert store.newest_confirmed() == 10
dist.destroy_process_group()
print("done")
"""

ALONE = r"""
import sys, pathlib, torch
from surefoot.checkpoint import *
root = pathlib.Path(sys.argv[1])
store = CheckpointStore(root / "checkpoints", keep_newest=9, interval=10)
model = torch.nn.Sequential(torch.nn.Linear(8, 15), torch.nn.Tanh(), torch.nn.Linear(15, 8))
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
tensors, _ = training_tensors(model, optimizer)
store.load(20, tensors)
whole = torch.load(root / "whole.pt", weights_only=True)
assert all(torch.equal(whole[name], tensors[name]) for name in whole)
tensors |= capture_random()
store.load(10, tensors)
restore_random(tensors)
print("done")
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_two_processes_and_then_one(tmp_path, run_python):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    workers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", WORKER, str(rank), str(tmp_path)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        for worker in workers:
            output, errors = worker.communicate(timeout=200)
            assert worker.returncode == 0, errors
            assert "done" in output
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    alone = run_python(ALONE, tmp_path)
    assert alone.returncode == 0, alone.stderr
