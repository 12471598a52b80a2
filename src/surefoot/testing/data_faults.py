"""Batches that should never have been fed."""

import contextlib
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn

from surefoot.errors import UsageError

Damage = Literal["random", "one-token", "shuffled"]
DAMAGES: tuple[Damage, ...] = ("random", "one-token", "shuffled")


def corrupt_batch(
    batch: Tensor,
    damage: Damage,
    *,
    vocab_size: int,
    generator: torch.Generator,
    share: float = 1.0,
) -> Tensor:
    """A damaged copy of a batch of token ids.

    Args:
        batch: (B, T) int64.
        damage: ``random``: uniformly random tokens (an index into the wrong file, wrong byte
            order); ``one-token``: one token repeated (padding, a file of zeros); ``shuffled``: the
            tokens of each sequence in random order (targets that belong to other inputs; with
            :func:`feed_inputs` only the targets).
        vocab_size: tokens that may be drawn.
        generator: makes the damage repeatable.
        share: of the sequences that are damaged, the first ones; at least one.

    Raises:
        UsageError: for an unknown damage, or a share that is not in (0, 1].
    """
    if damage not in DAMAGES:
        raise UsageError(f"unknown damage {damage!r}: expected {', '.join(DAMAGES)}")
    if not 0 < share <= 1:
        raise UsageError(f"{share=}: expected more than 0 and at most 1")
    rows = max(1, round(share * batch.shape[0]))
    bad = batch[:rows]
    if damage == "random":
        bad = torch.randint(0, vocab_size, bad.shape, generator=generator).to(batch.device)
    elif damage == "one-token":
        token = int(torch.randint(0, vocab_size, (), generator=generator))
        bad = torch.full_like(bad, token)
    else:
        order = torch.rand(bad.shape, generator=generator).argsort(dim=1).to(batch.device)
        bad = bad.gather(1, order)
    return torch.cat([bad, batch[rows:]])


@contextlib.contextmanager
def feed_inputs(model: nn.Module, inputs: Tensor) -> Iterator[None]:
    """Make the model see ``inputs`` whatever it is called with: the targets no longer belong.

    Args:
        model: any module whose first argument is (B, T) token ids.
        inputs: what it is to see instead, of the same shape.
    """

    def replace(module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return (inputs, *arguments[1:])

    handle = model.register_forward_pre_hook(replace)
    try:
        yield
    finally:
        handle.remove()
