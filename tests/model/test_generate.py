"""Sampling: greedy, by the model's distribution, and what is refused."""

import math

import pytest
import torch
from torch import nn

from surefoot.model import generate


class _Counter(nn.Module):
    """Says that the next token is the last one plus 1."""

    def __init__(self):
        super().__init__()
        self.longest = 0

    def forward(self, tokens):
        assert not self.training
        self.longest = max(self.longest, tokens.shape[1])
        return nn.functional.one_hot((tokens + 1) % 7, 7).float()


def test_generate_greedily_keeps_the_mode_and_crops():
    model = _Counter().train()
    got = generate(model, torch.tensor([[3], [5]]), 6, sequence_length=4)
    assert got.tolist() == [[3, 4, 5, 6, 0, 1, 2], [5, 6, 0, 1, 2, 3, 4]]
    assert model.longest == 4
    assert model.training


def test_generate_samples_from_the_distribution_by_its_own_seed():
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    prompt = torch.zeros(4000, 1, dtype=torch.int64)
    one, same, other = (
        generate(_Counter(), prompt, 1, sequence_length=4, temperature=0.5, seed=seed)
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), state)
    expected = math.exp(2) / (math.exp(2) + 6)
    assert (one[:, 1] == 1).float().mean().item() == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize(
    ("prompt", "temperature"), [((1, 0), 0.0), ((3,), 0.0), ((1, 2), -1.0)], ids=str
)
def test_generate_refuses(prompt, temperature):
    with pytest.raises(ValueError, match="expected a prompt of shape"):
        generate(_Counter(), torch.zeros(prompt, dtype=torch.int64), 1, sequence_length=4,
                 temperature=temperature)  # fmt: skip
