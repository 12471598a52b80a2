"""Watch a loop with a gradient scaler, accumulation, clipping, a schedule and checkpoints.

The loop is left at step 25 and started again: it goes on in the same run folder from the checkpoint
of step 20, as a new attempt. Takes seconds on a CPU:

    python examples/watch_mixed_precision.py runs/mixed
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import surefoot

PASSES, ROWS, SAVE_EVERY = 4, 16, 10


def train(folder: str, last: int) -> None:
    """Train through step ``last``, from the checkpoint if there is one."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(64, 32), nn.Linear(32, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=10)
    scaler = torch.amp.GradScaler(device="cpu")
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}
    with surefoot.watch(model, optimizer, run=folder, level="full", vocab_size=64) as watch:
        checkpoint = Path(folder, "mine.pt")
        if checkpoint.exists():
            saved = torch.load(checkpoint)
            for name, part in parts.items():
                part.load_state_dict(saved[name])
            watch.load_state_dict(saved["watch"])
        for step in range(watch.steps + 1, last + 1):
            for _ in range(PASSES):
                tokens = torch.randint(64, (ROWS, 8))
                with torch.autocast("cpu", dtype=torch.float16):
                    logits = model(tokens)
                    loss = F.cross_entropy(logits.flatten(0, 1), (tokens.flatten() + 1) % 64)
                scaler.scale(loss / PASSES).backward()
                watch.loss(loss)  # without the scale, not divided
                watch.logits(logits)  # for log Z: does the output drift?
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            watch.step(grad_norm=norm, batch_size=PASSES * ROWS)
            optimizer.zero_grad()
            scheduler.step()
            if step % SAVE_EVERY == 0:
                states = {name: part.state_dict() for name, part in parts.items()}
                torch.save({**states, "watch": watch.state_dict()}, checkpoint)
                watch.saved()


if __name__ == "__main__":
    run = sys.argv[1] if len(sys.argv) > 1 else "runs/mixed"
    train(run, last=25)
    train(run, last=40)
