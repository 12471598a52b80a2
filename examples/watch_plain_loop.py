"""Watch a plain PyTorch loop: a bad batch is found, and the step it came at.

A small network learns to tell the next byte of Python's own sources; at one step its targets are
shuffled. Takes seconds on a CPU:

    python examples/watch_plain_loop.py runs/plain
    surefoot report runs/plain
"""

import argparse
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import surefoot

STEPS, BAD_STEP, CONTEXT, BATCH = 400, 300, 8, 256


def main(folder: str) -> list[tuple[str, int]]:
    """Train; the code and first step of everything that was found."""
    torch.manual_seed(0)
    sources = sorted(Path(argparse.__file__).parent.glob("*.py"))[:80]
    text = torch.tensor(list(b"".join(path.read_bytes() for path in sources)))
    model = nn.Sequential(
        nn.Embedding(256, 32), nn.Flatten(), nn.Linear(32 * CONTEXT, 256), nn.ReLU(),
        nn.Linear(256, 256),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    found = []
    with surefoot.watch(model, optimizer, run=folder, vocab_size=256) as watch:
        for step in range(1, STEPS + 1):
            at = torch.randint(len(text) - CONTEXT, (BATCH, 1)) + torch.arange(CONTEXT + 1)
            inputs, targets = text[at[:, :-1]], text[at[:, -1]]
            if step == BAD_STEP:
                targets = targets[torch.randperm(BATCH)]
            loss = F.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            watch.loss(loss)
            verdict = watch.step()  # a value: nothing acts unless you do
            optimizer.zero_grad()
            for finding in verdict.findings:
                print(f"step {step}: {finding.code} {finding.message}")
                found.append((finding.code, finding.evidence["onset_step"]))
    return found


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/plain")
