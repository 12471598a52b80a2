"""The initialisations, a file a method; importing this package registers them."""

from surefoot.init.methods.deepnorm import DeepNorm
from surefoot.init.methods.gpt2 import GPT2
from surefoot.init.methods.he import He
from surefoot.init.methods.megatron import Megatron
from surefoot.init.methods.mup import MuP
from surefoot.init.methods.single import SingleStd
from surefoot.init.methods.small import Small
from surefoot.init.methods.spike_no_more import SpikeNoMore
from surefoot.init.methods.t_fixup import TFixup
from surefoot.init.methods.torch_default import TorchDefault
from surefoot.init.methods.vanilla import Vanilla
from surefoot.init.methods.wesar import WeSaR
from surefoot.init.methods.xavier import Xavier

__all__ = [
    "GPT2",
    "DeepNorm",
    "He",
    "Megatron",
    "MuP",
    "SingleStd",
    "Small",
    "SpikeNoMore",
    "TFixup",
    "TorchDefault",
    "Vanilla",
    "WeSaR",
    "Xavier",
]
