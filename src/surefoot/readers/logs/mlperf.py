"""MLPerf training results: ``:::MLLOG {json}``, by whatever trainer.

MLPerf counts samples, not steps. Where the log states the global batch size the step told here is
the optimizer's, samples / global batch size; the samples are kept as ``consumed_samples``. Which of
the two a run's steps are stands in the fact ``steps_are``.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from surefoot.readers.formats import LineFormat, LineParser
from surefoot.readers.logs._records import flatten, step_value, value_of
from surefoot.readers.numbers import NUMBER, number
from surefoot.readers.points import Item, Note, Point
from surefoot.readers.text import Line

MARK = ":::MLLOG"
MOST = 4096
"""Messages on one line, glued by ranks that wrote at once."""

_GLOBAL = re.compile(r"'global_steps': (\d{1,12})[,}]")
_PAIR = re.compile(rf"'([\w/ ]{{1,40}})': ({NUMBER})(?=[,}}])")
_DECODE = json.JSONDecoder().raw_decode
_SAMPLES = ("samples_count", "samples_num", "samples", "num_samples")
_STEPS = ("step_num", "iteration", "global_step", "step")
_EVALUATIONS = frozenset(("eval_accuracy", "eval_loss", "eval_error", "validation_loss"))
_RECORDS = frozenset(("tracked_stats", "train_loss", "loss", "learning_rate", "grad_norm"))
_BESIDE = frozenset(("file", "lineno", "epoch_num", "epoch_count", "first_epoch_num", "status"))
_TOTALS = ("max_steps", "opt_learning_rate_training_steps")
_BY_LOSS = ("llama", "gpt3", "gpt-3", "mixtral", "deepseek", "moe")
"""Benchmarks whose ``eval_accuracy`` is the validation loss: the quality target is a loss."""


class Mlperf(LineParser):
    """Messages with numbers of a step; those of the configuration are facts."""

    def __init__(self) -> None:
        self._batch: int | None = None
        self._length: int | None = None
        self._benchmark = ""
        self._in_samples = True
        self._told = ""
        self._last: int | None = None
        self._waiting: Point | None = None
        self._evaluations = 0
        self._stepped = False

    def finish(self) -> Iterable[Item]:
        """See the base class."""
        yield from self._waited()

    def feed(self, line: Line) -> Iterable[Item]:
        """See the base class."""
        at = line.text.find(MARK)
        if at < 0:
            yield from self._printed(line)
            return
        for _ in range(MOST):
            if at < 0:
                return
            begin = line.text.find("{", at, at + len(MARK) + 8)
            end = at + len(MARK)
            if begin >= 0:
                try:
                    message, end = _DECODE(line.text, begin)
                except (ValueError, RecursionError):
                    message = None
                if isinstance(message, dict):
                    yield from self._message(message, line)
            at = line.text.find(MARK, end)

    def _message(self, message: dict[str, Any], line: Line) -> Iterator[Item]:
        key, value = message.get("key"), message.get("value")
        about = message.get("metadata")
        about = about if isinstance(about, dict) else {}
        if not isinstance(key, str) or message.get("event_type") == "INTERVAL_START":
            return
        if key == "run_stop":
            facts = {"run_status": about.get("status"), "run_result": value}
            yield Note(
                "facts", None, line.number, {k: v for k, v in facts.items() if v is not None}
            )
        elif key in _EVALUATIONS or key in _RECORDS:
            yield from self._record(key, value, about, message.get("time_ms"), line)
        elif value is not None and message.get("event_type") == "POINT_IN_TIME":
            yield from self._fact(key, value, line)

    def _fact(self, key: str, value: object, line: Line) -> Iterator[Item]:
        if not isinstance(value, str | int | float):
            return
        facts: dict[str, object] = {key: value}
        if key == "global_batch_size":
            self._batch = step_value(value)[0] or None
        elif key == "max_sequence_length":
            self._length = step_value(value)[0]
        elif key == "submission_benchmark":
            self._benchmark = str(value).lower()
        elif key in _TOTALS:
            facts["steps"] = step_value(value)[0] or value
        yield Note("facts", None, line.number, facts)

    def _record(
        self, key: str, value: object, about: dict[str, Any], time: object, line: Line
    ) -> Iterator[Item]:
        given = value if isinstance(value, dict) else {key: value}
        values = {
            k: v for k, told in flatten(given).items() if (v := value_of(k, told)) is not None
        }
        if not values:
            return
        evaluated = key in _EVALUATIONS
        step, samples = self._place(about)
        if key == "tracked_stats" and not any("loss" in k for k in values):
            if self._last is None and step == 0:
                yield Note("facts", None, line.number, dict(values))  # how long it took to begin
                return
            # Sums of a block, told under its beginning; times of validation, under their own count.
            evaluated = True
            if all(k.startswith("valid") for k in values) or (step or 0) < (self._last or 0):
                step = samples = None
        for name, beside in about.items():  # lr beside a train_loss
            told = value_of(name, beside)
            if name not in _BESIDE and name not in (*_SAMPLES, *_STEPS) and told is not None:
                values.setdefault(name, told)
        if samples is not None:
            values.setdefault("samples_count", float(samples))
        if key == "eval_accuracy" and key in values and self._is_loss(values[key]):
            values = {f"{k} (loss)" if k == key else k: v for k, v in values.items()}
        if step is not None:
            how = "optimizer steps" if samples is None or self._batch else "samples"
            if how == "optimizer steps" and samples is not None:
                how += ", from samples and the global batch size"
            if how != self._told:
                self._told = how
                yield Note("facts", None, line.number, {"steps_are": how})
        since = value_of("time_ms", time)
        seconds = since / 1000.0 if since is not None and math.isfinite(since) else line.time
        point = Point(step, values, line.number, line.rank, seconds, evaluation=evaluated)
        yield from self._waited()
        if step is None and key in _EVALUATIONS:
            self._waiting = point
            return
        if not evaluated and step is not None:
            self._last = step
        self._stepped |= step is not None
        yield point

    def _printed(self, line: Line) -> Iterator[Item]:
        """A dict that the BERT reference prints beside its messages: it has the step."""
        found = _GLOBAL.search(line.text)
        if found is None or "{" not in line.text[max(0, found.start() - 2000) : found.start()]:
            return
        told = ((k, number(v)) for k, v in _PAIR.findall(line.text) if k != "global_steps")
        values = {k: v for k, v in told if v is not None}
        evaluated = any(key.startswith("eval") for key in values)
        waiting, self._waiting = self._waiting, None
        time = line.time
        if waiting is not None and evaluated:
            values, time = {**waiting.values, **values}, waiting.time
        elif waiting is not None:
            self._waiting = waiting
        self._stepped = True
        if values:
            yield Point(int(found[1]), values, line.number, line.rank, time, evaluation=evaluated)

    def _waited(self) -> Iterator[Item]:
        """A validation result of which nothing has said the step: they are counted."""
        point, self._waiting = self._waiting, None
        if point is None:
            return
        self._evaluations += 1
        if not self._stepped:
            if self._evaluations == 1:
                yield Note("facts", None, point.line, {"steps_are": "evaluations"})
            point.step = self._evaluations
        yield point

    def _is_loss(self, value: float) -> bool:
        return value > 1.0 or any(name in self._benchmark for name in _BY_LOSS)

    def _place(self, about: dict[str, Any]) -> tuple[int | None, int | None]:
        """(step, samples) of a message."""
        for name in _SAMPLES:
            samples = step_value(about.get(name))[0]
            if samples is not None:
                return self._of_samples(samples), samples
        for name in _STEPS:
            given = about.get(name)
            if isinstance(given, list) and given:  # (epoch, step)
                given = given[-1]
            step = step_value(given)[0]
            if step is None:
                continue
            # Callbacks call samples a step: they go in whole batches.
            if name == "step" and self._in_samples and (self._batch or 1) > 1:
                if step % (self._batch or 1) == 0:
                    return self._of_samples(step), step
                self._in_samples = False
            if name == "step" and isinstance(given, float) and self._in_samples:
                return self._of_samples(step), step
            return step, None
        epoch = step_value(about.get("epoch_num"))[0]
        if epoch is None or not self._batch or epoch < 4 * self._batch:
            return None, None
        if self._length and epoch % (self._batch * self._length) == 0:
            epoch //= self._length  # tokens, called epoch_num
        return self._of_samples(epoch), epoch  # samples, called so

    def _of_samples(self, samples: int) -> int:
        return -(-samples // self._batch) if self._batch else samples


FORMAT = LineFormat(
    name="mlperf",
    title="MLPerf",
    parser=Mlperf,
    needles=(MARK, "'global_steps'"),
    names={
        "throughput": ("samples_per_second", 1.0),
        "seq/sec": ("samples_per_second", 1.0),
        "seq_sec": ("samples_per_second", 1.0),
        "step_loss": ("loss", 1.0),
        "eval_accuracy (loss)": ("validation_loss", 1.0),
    },
    weight=0.97,
)
