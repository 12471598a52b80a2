"""JSON documents with the numbers of a run: golden values of Megatron, baselines of MindSpeed."""

import re
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from surefoot.errors import LogError
from surefoot.readers.formats import FileFormat
from surefoot.readers.logs import _document as documents
from surefoot.readers.logs._json import document_of, head_of, is_lines
from surefoot.readers.logs._records import value_of
from surefoot.readers.logs._tables import Rows
from surefoot.readers.points import Item, Note
from surefoot.readers.text import Source

if TYPE_CHECKING:
    from surefoot.readers.logs._tables import Column

_GOLDEN = re.compile(rb'"[^"\n]{1,120}"\s*:\s*\{\s*"start_step"\s*:\s*\d+\s*,\s*"end_step"')
_BASELINE = re.compile(rb'"(?:lm loss|time info|memo info)"\s*:\s*\[')


class GoldenValues(FileFormat):
    """Megatron's golden values: for each metric ``start_step``, ``step_interval`` and ``values``.

    ``values`` is an object of steps, in files before core 0.9 a list. The text ``"nan"`` stands for
    a step that was not logged, and is left out.
    """

    name = "megatron-golden"
    title = "Megatron golden values"

    def score(self, source: Source) -> float:
        """See the base class."""
        return 0.99 if _GOLDEN.search(head_of(source)) else 0.0

    def read(self, source: Source) -> Iterator[Item]:
        """See the base class."""
        document = yield from _document(source)
        told: dict[str, dict[int, float]] = {}
        for key, series in document.items() if isinstance(document, dict) else ():
            values = series.get("values") if isinstance(series, dict) else None
            if isinstance(values, list):
                begin, every = series.get("start_step", 0), series.get("step_interval", 1)
                if not isinstance(begin, int) or not isinstance(every, int):
                    continue
                values = {begin + every * at: value for at, value in enumerate(values)}
            if isinstance(values, dict):
                told[key] = documents.by_step(values)
        yield from _series(told, source)


class MindSpeedBaseline(FileFormat):
    """Baselines of MindSpeed-LLM's tests: lists of one number a step, the first one of step 1."""

    name = "mindspeed-baseline"
    title = "MindSpeed-LLM baseline"
    names: ClassVar[Mapping[str, tuple[str, float]]] = {
        "time info": ("step_time", 1e-3),
        "throughput": ("tflops_per_device", 1.0),
    }

    def score(self, source: Source) -> float:
        """See the base class."""
        head = head_of(source)
        return 0.98 if head[:1] == b"{" and not is_lines(head) and _BASELINE.search(head) else 0.0

    def read(self, source: Source) -> Iterator[Item]:
        """See the base class."""
        document = yield from _document(source)
        told: dict[str, dict[int, float]] = {}
        for key, values in document.items() if isinstance(document, dict) else ():
            if not isinstance(values, list):
                continue
            if values and isinstance(values[0], dict):
                yield Note("facts", data={key.replace(" ", "_"): values})
                continue
            numbers = ((step, value_of(key, value)) for step, value in enumerate(values, 1))
            told[key] = {step: value for step, value in numbers if value is not None}
        yield Note("facts", data={"steps_are": "rows"})
        yield from _series(told, source)


class JsonTable(FileFormat):
    """Any document that is a list of records, or an object of equally long lists, or holds one."""

    name = "json"
    title = "JSON document"

    def score(self, source: Source) -> float:
        """See the base class."""
        return documents.likeness(head_of(source), source.keys)

    def read(self, source: Source) -> Iterator[Item]:
        """See the base class."""
        document = yield from _document(source)
        columns = documents.columns_of(document, set(source.keys.values()))
        if not columns:
            raise LogError(
                f"{source.name} holds no table: expected a list of records, or lists of one length"
            )
        yield from Rows(source.keys.get("step")).take(columns, 1)


def _document(source: Source) -> Generator[Item, None, Any]:
    document, cut = document_of(source)
    if cut:
        yield Note("unusable", data={"why": "the file is cut short or damaged: its end is lost"})
    return document


def _series(told: Mapping[str, Mapping[int, float]], source: Source) -> Iterator[Item]:
    """Series by step as one table."""
    import numpy as np

    steps = np.array(sorted({step for series in told.values() for step in series}), np.int64)
    if not len(steps):
        raise LogError(f"{source.name} holds no numbers: none of its values was logged")
    columns: dict[str, Column] = {"step": (steps.astype(np.float64), np.ones(len(steps), bool))}
    for key, series in told.items():
        values, flags = np.zeros(len(steps)), np.zeros(len(steps), bool)
        if series:
            at = steps.searchsorted(np.fromiter(series, np.int64, len(series)))
            values[at], flags[at] = np.fromiter(series.values(), np.float64, len(series)), True
        columns[key if key != "step" else "step_told"] = values, flags
    yield from Rows("step").take(columns, 1)


FORMATS = (GoldenValues(), MindSpeedBaseline(), JsonTable())
