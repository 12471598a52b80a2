"""``trainer_state.json`` of Hugging Face transformers: what the Trainer logged, as one document."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from surefoot.errors import LogError
from surefoot.readers.formats import FileFormat
from surefoot.readers.logs._json import document_of, head_of, is_lines
from surefoot.readers.logs._records import flatten, is_evaluation, step_value, value_of
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Source

_STATE = re.compile(rb'"log_history"\s*:\s*\[')
_OTHERS = (b'"is_world_process_zero"', b'"is_local_process_zero"', b'"max_steps"', b'"global_step"')
_CHECKPOINT = re.compile(r"checkpoint-(\d{1,15})/*$")
_FACTS = {
    "max_steps": "steps",
    "num_train_epochs": "epochs",
    "train_batch_size": "batch_size_per_device",
    "global_step": "last_step",
    "logging_steps": "logging_steps",
    "num_input_tokens_seen": "num_input_tokens_seen",
    "best_metric": "best_metric",
}


class TrainerState(FileFormat):
    """The rows of ``log_history``; the summary of a run that ended is no row of it."""

    name = "trainer-state"
    title = "Hugging Face Trainer (trainer_state.json)"
    names: ClassVar[Mapping[str, tuple[str, float]]] = {}

    def score(self, source: Source) -> float:
        """See the base class."""
        head = head_of(source)
        if head[:1] != b"{" or is_lines(head) or not _STATE.search(head):
            return 0.0
        return 1.0 if any(sign in head for sign in _OTHERS) else 0.93

    def read(self, source: Source) -> Iterator[Item]:
        """See the base class."""
        document, open_levels = document_of(source)
        state = document if isinstance(document, dict) else {}
        history = state.get("log_history")
        if not isinstance(history, list):
            raise LogError(f"{source.name} holds no log_history")
        if open_levels:
            if open_levels > 2:
                history = history[:-1]  # the entry in which the file was cut
            why = f"the file is cut short or damaged: its first {len(history):,} entries are whole"
            yield Note("unusable", data={"why": why})
        yield from _told(state)
        yield from _saved(state, source)
        step_key = source.keys.get("step", "step")
        for number, row in enumerate(history, 1):
            if isinstance(row, dict):
                yield from _row(row, number, step_key)


def _row(row: dict[str, Any], number: int, step_key: str) -> Iterator[Item]:
    flat = flatten(row)
    step, _ = step_value(flat.pop(step_key, None))
    values = {
        key: told for key, value in flat.items() if (told := value_of(key, value)) is not None
    }
    if "train_runtime" in values:  # its train_loss is the mean of the run
        yield Note("facts", data={f"run_{key}": value for key, value in values.items()})
    elif values:
        yield Point(step, values, number, evaluation=is_evaluation(values))


def _told(state: dict[str, Any]) -> Iterator[Item]:
    facts = {
        name: state[key]
        for key, name in _FACTS.items()
        if isinstance(state.get(key), int | float) and not isinstance(state[key], bool)
    }
    if facts:
        yield Note("facts", data=facts)
    best = state.get("best_model_checkpoint")
    found = _CHECKPOINT.search(best) if isinstance(best, str) else None
    if found is not None:
        yield Note("checkpoint", int(found[1]), data={"path": best, "best": True})


def _saved(state: dict[str, Any], source: Source) -> Iterator[Item]:
    """The checkpoint that the file lies in: ``checkpoint-200/trainer_state.json``."""
    folder = source.file.parent if source.file is not None else None
    found = _CHECKPOINT.search(folder.name) if folder is not None else None
    if found is not None and int(found[1]) == state.get("global_step"):
        yield Note("checkpoint", int(found[1]), data={"path": str(folder)})


FORMAT = TrainerState()
