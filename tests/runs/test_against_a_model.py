"""Any sequence of appends, flushes, kills and resumes against a dictionary."""

import random
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot import runs
from surefoot.records import TrainSpec
from surefoot.runs import RunWriter, segments

pytestmark = pytest.mark.usefixtures("no_fsync")

moves = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 9)),
    st.tuples(st.just("flush"), st.just(0)),
    st.tuples(st.just("kill in append"), st.integers(1, 12)),
    st.tuples(st.just("kill in flush"), st.integers(1, 30)),
    st.tuples(st.just("close"), st.just(0)),
    st.tuples(st.just("torn journal"), st.integers(1, 60)),
    st.tuples(st.just("look"), st.just(0)),
)


class Model:
    """What a run folder must hold: keys of the winning history and of all rows."""

    def __init__(self) -> None:
        self.attempt = 0
        self.winning: list[tuple[int, int]] = []
        self.moved: set[tuple[int, int]] = set()

    def resume(self, step: int) -> None:
        self.moved |= {key for key in self.winning if key[1] > step}
        self.winning = [key for key in self.winning if key[1] <= step]
        self.attempt += 1


@given(st.lists(moves, max_size=14), st.randoms(use_true_random=False))
@settings(max_examples=12, deadline=None)
def test_any_life_of_a_run(tmp_path_factory, rows, sequence, generator):
    live(tmp_path_factory, rows, sequence, generator)


@pytest.mark.slow
@given(st.lists(moves, min_size=10, max_size=40), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_any_long_life_of_a_run(tmp_path_factory, rows, sequence, generator):
    live(tmp_path_factory, rows, sequence, generator)


def live(
    tmp_path_factory: pytest.TempPathFactory,
    rows,
    sequence: list[tuple[str, int]],
    generator: random.Random,
) -> None:
    folder = tmp_path_factory.mktemp("m") / "run"
    model = Model()
    rule = segments.mergeable.__defaults__
    segments.mergeable.__defaults__ = (segments.MERGE_BYTES, 3)
    least, segments.MERGE_COUNT = segments.MERGE_COUNT, 3
    options = {"compact_rows": 4}
    writer = RunWriter.create(folder, TrainSpec(), {}, rows.PLACES, **options)
    try:
        for move, number in sequence:
            died = False
            if move in ("append", "kill in append"):
                for _ in range(number if move == "append" else 5):
                    key = (model.attempt, writer.last_step + 1)
                    with rows.killed_before(number if move != "append" else 0) as done:
                        writer.append(rows.make(*key))
                    died = move != "append" and len(done.operations) == number
                    # The first change is the write of the row: before it the row is not there.
                    if not died or number > 1:
                        model.winning.append(key)
                    if died:
                        break
            elif move == "flush":
                writer.flush()
            elif move == "kill in flush":
                with rows.killed_before(number) as done:
                    writer.flush()
                died = len(done.operations) == number
            elif move in ("close", "torn journal"):
                if move == "close":
                    writer.close()
                died = True
            if move == "torn journal":
                torn_rows = tear(rows, writer, number)
                model.winning = model.winning[: len(model.winning) - torn_rows]
            look(rows, folder, model)
            if died:
                rows.die(writer)
                last = model.winning[-1][1] if model.winning else 0
                step = generator.randint(max(0, last - 9), last)
                # A few resumes that are killed themselves, at other steps too.
                for _ in range(generator.randint(0, 2)):
                    other = generator.randint(max(0, last - 9), last)
                    deadly = generator.randint(1, 25)
                    with rows.killed_before(deadly) as done:
                        writer = RunWriter.resume(folder, other, rows.PLACES, **options)
                    if len(done.operations) < deadly:
                        rows.die(writer)
                    begun = [e for e in runs.open(folder).events if e.kind == "resumed"]
                    if begun and begun[-1].attempt == model.attempt + 1:
                        model.resume(other)
                        step = min(step, other)
                writer = RunWriter.resume(folder, step, rows.PLACES, **options)
                model.resume(step)
                assert writer.attempt == model.attempt
                look(rows, folder, model)
        writer.close()
        look(rows, folder, model)
        assert runs.open(folder).problems == ()
    finally:
        segments.mergeable.__defaults__ = rule
        segments.MERGE_COUNT = least
        rows.die(writer)
        shutil.rmtree(folder.parent)


def tear(rows, writer: RunWriter, size: int) -> int:
    """Cut ``size`` bytes off the journal; how many rows that takes."""
    rows.die(writer)
    path = writer.folder / "signals/journal"
    before = runs.open(writer.folder).signals.height
    data = path.read_bytes()
    path.write_bytes(data[: max(16, len(data) - size)])
    return before - runs.open(writer.folder).signals.height


def look(rows, folder, model: Model) -> None:
    run = runs.open(folder)
    assert rows.frame_bits(run.signals) == rows.expected(model.winning)
    assert run.signals["step"].is_sorted()
    everything = set(model.winning) | model.moved
    assert rows.frame_bits(runs.all_attempts(folder)) == rows.expected(everything)
