import pytest
import torch

from surefoot.model import Decoder
from surefoot.recipe import Architecture


@pytest.fixture(scope="session")
def make_model():
    """A small model with every parameter, gains too, drawn at random."""

    def make(*, seed: int = 0, std: float = 0.2, **changes) -> Decoder:
        shape = {"layers": 2, "width": 32, "heads": 4, "kv_heads": 2, "vocab_size": 50,
                 "sequence_length": 16}  # fmt: skip
        model = Decoder(Architecture(**(shape | changes)))
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                noise = std * torch.randn(parameter.shape, generator=generator)
                parameter.copy_(noise + 1 if parameter.ndim == 1 else noise)
        return model

    return make


@pytest.fixture
def tokens():
    return torch.randint(50, (3, 16), generator=torch.Generator().manual_seed(1))
