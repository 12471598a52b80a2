"""A decoder, its switches, and its loss.

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
from surefoot.model.block import Block
from surefoot.model.decoder import Decoder, softcap
from surefoot.model.experts import Experts
from surefoot.model.feed_forward import FeedForward
from surefoot.model.fold import Folded, fold, folded_architecture, folded_names, plain_state
from surefoot.model.generate import generate
from surefoot.model.loss import LossSums, loss_sums
from surefoot.model.norms import LayerNorm, RMSNorm
from surefoot.model.placement import PLACEMENTS, LayerScale, Norms
from surefoot.model.rope import longest_wavelength, rope_tables, rotate, share_beyond
from surefoot.model.routing import RouterSums
from surefoot.model.softmax import softmax_attention
from surefoot.model.spectral import SigmaReparam, keep_spectral_norms, sigma_reparametrise
from surefoot.model.upcycle import ParameterCounts, parameter_counts, upcycle, upcycled_state

__all__ = [
    "PLACEMENTS",
    "Attention",
    "Block",
    "Decoder",
    "Experts",
    "FeedForward",
    "Folded",
    "LayerNorm",
    "LayerScale",
    "LossSums",
    "Norms",
    "ParameterCounts",
    "RMSNorm",
    "RouterSums",
    "SigmaReparam",
    "fold",
    "folded_architecture",
    "folded_names",
    "generate",
    "keep_spectral_norms",
    "largest_logit",
    "longest_wavelength",
    "loss_sums",
    "parameter_counts",
    "plain_state",
    "rope_tables",
    "rotate",
    "share_beyond",
    "sigma_reparametrise",
    "softcap",
    "softmax_attention",
    "upcycle",
    "upcycled_state",
]
