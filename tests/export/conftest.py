from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from surefoot.init import initialise
from surefoot.model import Decoder
from surefoot.recipe import Architecture, Init

END = "<|endoftext|>"


def _architecture(**changes) -> Architecture:
    shape = {"layers": 2, "width": 32, "heads": 4, "kv_heads": 2, "vocab_size": 300,
             "sequence_length": 32}  # fmt: skip
    return Architecture(**(shape | changes))


@pytest.fixture(scope="session")
def make_model():
    """A model with every parameter away from its first value, so that none can go unnoticed."""

    def make(**changes) -> Decoder:
        a = _architecture(**changes)
        model = Decoder(a)
        initialise(model, model.roles(), Init(), width=a.width, layers=a.layers, seed=3)
        generator = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        return model

    return make


@pytest.fixture(scope="session")
def tokenizer_path(tmp_path_factory) -> Path:
    """A byte-level BPE of 300 tokens whose last one ends a document."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=299,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
        show_progress=False,
    )
    tokenizer.train_from_iterator(["def f(x):\n    return x\n\n\n" * 20, "a b  c , . !\n"], trainer)
    tokenizer.add_special_tokens([END])
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture(scope="session")
def end_of_text(tokenizer_path) -> int:
    return Tokenizer.from_file(str(tokenizer_path)).token_to_id(END)
