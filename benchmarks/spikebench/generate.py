"""Make a set of SpikeBench: ``python benchmarks/spikebench/generate.py --set fresh --seed 7``.

Cells are made one after the other and written whole; a run that was killed goes on where it was.
The same seed makes the same bits on the same machine, torch and Python (the text is the
interpreter's own sources).
"""

import argparse
import contextlib
import dataclasses
import fcntl
import functools
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cases
import grid
import label as labels
import numpy as np
import tables
import torch
from grid import Cell, Context
from remedy import latest_good
from text import Text
from tiny import Setting, Tiny, run

from surefoot.records import StepRecord
from surefoot.testing.truth import Truth, read_truths, write_truths

CACHE = Path(__file__).parents[2] / ".cache" / "spikebench"


class Maker:
    """Makes the cells of one set.

    Args:
        folder: of the set.
        text: where samples come from.
        states: where checkpoints of faulty runs wait for their remedy.
    """

    def __init__(self, folder: Path, text: Text, states: Path) -> None:
        self.folder, self.text, self.states = folder, text, states
        self.truths: dict[str, Truth] = {}
        self.left_out: set[str] = set()
        self._update()
        self._clean: dict[tuple[str, int], tuple[list[StepRecord], dict[int, Any]]] = {}
        self._spreads: dict[str, labels.Spread] = {}

    def done(self, cell: Cell) -> bool:
        """Whether the cell is on disk, or was left out for good."""
        return cell.name in self.left_out or (
            cell.name in self.truths and (self.folder / f"{cell.name}.table").exists()
        )

    def make(self, cell: Cell) -> Truth | None:
        """Make one cell; None if it is neither healthy nor visible from the inside."""
        if cell.kind is None:
            truth = self._make_clean(cell)
        elif cell.kind.healthy:
            truth = self._make_look_alike(cell)
        else:
            made = self._make_fault(cell)
            if made is None:
                self._leave_out(cell)
                return None
            truth = made
        self._update(truth)
        return truth

    def relabel(self, cell: Cell) -> None:
        """Make a faulty cell's truth again from its table, after a change of rules or kinds."""
        kind = cell.kind
        if kind is None or kind.healthy or kind.natural or cell.name not in self.truths:
            return
        old = self.truths[cell.name]
        found = self._label(cell)
        truth = dataclasses.replace(
            old, kind=kind.name, group=kind.group, cause=kind.cause, accepted=kind.accepted,
            point=kind.point, held_out=kind.held_out, **dataclasses.asdict(found),
            healthy=found.manifest_step is None,
        )  # fmt: skip
        if invisible(truth):
            self._leave_out(cell)
        else:
            self._update(truth)

    def clean(self, setting: Setting, seed: int) -> tuple[list[StepRecord], dict[int, Any]]:
        """Records and checkpoints of a clean run; kept for the setting at hand."""
        key = (setting.name, seed)
        if key not in self._clean:
            if any(name != setting.name for name, _ in self._clean):
                self._clean.clear()
            tiny = Tiny(setting, seed, self.text)
            self._clean[key] = _checkpointed(tiny, setting.steps)
        return self._clean[key]

    def _leave_out(self, cell: Cell) -> None:
        self._table(cell.name).unlink(missing_ok=True)
        self._update(left_out=cell.name)

    def _update(self, truth: Truth | None = None, left_out: str | None = None) -> None:
        """Take in what is on disk and add to it; several processes may make one set."""
        truths, left = self.folder / "truths.json", self.folder / "left_out.json"
        with _alone(self.folder):
            self.truths = {t.case: t for t in read_truths(truths)} if truths.exists() else {}
            self.left_out = set(json.loads(left.read_text())) if left.exists() else set()
            if truth is not None:
                self.truths[truth.case] = truth
                ordered = sorted(self.truths.values(), key=lambda t: (not t.healthy, t.case))
                write_truths(truths, ordered)
            if left_out is not None:
                self.left_out.add(left_out)
                if self.truths.pop(left_out, None) is not None:
                    write_truths(truths, self.truths.values())
                part = left.with_suffix(".tmp")
                part.write_text(json.dumps(sorted(self.left_out), indent=0) + "\n")
                part.replace(left)

    def _table(self, name: str) -> Path:
        return self.folder / f"{name}.table"

    def _base(self, cell: Cell, setting: Setting, steps: int) -> dict[str, Any]:
        return {
            "case": cell.name, "set": self.folder.name, "strength": cell.strength,
            "seed": cell.seed, "shape": setting.shape, "optimizer": setting.words,
            "checkpoint_every": grid.EVERY, "steps": steps,
        }  # fmt: skip

    def _make_clean(self, cell: Cell) -> Truth:
        records, _ = self.clean(cell.setting, cell.seed)
        tables.write(self._table(cell.name), records, _places(cell.setting, self.text))
        return Truth(
            **self._base(cell, cell.setting, len(records)), kind="clean", group="clean", cause="",
            twin=cell.name, healthy=True,
        )  # fmt: skip

    def _make_look_alike(self, cell: Cell) -> Truth:
        assert cell.kind is not None
        plan = cell.kind.make(self._context(cell), cell.kind.strengths[cell.strength])
        setting = plan.setting or cell.setting
        tiny = Tiny(setting, cell.seed, self.text, plan.changes)
        records = run(tiny, cell.kind.tail)
        tables.write(self._table(cell.name), records, tiny.places)
        planned = None if plan.setting else cell.step
        return Truth(
            **self._base(cell, setting, len(records)), kind=cell.kind.name, group=cell.kind.group,
            cause="", twin=cell.name, healthy=True, injection_step=planned,
        )  # fmt: skip

    def _make_fault(self, cell: Cell) -> Truth | None:
        kind = cell.kind
        assert kind is not None
        _, states = self.clean(cell.setting, cell.seed)
        plan = kind.make(self._context(cell), kind.strengths[cell.strength])
        setting, first = plan.setting or cell.setting, cell.step
        tiny = Tiny(setting, cell.seed, self.text, plan.changes)
        start = 0
        if not kind.from_start:
            start = (first - 1) // grid.EVERY * grid.EVERY
            tiny.load(states[start])
        end = kind.tail if kind.natural else min(cell.setting.steps, first - 1 + kind.tail)
        records, own = _checkpointed(tiny, end)
        twin_name = self._twin_name(cell)
        stored = cell.name if kind.from_start else twin_name
        tail = [record for record in records if record.step >= first]
        tables.write(self._table(cell.name), tail, tiny.places)
        if kind.natural:
            return self._make_natural(cell, setting, tail)
        found = self._label(cell)
        last = None if plan.last is None else min(plan.last, end)
        truth = Truth(
            **self._base(cell, setting, end), kind=kind.name, group=kind.group, cause=kind.cause,
            accepted=kind.accepted, twin=stored, point=kind.point, held_out=kind.held_out,
            injection_step=first, last_injection_step=end if last is None else last,
            **dataclasses.asdict(found), healthy=found.manifest_step is None,
        )  # fmt: skip
        if invisible(truth):
            return None
        if not truth.healthy:
            after = {step: state for step, state in own.items() if step > start}
            self.states.mkdir(parents=True, exist_ok=True)
            part = self.states / f"{cell.name}.tmp"
            torch.save({"good": start, "states": after}, part)
            part.replace(self.states / f"{cell.name}.pt")
        return truth

    def awaits_remedy(self, cell: Cell) -> bool:
        """Whether the cell's latest good checkpoint is still to be found."""
        truth = self.truths.get(cell.name)
        return (
            truth is not None
            and truth.latest_good_checkpoint is None
            and (self.states / f"{cell.name}.pt").exists()
        )

    def remedy(self, cell: Cell) -> int:
        """Find the latest good checkpoint of a faulty run and write it down."""
        saved = torch.load(self.states / f"{cell.name}.pt", weights_only=False)
        twin, _ = tables.read(self._table(self._twin_name(cell)))
        losses = np.array([record.values["loss"] for record in twin])
        good = latest_good(
            saved["states"], saved["good"], cell.setting, cell.seed, self.text, losses,
            self._spread(cell),
        )  # fmt: skip
        truth = self.truths[cell.name]
        self._update(dataclasses.replace(truth, latest_good_checkpoint=good))
        (self.states / f"{cell.name}.pt").unlink()
        return good

    def _make_natural(
        self, cell: Cell, setting: Setting, records: list[StepRecord]
    ) -> Truth | None:
        """What the run did by itself; the table is cut to its first spike."""
        kind = cell.kind
        assert kind is not None
        kept, places = tables.read(self._table(cell.name))
        found = labels.natural(labels.series(kept, len(kept)), self._spread(cell))
        if found is None:
            return None
        label, end = found
        tables.write(self._table(cell.name), records[:end], places)
        return Truth(
            **self._base(cell, setting, end), kind=kind.name, group=kind.group, cause=kind.cause,
            accepted=kind.accepted, twin=cell.name, point=kind.point,
            injection_step=label.manifest_step, last_injection_step=label.manifest_step,
            **dataclasses.asdict(
                dataclasses.replace(label, manifest_signal=_named(label.manifest_signal, places))
            ),
        )  # fmt: skip

    def _context(self, cell: Cell) -> Context:
        def weights(step: int) -> Any:
            return self.clean(cell.setting, cell.seed)[1][step]["model"]

        return Context(step=cell.step, setting=cell.setting, draw=cell.draw, weights=weights)

    def _twin_name(self, cell: Cell) -> str:
        return f"clean-{cell.setting.name}-{cell.seed}"

    def _label(self, cell: Cell) -> labels.Label:
        """From what was written, so that labels can be made again from the tables alone."""
        kind = cell.kind
        assert kind is not None
        tail, places = tables.read(self._table(cell.name))
        before, _ = tables.read(self._table(self._twin_name(cell)))
        first = tail[0].step
        records = [r for r in before if r.step < first] + tail
        steps = records[-1].step
        found = labels.label(
            labels.series(records, steps),
            labels.series(before, len(before)),
            self._spread(cell),
            first=cell.step,
            watched=kind.watched,
            own_course=kind.from_start,
        )
        return dataclasses.replace(found, manifest_signal=_named(found.manifest_signal, places))

    def _spread(self, cell: Cell) -> labels.Spread:
        name = cell.setting.name
        if name not in self._spreads:
            paths = sorted(self.folder.glob(f"clean-{name}-*.table"))
            runs = [tables.read(path)[0] for path in paths]
            self._spreads = {
                name: labels.spread_of([labels.series(records, len(records)) for records in runs])
            }
        return self._spreads[name]


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes that make the same set waiting."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


HARMFUL = 0.1
"""Nats."""


def invisible(truth: Truth) -> bool:
    """Whether a run is worse than its twin although nothing in it ever left its course.

    It is neither healthy nor to be seen from the inside, and is left out.
    """
    return truth.healthy and truth.harm_nats > HARMFUL


def _checkpointed(tiny: Tiny, steps: int) -> tuple[list[StepRecord], dict[int, Any]]:
    states = {tiny.step: tiny.save()}

    def keep(tiny: Tiny) -> None:
        if tiny.step % grid.EVERY == 0:
            states[tiny.step] = tiny.save()

    return run(tiny, steps, keep), states


@functools.lru_cache(maxsize=16)
def _places(setting: Setting, text: Text) -> dict[str, tuple[str, ...]]:
    return Tiny(setting, 0, text).places


def _named(signal: str | None, places: dict[str, tuple[str, ...]]) -> str | None:
    if signal is None or "@" not in signal:
        return signal
    name, index = signal.split("@")
    return f"{name}@{places[name][int(index)]}"


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="fresh", help="folder of the set (default: fresh)")
    parser.add_argument("--shapes", choices=("dev", "test"), help="default: dev for dev, else test")
    parser.add_argument("--seed", type=int, default=1, help="other weights, data, steps")
    parser.add_argument("--held-out", action="store_true", help="only the held-out kinds")
    parser.add_argument("--no-held-out", action="store_true", help="all but the held-out kinds")
    parser.add_argument("--quick", action="store_true", help="one case of each strength")
    parser.add_argument("--kinds", nargs="*", help="only kinds whose name begins so")
    parser.add_argument("--settings", nargs="*", help="only these settings: to share the work")
    parser.add_argument("--minutes", type=float, help="stop after this time; go on with a new call")
    parser.add_argument("--no-remedy", action="store_true", help="no latest good checkpoint")
    parser.add_argument("--relabel", action="store_true", help="only make labels again")
    parser.add_argument("--list", action="store_true", help="say what would be made")
    parser.add_argument("--sets", type=Path, default=cases.SETS, help="where sets lie")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where token files lie")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    held_out = True if given.held_out else False if given.no_held_out else None
    shapes = given.shapes or ("dev" if given.set == "dev" else "test")
    wanted = grid.cells(shapes, given.seed, held_out=held_out, quick=given.quick)
    if given.kinds:
        wanted = [c for c in wanted if c.kind is None or c.kind.name.startswith(tuple(given.kinds))]
        used = {c.setting.name for c in wanted if c.kind is not None}
        wanted = [c for c in wanted if c.setting.name in used]
    if given.settings:
        wanted = [c for c in wanted if c.setting.name in given.settings]
    if given.list:
        for cell in wanted:
            print(cell.name, cell.setting.shape, f"step {cell.step}")
        return 0
    folder = given.sets / given.set
    folder.mkdir(parents=True, exist_ok=True)
    maker = Maker(folder, Text(given.cache), given.cache / "states" / given.set)
    if given.relabel:
        for cell in filter(maker.done, wanted):
            maker.relabel(cell)
        return 0
    begun = time.monotonic()
    for index, cell in enumerate(wanted):
        if maker.done(cell):
            continue
        if given.minutes is not None and time.monotonic() - begun > 60 * given.minutes:
            print("out of time; the same call goes on from here")
            return 0
        truth = maker.make(cell)
        print(f"{index + 1} of {len(wanted)} cells done: {cell.name}{_said(truth)}", flush=True)
    waiting = [] if given.no_remedy else [c for c in wanted if maker.awaits_remedy(c)]
    for index, cell in enumerate(waiting):
        if given.minutes is not None and time.monotonic() - begun > 60 * given.minutes:
            print("out of time; the same call goes on from here")
            return 0
        good = maker.remedy(cell)
        print(f"remedy {index + 1} of {len(waiting)}: {cell.name}, good {good}", flush=True)
    return 0


def _said(truth: Truth | None) -> str:
    if truth is None:
        return ", left out: worse than its twin without ever leaving its course"
    if truth.group in ("clean", "look-alike"):
        return ""
    if truth.healthy:
        return ", harmless"
    return (
        f", manifest {truth.manifest_step} ({truth.manifest_signal}) of {truth.injection_step}, "
        f"loss {truth.loss_manifest_step}, harm {truth.harm_nats:.2f}, peak {truth.peak_nats:.2f}, "
        f"recovered {truth.recovered_step}"
    )


if __name__ == "__main__":
    sys.exit(main())
