"""Steps of a run from steps that a trainer counts anew in each epoch."""


class EpochSteps:
    """Adds up epochs whose steps begin again.

    That they do is seen when the epoch goes on and the step goes back; until then, unless the line
    leaves no doubt (``sure``), the step printed is taken for that of the run.
    """

    def __init__(self) -> None:
        self.within = False
        self._before = 0
        self._epoch: int | None = None
        self._last = 0
        self._first = 0
        self._of: int | None = None

    def step(self, epoch: int, step: int, of: int | None, *, sure: bool = False) -> int:
        """The step of the run.

        Args:
            epoch: as printed.
            step: as printed.
            of: the steps of the epoch, or of the run, where the line tells them.
            sure: whether the line says that ``step`` is counted within the epoch.
        """
        if self._epoch is None:
            self._first = step
            if sure and of is not None:
                self.within, self._before = True, max(0, epoch - 1) * of
        elif epoch < self._epoch:  # a restart: what it counted before is not known
            self._before = max(0, epoch - 1) * (of or 0) if self.within else 0
        elif epoch > self._epoch and step <= self._last:
            self.within = True
            length = self._of if self._of is not None else self._last + (self._first == 0)
            self._before += length * (epoch - self._epoch)
        elif epoch > self._epoch and self.within:
            self._before += (self._of or self._last) * (epoch - self._epoch)
        self._epoch, self._last, self._of = epoch, step, of
        return self._before + step
