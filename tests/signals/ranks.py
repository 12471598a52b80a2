"""One rank of a small run; started by test_distributed.py as ``ranks.py RANK WORLD STORE OUT``.

Rank r of w takes every w-th share of the same batch, so that all worlds see the same global batch.
"""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from surefoot.signals import Meter


def main(rank: int, world: int, store: str, out: str) -> None:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Embedding(12, 6), nn.Linear(6, 12)).double()
    group = None
    wrapped: nn.Module = model
    if world > 1:
        dist.init_process_group(
            "gloo", store=dist.FileStore(store, world), rank=rank, world_size=world
        )
        group = dist.group.WORLD
        wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    meter = Meter(wrapped, optimizer, sample_every=2, process_group=group)

    records = []
    for step in range(1, 5):
        tokens = torch.randint(0, 12, (10,))
        counted = torch.randint(0, 2, (10,)).bool()  # unequal shares of the ranks
        counted[0] = True
        logit_max = torch.randn(10, 3).abs()
        mine = slice(rank, None, world)
        logits = wrapped(tokens[mine])
        losses = nn.functional.cross_entropy(logits, (tokens[mine] + 1) % 12, reduction="none")
        log_z = logits.logsumexp(-1)
        keep = counted[mine].double()
        # DDP averages over ranks.
        ((losses * keep).sum() * world / counted.sum()).backward()
        norms = meter.norms(step)
        optimizer.step()
        meter.after_update(step)
        optimizer.zero_grad()
        sums = {
            "cross_entropy": (losses * keep).sum(),
            "tokens": keep.sum(),
            "log_z": (log_z * keep).sum(),
            "log_z_squared": (log_z.square() * keep).sum(),
            "log_z_abs_max": (log_z.abs() * keep).amax(),
        }
        if step == 4 and rank == world - 1:
            sums["log_z_squared"] = torch.tensor(float("nan"))
        attention = logit_max[mine].amax(0) if meter.is_sampled(step) else None
        record = meter.record(
            step, 0, {"update_skipped": norms.found_inf, "consumed_samples": 10 * step},
            sums=sums, attention=attention,
        )  # fmt: skip
        records += [] if record is None else [record]
    last = meter.flush()
    assert last is not None
    records.append(last)
    if world > 1:
        dist.destroy_process_group()
    with open(out, "w") as file:
        rows = [{"values": dict(r.values), "places": {k: v.tolist() for k, v in r.places.items()}}
                for r in records]  # fmt: skip
        json.dump({"records": rows, "places": meter.places}, file)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
