"""Faults to plant in any training loop, and the truth that a detector is measured against.

Does your monitoring see a bad batch, a flipped bit, a lost gradient? Plant one and look::

    import torch
    from surefoot.testing import corrupt_batch, drop_gradients, flip_bit

    generator = torch.Generator().manual_seed(1)
    for step, batch in enumerate(batches, start=1):
        if step == 300:                                   # one batch of random tokens
            batch = corrupt_batch(batch, "random", vocab_size=50304, generator=generator)
        if step == 500:                                   # a cosmic ray
            flip_bit(model.layers[0].weight, index=17, bit=30)
        lost = [model.head.weight] if 700 <= step < 720 else []
        with drop_gradients(lost):                        # a bucket that was never reduced
            loss = train_step(batch)

All faults are plain functions and context managers on torch tensors, modules and optimizers; they
need nothing else of surefoot, and are the ones that SpikeBench plants. torch is imported only when
one of them is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefoot.testing.bits import flip_bit
    from surefoot.testing.data_faults import corrupt_batch, feed_inputs
    from surefoot.testing.gradients import (
        change_gradients,
        drop_gradients,
        flip_gradient_bit,
        replace_gradients,
    )
    from surefoot.testing.low_precision import fake_fp8, fp8_linears
    from surefoot.testing.ranks import StaleRank
    from surefoot.testing.states import forget_moments, put_weights_back, reset_step_counter
    from surefoot.testing.truth import Truth, read_truths, write_truths

_MODULES = {
    "Truth": "truth",
    "read_truths": "truth",
    "write_truths": "truth",
    "flip_bit": "bits",
    "corrupt_batch": "data_faults",
    "feed_inputs": "data_faults",
    "change_gradients": "gradients",
    "drop_gradients": "gradients",
    "flip_gradient_bit": "gradients",
    "replace_gradients": "gradients",
    "fake_fp8": "low_precision",
    "fp8_linears": "low_precision",
    "StaleRank": "ranks",
    "forget_moments": "states",
    "put_weights_back": "states",
    "reset_step_counter": "states",
}

__all__ = [
    "StaleRank",
    "Truth",
    "change_gradients",
    "corrupt_batch",
    "drop_gradients",
    "fake_fp8",
    "feed_inputs",
    "flip_bit",
    "flip_gradient_bit",
    "forget_moments",
    "fp8_linears",
    "put_weights_back",
    "read_truths",
    "replace_gradients",
    "reset_step_counter",
    "write_truths",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
