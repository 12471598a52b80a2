"""A plain pre-norm decoder and its loss.

::

    import torch
    from surefoot.init import initialise
    from surefoot.model import Decoder, loss_sums
    from surefoot.recipe import Architecture, Init

    shape = Architecture(layers=2, width=64, heads=4, vocab_size=256, sequence_length=32)
    model = Decoder(shape)
    initialise(model, model.roles(), Init(), width=64, layers=2, seed=1)
    tokens = torch.randint(256, (8, 33))
    with model.measure_attention_logits(sequences=1):
        sums = loss_sums(model(tokens[:, :-1]), tokens[:, 1:])
    loss = (sums.cross_entropy + 1e-4 * sums.log_z_squared) / sums.tokens
    loss.backward()
    model.attention_logit_max              # (layers,)

It runs in fp32, under bf16 or fp16 autocast, in DDP and through ``torch.compile``.
"""

from surefoot.model.attention import Attention, largest_logit
from surefoot.model.decoder import Block, Decoder, FeedForward
from surefoot.model.generate import generate
from surefoot.model.loss import LossSums, loss_sums
from surefoot.model.norms import LayerNorm, RMSNorm
from surefoot.model.rope import rope_tables, rotate

__all__ = [
    "Attention",
    "Block",
    "Decoder",
    "FeedForward",
    "LayerNorm",
    "LossSums",
    "RMSNorm",
    "generate",
    "largest_logit",
    "loss_sums",
    "rope_tables",
    "rotate",
]
