"""Signals of a training step, for any module and any torch optimizer, at next to no cost.

::

    meter = Meter(model, optimizer, sample_every=20)
    for step, (inputs, targets) in enumerate(batches, start=1):
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        norms = meter.norms(step)                       # 0-d tensors on the device
        optimizer.step()
        meter.after_update(step)
        optimizer.zero_grad()
        record = meter.record(step, 0, {"loss": loss})  # of the previous step, or None
    last = meter.flush()

What the signals of Adam's state say, and from where on they should worry you, is in
docs/how-to/watch-adam.md; what an optimizer of your own must say of itself to have them measured is
at :class:`surefoot.signals.adam_rule.Rule`.
"""

from surefoot.signals.memory import peak_memory
from surefoot.signals.meter import PER_PARAMETER, GradNorms, Meter
from surefoot.signals.sums import LossSums, loss_values

__all__ = ["PER_PARAMETER", "GradNorms", "LossSums", "Meter", "loss_values", "peak_memory"]
