"""Data: from files to samples in an order that is a pure function.

::

    from surefoot.data import BatchRamp, prepare, rank_share
    from surefoot.recipe import Batch, Data, DataSource

    data = Data(sources=(DataSource(kind="stdlib"),))
    corpus = prepare(data, vocab_size=2048, sequence_length=256, seed=1)
    batch = corpus.train.batch(range(0, 16))        # (16, 257) int64: inputs and targets
    corpus.train.provenance(0)                      # source, epoch, file, document, offset
    print(corpus.decode(batch[0]))

    ramp = BatchRamp(Batch(global_size=16))
    start, size = ramp.consumed_after(100), ramp.size_at(ramp.consumed_after(100))
    mine = rank_share(start, size, rank=0, world=2)  # positions of this rank's samples
"""

from surefoot.data.baselines import baselines
from surefoot.data.corpus import Corpus
from surefoot.data.dataset import Provenance, TokenDataset
from surefoot.data.order import Located, SampleOrder
from surefoot.data.permutation import Permutation
from surefoot.data.prepare import prepare
from surefoot.data.ramp import BatchRamp, length_at, rank_share
from surefoot.data.show import ShownSample, samples_of_step
from surefoot.data.skips import Skips
from surefoot.data.token_writer import TokenWriter
from surefoot.data.tokenizer import Tokenizer
from surefoot.data.tokens import Span, TokenFile

__all__ = [
    "BatchRamp",
    "Corpus",
    "Located",
    "Permutation",
    "Provenance",
    "SampleOrder",
    "ShownSample",
    "Skips",
    "Span",
    "TokenDataset",
    "TokenFile",
    "TokenWriter",
    "Tokenizer",
    "baselines",
    "length_at",
    "prepare",
    "rank_share",
    "samples_of_step",
]
