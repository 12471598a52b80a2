"""A kill before every single change of the file system, and in the middle of every write.

Each test counts the changes that an operation makes, then repeats it from the same start and dies
before the first of them, before the second, and so on. After each death reading must be right, and
going on must end where an undisturbed run ends.
"""

import shutil

import pytest

from surefoot import runs
from surefoot.records import TrainSpec
from surefoot.runs import RunWriter, segments

pytestmark = pytest.mark.usefixtures("no_fsync")


def keys(*spans):
    return {(attempt, step) for attempt, first, last in spans for step in range(first, last + 1)}


def every_death(rows, act):
    """Yields after each death; ``act(number)`` prepares a start and returns what is to be done."""
    do = act()
    with rows.killed_before(0) as done:
        do()
    names = [operation[0] for operation in done.operations]
    assert names, "nothing was done"
    whole = [(number, False) for number in range(1, len(names) + 1)]
    for number, torn in whole + [(n, True) for n, _ in whole if names[n - 1] == "write"]:
        do = act()
        with rows.killed_before(number, torn=torn) as done:
            do()
        assert len(done.operations) == number
        yield names[number - 1]


def check(rows, folder, winning, everything=None):
    run = runs.open(folder)
    assert rows.frame_bits(run.signals) == rows.expected(winning)
    assert run.signals["step"].is_sorted()
    everything = winning if everything is None else everything
    assert rows.frame_bits(runs.all_attempts(folder)) == rows.expected(everything)
    return run


def test_create_leaves_nothing_or_a_run(rows, tmp_path):
    folder = tmp_path / "runs/mine"

    def act():
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        return lambda: RunWriter.create(folder, TrainSpec(name="x"), {"a": 1}, rows.PLACES)

    seen = {True: 0, False: 0}
    for _ in every_death(rows, act):
        seen[folder.exists()] += 1
        if folder.exists():
            assert runs.open(folder).problems == ()
            writer = RunWriter.resume(folder, 0, rows.PLACES)
            assert writer.attempt == 1
        else:
            writer = RunWriter.create(folder, TrainSpec(name="x"), {"a": 1}, rows.PLACES)
        writer.append(rows.make(writer.attempt, 1))
        writer.close()
        run = check(rows, folder, {(writer.attempt, 1)})
        assert run.spec == TrainSpec(name="x")
        assert run.environment == {"a": 1}
        assert run.problems == ()
        left = [path for path in folder.parent.iterdir() if path != folder]
        assert all(not list(path.iterdir()) for path in left), "an abandoned draft was not swept"
    assert seen[True] > 0
    assert seen[False] > 20


def test_append_loses_the_step_in_flight_at_most(make, rows):
    writer = make(steps=5)
    rows.die(writer)
    start = writer.folder.with_name("start")
    writer.folder.rename(start)
    folder = start.with_name("run")

    def act():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(start, folder)
        writer = RunWriter.resume(folder, 5, rows.PLACES)
        fds.append(writer)
        return lambda: [writer.append(rows.make(1, step)) for step in range(6, 10)]

    fds = []
    for at, _ in enumerate(every_death(rows, act)):
        done = at % 4  # rows 6, 7, 8 and 9 take one write each
        rows.die(fds.pop())
        run = check(rows, folder, keys((0, 1, 5), (1, 6, 5 + done)))
        assert len(run.problems) == (at >= 4)  # the half-written row is reported, not read
        writer = RunWriter.resume(folder, 5 + done, rows.PLACES)
        writer.append(rows.make(2, 6 + done))
        writer.close()
        run = check(rows, folder, keys((0, 1, 5), (1, 6, 5 + done), (2, 6 + done, 6 + done)))
        assert run.problems == ()


@pytest.mark.parametrize("merges", [False, True])
def test_flush_never_loses_or_doubles_a_row(make, rows, monkeypatch, merges):
    monkeypatch.setattr(segments, "MERGE_COUNT", 3)
    monkeypatch.setattr(segments.mergeable, "__defaults__", (segments.MERGE_BYTES, 3))
    writer = make(steps=8 if merges else 2, compact_rows=4)  # with merges: 1-4, 5-8
    for step in range(writer.last_step + 1, writer.last_step + 4):
        writer.append(rows.make(0, step))
    last = writer.last_step
    rows.die(writer)
    start = writer.folder.with_name("start")
    writer.folder.rename(start)
    folder = start.with_name("run")

    def act():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(start, folder)
        writer = RunWriter.resume(folder, last, rows.PLACES)
        open_.append(writer)
        return writer.flush

    open_ = []
    merged = 0
    for _ in every_death(rows, act):
        rows.die(open_.pop())
        check(rows, folder, keys((0, 1, last)))
        names = {path.name for path in (folder / "signals").glob("*.parquet")}
        merged += f"000000001-{last:09d}.parquet" in names
        writer = RunWriter.resume(folder, last, rows.PLACES)
        writer.append(rows.make(2, last + 1))
        writer.close()
        run = check(rows, folder, keys((0, 1, last), (2, last + 1, last + 1)))
        assert run.problems == ()
        assert not list(folder.rglob("*.tmp"))
    assert bool(merged) == merges


SLOW = pytest.mark.slow


@pytest.mark.parametrize("step", [3, *(pytest.param(n, marks=SLOW) for n in (0, 6, 8, 9, 10, 12))])
def test_resume_can_be_killed_anywhere_and_repeated(make, rows, step):
    # Segments 1-4, 5-8 of attempt 0; journal 9-10 of attempt 0 and a torn end.
    writer = make(steps=10, compact_rows=4)
    rows.die(writer)
    start = writer.folder.with_name("start")
    writer.folder.rename(start)
    with (start / "signals/journal").open("ab") as file:
        file.write(b"\x02\0\0")
    with (start / "events.jsonl").open("ab") as file:
        file.write(b'{"kind": "fin')
    folder = start.with_name("run")
    kept = keys((0, 1, min(step, 10)))
    lost = () if step <= 10 else (f"rows of steps 11 to {step} are missing",)
    everything = keys((0, 1, 10))

    def act():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(start, folder)
        return lambda: RunWriter.resume(folder, step, rows.PLACES)

    def listing():
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and path.name not in ("lock", "events.jsonl")
        }

    act()
    rows.die(RunWriter.resume(folder, step, rows.PLACES))
    undisturbed = listing()
    deaths = 0
    for _ in every_death(rows, act):
        deaths += 1
        # At each instant the history is a beginning of the old one that holds the new one.
        run = runs.open(folder)
        history = rows.frame_bits(run.signals)
        assert history == rows.expected(keys((0, 1, len(history))))
        assert min(step, 10) <= len(history) <= 10
        assert rows.frame_bits(runs.all_attempts(folder)) == rows.expected(everything)
        begun = any(event.kind == "resumed" for event in run.events)
        writer = RunWriter.resume(folder, step, rows.PLACES)
        assert writer.attempt == (2 if begun else 1)
        assert listing() == undisturbed
        writer.append(rows.make(writer.attempt, step + 1))
        writer.close()
        new = {(writer.attempt, step + 1)}
        run = check(rows, folder, kept | new, everything | new)
        assert run.problems == lost
        kinds = [event.kind for event in run.events]
        assert kinds.count("repaired") in (1, 2)  # a second one where `resumed` itself was torn
        assert run.events[kinds.index("repaired")].data["cut_off"] == '{"kind": "fin'
    assert deaths > 20


@pytest.mark.parametrize(
    ("first", "second"), [(3, 7), *(pytest.param(*pair, marks=SLOW) for pair in ((7, 3), (2, 9)))]
)
def test_a_killed_resume_may_be_repeated_at_another_step(make, rows, first, second):
    writer = make(steps=10, compact_rows=4)
    rows.die(writer)
    start = writer.folder.with_name("start")
    writer.folder.rename(start)
    folder = start.with_name("run")

    def act():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(start, folder)
        return lambda: RunWriter.resume(folder, first, rows.PLACES)

    for _ in every_death(rows, act):
        if any(event.kind == "resumed" for event in runs.open(folder).events):
            continue  # that attempt has begun: what it left behind is left behind
        writer = RunWriter.resume(folder, second, rows.PLACES)
        assert writer.attempt == 1
        check(rows, folder, keys((0, 1, second)), keys((0, 1, 10)))
        writer.append(rows.make(1, second + 1))
        writer.close()
        new = {(1, second + 1)}
        check(rows, folder, keys((0, 1, second)) | new, keys((0, 1, 10)) | new)
        moved = [path.name for path in (folder / "attempts/0").iterdir()]
        assert moved == [f"{second + 1:09d}-000000010.parquet"]


def test_the_ledger_is_never_half_a_line_longer(make, rows):
    writer = make()
    rows.die(writer)
    folder = writer.folder
    start = (folder / "events.jsonl").read_bytes()
    ledgers = []

    def act():
        (folder / "events.jsonl").write_bytes(start)
        ledgers.append(runs.Ledger(folder / "events.jsonl", attempt=4))
        return lambda: ledgers[-1].append("action", step=7, why="x" * 100)

    outcomes = set()
    for operation in every_death(rows, act):
        events = runs.open(folder).events
        outcomes.add((operation, len(events)))
        assert [event.kind for event in events] in (["started"], ["started", "action"])
    # Killed before the flush the line is there already; killed in the write it is not.
    assert outcomes == {("write", 1), ("fsync", 2)}


def test_places_are_old_or_new(make, rows):
    writer = make()
    more = {"grad_norm": ["a", "b", "c", "d"]}
    old = (writer.folder / "signals/places.json").read_bytes()

    def act():
        (writer.folder / "signals/places.json").write_bytes(old)
        writer._places = {name: tuple(names) for name, names in rows.PLACES.items()}
        return lambda: writer.set_places(more)

    for _ in every_death(rows, act):
        assert len(runs.open(writer.folder).places["grad_norm"]) in (3, 4)
    writer.close()
