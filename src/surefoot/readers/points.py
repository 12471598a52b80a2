"""What a log format yields: points (numbers of one step), blocks of many, and notes beside them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from surefoot.readers.blocks import Block

NoteKind = Literal["checkpoint", "resumed", "update_skipped", "facts", "unusable"]


@dataclass(slots=True)
class Point:
    """Numbers that a trainer printed of one step, under the keys that it printed.

    Attributes:
        step: the step as the trainer counts; None if the line does not say, then the numbers belong
            to the last step that this rank told.
        values: the trainer's key to the number, in the trainer's unit. NaN stays NaN; what was not
            printed is not there.
        line: of the file, from 1.
        rank: which process printed it; None if that is not known.
        time: seconds since 1970, UTC unless the log says otherwise; None if not told.
        evaluation: a validation result: it never begins a new attempt.
    """

    step: int | None
    values: dict[str, float]
    line: int = 0
    rank: int | None = None
    time: float | None = None
    evaluation: bool = False


@dataclass(slots=True)
class Note:
    """Something that a log tells beside its numbers.

    Attributes:
        kind: ``checkpoint`` (saved at ``step``; ``data["path"]`` if told), ``resumed`` (what comes
            next follows a checkpoint of ``step``: a new attempt), ``update_skipped`` (of ``step``,
            or of the last step told), ``facts`` (``data`` holds what the log states of the run:
            ``world_size``, ``trainer_version``, ``vocab_size``, ``steps``, ...), ``unusable`` (a
            record that could not be read: ``data["why"]``).
        step: as the trainer counts.
        line: of the file, from 1.
    """

    kind: NoteKind
    step: int | None = None
    line: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)


Item = Point | Note | Block
