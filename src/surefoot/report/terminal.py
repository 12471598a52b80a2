"""The summary of a run for a terminal: 80 columns, with colour and without."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from surefoot.records import CheckpointInfo, Finding, Run
from surefoot.report.facts import Facts, Point, facts, standing
from surefoot.report.reading import reading_rows
from surefoot.report.text import by_weight, cause_lines, count, heading, number, plain, tally

if TYPE_CHECKING:
    from surefoot.report.columns import Curve

STATUS_STYLES = {
    "finished": "green",
    "running": "cyan",
    "interrupted": "cyan",
    "killed": "yellow",
    "halted": "red",
    "failed": "red",
}
_SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_CHECKPOINT_STYLES = {"confirmed": "green", "quarantined": "red"}
_SHOWN = 3
"""Checkpoints and problems shown; the rest is counted."""
_NARROW = 10
"""Columns that words need beside their mark; with fewer they go on below it."""


def summary(
    run: Run, findings: Iterable[Finding], not_checked: Iterable[Mapping[str, str]] = ()
) -> RenderableType:
    """What a person wants to know of a run, as a rich renderable.

    ::

        from rich.console import Console
        Console().print(summary(run, findings))

    Args:
        run: any run, also an empty one.
        findings: what is told of it, in any order.
        not_checked: what could not be judged: ``code`` and what it ``needs``.

    Returns:
        Name, status, steps, losses, throughput, a picture of the loss, findings, newest checkpoints
        and problems. No control character of the run's own texts is in it.
    """
    from surefoot.report.columns import curve

    known = facts(run)
    blocks: list[RenderableType] = [*_title(run, known), *_reading(run), *_numbers(run, known)]
    loss = curve(run, "loss")
    if loss is not None and len(loss.steps) > 1:
        blocks += ["", _Picture(loss)]
    blocks += ["", *_findings(by_weight(findings), known)]
    unchecked = list(not_checked)
    if unchecked:
        blocks += ["", *not_checked_lines(unchecked)]
    if run.checkpoints:
        blocks += ["", *_checkpoints(run.checkpoints)]
    if run.problems:
        blocks += ["", *_problems(run.problems)]
    return Group(*blocks)


@dataclass(frozen=True, slots=True)
class _Item:
    """Words behind a mark, wrapped beside it; no line ends in spaces, as those of a table do."""

    mark: str
    words: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width - cell_len(self.mark)
        if room < _NARROW:
            whole = Text.assemble((self.mark, "dim"), self.words)
            lines = list(whole.wrap(console, options.max_width))
        else:
            blank = " " * cell_len(self.mark)
            lines = [
                Text.assemble((blank if number_of else self.mark, "dim"), line)
                for number_of, line in enumerate(self.words.wrap(console, room) or [Text()])
            ]
        for line in lines:
            line.rstrip()
            yield line


@dataclass(frozen=True, slots=True)
class _Picture:
    """The loss, as wide as the terminal allows and in characters it can show."""

    loss: "Curve"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from surefoot.report.sparkline import sparkline

        width = min(options.max_width, 100) - 2
        for line in sparkline(self.loss, width, ascii_only=options.ascii_only):
            yield Text(f"  {line}", no_wrap=True, overflow="crop")


def _title(run: Run, known: Facts) -> Iterator[RenderableType]:
    title = Text()
    title.append(plain(run.name), style="bold")
    if run.reading:  # another trainer's log has no ledger that could tell how it stands
        yield _Item("", title)
        return
    title.append("  ")
    style = STATUS_STYLES.get(known.status.word, "")
    title.append(known.status.word, style=f"bold {style}".strip())
    if known.status.detail:
        # Not within parentheses what holds some.
        nested = "(" in known.status.detail
        title.append(f": {known.status.detail}" if nested else f" ({known.status.detail})")
    yield _Item("", title)
    if run.path:
        yield _Item("", Text(plain(run.path), style="dim"))


def _reading(run: Run) -> Iterator[RenderableType]:
    rows = [(what, Text(words)) for what, words in reading_rows(run)]
    if rows:
        yield from _columns(rows)


def not_checked_lines(entries: Sequence[Mapping[str, str]]) -> Iterator[RenderableType]:
    """What could not be judged: the code, and what it needs."""
    yield Text("not checked", style="bold")
    for entry in entries:
        yield _Item(f"  {plain(entry['code'])}  ", Text(f"needs {plain(entry['needs'])}"))


def _numbers(run: Run, known: Facts) -> Iterator[RenderableType]:
    restarts = f", restarted {_times(len(known.restarts))}" if known.restarts else ""
    tokens = f", {number(known.consumed_tokens)} tokens" if known.consumed_tokens else ""
    progress = known.span() if run.reading else known.progress()
    rows = [("steps", Text(progress + tokens + restarts))]
    if known.skipped:
        rows.append(("skipped", Text(count(known.skipped, "update"), style="bold yellow")))
    if known.gaps:
        rows.append(("gaps", Text(known.gaps, style="bold yellow")))
    rows.append(("loss", _loss(known)))
    if known.validation_last is not None:
        parts = [_at(known.validation_last, "last"), _at(known.validation_best, "best")]
        words = ", ".join(part for part in parts if part) + " (nats)"
        rows.append(("validation", Text(words)))
    if known.tokens_per_second is not None:
        rows.append(("tokens/s", Text(f"{number(known.tokens_per_second)} (median)")))
    yield from _columns(rows)


def _columns(rows: Sequence[tuple[str, Text]]) -> Iterator[RenderableType]:
    width = max(len(name) for name, _ in rows)
    for name, words in rows:
        yield _Item(f"  {name:<{width}}  ", words)


def _loss(known: Facts) -> Text:
    if known.loss_last is None:
        return Text("not recorded")
    points = ((known.loss_first, "first"), (known.loss_last, "last"), (known.loss_best, "best"))
    text = Text(", ".join(part for part in (_at(*point) for point in points) if part))
    text.append(" (nats)")
    if known.not_finite:
        text.append(f"; not finite at {count(known.not_finite, 'step')}", style="bold red")
    return text


def _at(point: Point | None, which: str) -> str:
    return "" if point is None else f"{number(point.value)} {which} at {number(point.step)}"


def _times(n: int) -> str:
    return {1: "once", 2: "twice"}.get(n, f"{n} times")


def _findings(findings: Sequence[Finding], known: Facts) -> Iterator[RenderableType]:
    told = f"findings: {tally(findings)}" if findings else "no findings"
    if not findings and known.loss_last is None and not known.grad_norm:
        told = "nothing was judged: no training loss and no gradient norm is recorded"
    elif not findings and known.loss_last is None:
        told = "no findings; the loss was not judged: it is not recorded"
    yield _Item("", Text(told, style="bold"))
    yield from _each(findings)


def indented(words: str, style: str = "") -> RenderableType:
    """A line below a heading, which stays below it where it is wrapped."""
    return _Item("  ", Text(words, style=style))


def finding_lines(findings: Sequence[Finding]) -> Iterator[RenderableType]:
    """How many findings there are, and each in full: what it means and what to do."""
    told = f"findings: {tally(findings)}" if findings else "no findings"
    yield _Item("", Text(told, style="bold"))
    yield from _each(findings)


def _each(findings: Sequence[Finding]) -> Iterator[RenderableType]:
    for finding in findings:
        head = Text(heading(finding))
        head.stylize(_SEVERITY_STYLES[finding.severity], 0, len(finding.severity))
        yield _Item("  ", head)
        if finding.message:
            yield _Item("    ", Text(plain(finding.message)))
        for mark, words in cause_lines(finding):
            yield _Item(f"    {mark:<8} ", Text(words))
        for index, action in enumerate(finding.actions, 1):
            yield _Item(f"    {index}. ", Text(plain(action)))


def _checkpoints(checkpoints: Sequence[CheckpointInfo]) -> Iterator[RenderableType]:
    newest = sorted(checkpoints, key=lambda c: c.step, reverse=True)
    more = f" (newest {_SHOWN} of {len(newest)})" if len(newest) > _SHOWN else ""
    yield _Item("", Text(f"checkpoints{more}", style="bold"))
    rows = []
    for info in newest[:_SHOWN]:
        stands = standing(info)
        words = Text(str(stands))
        words.stylize(_CHECKPOINT_STYLES.get(stands.word, ""), 0, len(stands.word))
        rows.append((f"step {info.step:,}", words))
    yield from _columns(rows)


def _problems(problems: Sequence[str]) -> Iterator[RenderableType]:
    told = f"{count(len(problems), 'problem')} while reading"
    yield _Item("", Text(told, style="bold yellow"))
    for problem in problems[:_SHOWN]:
        yield _Item("  ", Text(plain(problem)))
    if len(problems) > _SHOWN:
        yield _Item("  ", Text(f"and {len(problems) - _SHOWN:,} more"))
