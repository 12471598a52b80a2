"""PyTorch Lightning: ``Epoch 0:  10%|#| 10/100 [00:01<00:09, 9.5it/s, v_num=0, train_loss=2.3]``.

The bar counts batches of an epoch: unless the log tells a global step, the step is the number of
batches since training began.
"""

import re
from collections.abc import Iterator
from math import isfinite

from surefoot.readers.formats import LineFormat, LineParser, by_rank
from surefoot.readers.logs._bars import bar
from surefoot.readers.logs._pairs import pairs, short
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

_EPOCH = re.compile(r"\bEpoch (\d{1,9})(/-?\d{1,9})?$")
_SAVING = re.compile(
    r"\bEpoch \d{1,9}, global step (\d{1,12}): .{1,200}?(?:, saving model to '([^'\n]{1,400})')"
)
_RESTORED = re.compile(
    r"\bRestor(?:ed all|ing) states from the checkpoint (?:file )?(?:at|path at) (\S{1,400})"
)
_STEPS = ("global_step", "trainer/global_step", "step")
_HELD = ("val", "valid", "validation", "eval", "test")


class Lightning(LineParser):
    """Bars of training; a value that is drawn again and again is told once, where it changes."""

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._before = 0
        self._batches = 0
        self._held: dict[str, float] = {}
        self._told = False

    def feed(self, line: Line) -> Iterator[Item]:
        """See the base class."""
        line = short(line)
        text = line.text
        drawn = bar(text)
        epoch = _EPOCH.search(drawn.description) if drawn is not None else None
        # Only the bars of rich tell the number of epochs.
        ours = epoch is not None and (epoch[2] is None or "\u2501" in text)
        if drawn is not None and epoch is not None and ours and drawn.postfix:
            yield from self._record(line, int(epoch[1]), drawn.n, drawn.total, drawn.postfix)
        saving = _SAVING.search(text) if "global step" in text else None
        if saving is not None:
            yield Note("checkpoint", int(saving[1]), line.number, {"path": saving[2]})
            return
        restored = _RESTORED.search(text) if "checkpoint" in text else None
        if restored is not None:
            yield Note("resumed", None, line.number, {"path": restored[1]})

    def _record(self, line: Line, epoch: int, n: int, total: int, postfix: str) -> Iterator[Item]:
        if epoch != self._epoch:
            if self._epoch is None or epoch != self._epoch + 1:
                # Lightning counts epochs from 0 and names a version; loops of others do not.
                self._before = (epoch if "v_num" in postfix else max(0, epoch - 1)) * total
            else:
                self._before += self._batches
            self._epoch, self._held = epoch, {} if epoch == 0 else self._held
        self._batches = max(n, total)
        values: dict[str, float] = {"epoch": float(epoch)}
        beside: dict[str, float] = {}
        step: int | None = None
        for pair in pairs(postfix):
            if not pair.told or pair.key == "v_num":
                continue
            if pair.key in _STEPS and isfinite(pair.value):
                step = int(pair.value)
            elif pair.key.split("_")[0].split("/")[0] in _HELD or pair.key.endswith("_epoch"):
                if self._held.get(pair.key) != pair.value:
                    self._held[pair.key] = beside[pair.key] = pair.value
            else:
                values[pair.key] = pair.value
        counted = step is None
        at = self._before + n if step is None else step
        if len(values) > 1:
            yield Point(at, values, line.number, line.rank, line.time)
        if beside:
            yield Point(at, beside, line.number, line.rank, line.time, evaluation=True)
        if counted and not self._told:
            self._told = True
            yield Note("facts", None, line.number, {"steps_are": "batches"})


FORMAT = LineFormat(
    name="lightning",
    title="PyTorch Lightning",
    parser=by_rank(Lightning),
    needles=("Epoch ", "checkpoint"),
    names={"train_loss_epoch": ("epoch_mean_loss", 1.0), "loss_epoch": ("epoch_mean_loss", 1.0)},
    weight=0.8,
)
