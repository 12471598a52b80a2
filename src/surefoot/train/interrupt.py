"""SIGINT and SIGTERM ask the loop to finish its step, save and leave; a second SIGINT kills."""

import signal
from types import FrameType, TracebackType


class Interrupt:
    """Context manager in which the two signals only set :attr:`received`.

    ``received`` is the signal's number, or None. Outside the main thread signals cannot be caught
    and nothing changes.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> "Interrupt":
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._catch)
            except ValueError:
                break
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            # Asked twice: the person does not want to wait for the checkpoint.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            raise KeyboardInterrupt
        self.received = number
