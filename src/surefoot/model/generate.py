"""Plain sampling from a model, for a look at what it has learnt; not a server."""

import torch
from torch import Tensor, nn


@torch.no_grad()
def generate(
    model: nn.Module,
    prompt: Tensor,
    new_tokens: int,
    *,
    sequence_length: int,
    temperature: float = 0.0,
    seed: int = 0,
) -> Tensor:
    """Continue a prompt token by token.

    Args:
        model: (B, T) int64 -> logits (B, T, V).
        prompt: (B, T) int64 with T >= 1, on the model's device.
        new_tokens: how many to add.
        sequence_length: the most the model can read; earlier tokens are dropped.
        temperature: 0 takes the likeliest token, 1 samples from the model's distribution.
        seed: of the sampling; torch's global generator is left alone.

    Returns:
        (B, T + new_tokens), the prompt included.

    Raises:
        ValueError: for an empty prompt or a negative temperature.
    """
    if prompt.ndim != 2 or prompt.shape[1] == 0 or temperature < 0:
        raise ValueError(
            f"prompt of shape {tuple(prompt.shape)}, temperature {temperature}: expected a prompt "
            "of shape (B, T) with at least one token, and a temperature of 0 or more"
        )
    generator = torch.Generator(prompt.device).manual_seed(seed)
    was_training = model.training
    model.eval()
    try:
        tokens = prompt
        for _ in range(new_tokens):
            logits = model(tokens[:, -sequence_length:])[:, -1].float()
            if temperature == 0:
                chosen = logits.argmax(dim=-1, keepdim=True)
            else:
                shares = torch.softmax(logits / temperature, dim=-1)
                chosen = torch.multinomial(shares, 1, generator=generator)
            tokens = torch.cat((tokens, chosen), dim=1)
        return tokens
    finally:
        model.train(was_training)
