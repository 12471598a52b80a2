"""Validation loss, and a sample of what the model writes."""

import torch
from torch import Tensor

from surefoot.data import Corpus, TokenDataset, rank_share
from surefoot.model import Decoder, generate, loss_sums
from surefoot.train.step import TrainStep


@torch.no_grad()
def validation_loss(step: TrainStep, dataset: TokenDataset, samples: int) -> float:
    """Mean cross-entropy in nats per token over the first ``samples`` held-out sequences.

    The same sequences every time, shared out over the ranks; this waits for the device.
    """
    samples = min(samples, len(dataset))
    share = rank_share(0, samples, step.ranks.rank, step.ranks.world)
    found = torch.zeros(2, dtype=torch.float64, device=step.ranks.device)
    training = step.model.training
    step.model.eval()
    for first in range(share.start, share.stop, step.micro_size):
        batch = to_device(dataset, range(first, min(first + step.micro_size, share.stop)), step)
        with step.autocast():
            logits = step.model(batch[:, :-1])
        sums = loss_sums(logits, batch[:, 1:])
        found += torch.stack([sums.cross_entropy.double(), sums.tokens.double()])
    step.model.train(training)
    nats, tokens = step.ranks.total(found).tolist()
    return float(nats / tokens) if tokens else float("nan")


def to_device(dataset: TokenDataset, indices: range, step: TrainStep) -> Tensor:
    """Sequences (n, T+1) int64 on the rank's device."""
    batch = torch.from_numpy(dataset.batch(indices))
    if step.ranks.device.type == "cuda":
        return batch.pin_memory().to(step.ranks.device, non_blocking=True)
    return batch


def sample(model: Decoder, corpus: Corpus, prompt: str, tokens: int, seed: int) -> str:
    """What the model writes after ``prompt``: ``tokens`` tokens at temperature 0.8."""
    device = next(model.parameters()).device
    start = torch.tensor([corpus.encode(prompt)], dtype=torch.int64, device=device)
    length = model.architecture.sequence_length
    written = generate(model, start, tokens, sequence_length=length, temperature=0.8, seed=seed)
    return corpus.decode(written[0].tolist())
