"""The summary of a run for a terminal: 80 columns, with colour and without."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from surefoot.records import CheckpointInfo, Finding, Run
from surefoot.report.facts import Facts, Point, facts
from surefoot.report.text import by_weight, count, heading, number, plain, tally

if TYPE_CHECKING:
    from surefoot.report.columns import Curve

STATUS_STYLES = {
    "finished": "green",
    "running": "cyan",
    "interrupted": "yellow",
    "killed": "yellow",
    "halted": "red",
}
_SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_CHECKPOINT_STYLES = {"confirmed": "green", "quarantined": "red"}
_SHOWN = 3
"""Checkpoints and problems shown; the rest is counted."""


def summary(run: Run, findings: Iterable[Finding]) -> RenderableType:
    """What a person wants to know of a run, as a rich renderable.

    ::

        from rich.console import Console
        Console().print(summary(run, findings))

    Args:
        run: any run, also an empty one.
        findings: what is told of it, in any order.

    Returns:
        Name, status, steps, losses, throughput, a picture of the loss, findings, newest checkpoints
        and problems. No control character of the run's own texts is in it.
    """
    from surefoot.report.columns import curve

    known = facts(run)
    blocks: list[RenderableType] = [_title(run, known), _numbers(known)]
    loss = curve(run, "loss")
    if loss is not None and len(loss.steps) > 1:
        blocks += ["", Padding(_Picture(loss), (0, 0, 0, 2))]
    blocks += ["", *_findings(by_weight(findings))]
    if run.checkpoints:
        blocks += ["", *_checkpoints(run.checkpoints)]
    if run.problems:
        blocks += ["", *_problems(run.problems)]
    return Group(*blocks)


@dataclass(frozen=True, slots=True)
class _Picture:
    """The loss, as wide as the terminal allows and in characters it can show."""

    loss: "Curve"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from surefoot.report.sparkline import sparkline

        width = min(options.max_width, 100)
        for line in sparkline(self.loss, width, ascii_only=options.ascii_only):
            yield Text(line, no_wrap=True, overflow="crop")


def _title(run: Run, known: Facts) -> Text:
    title = Text()
    title.append(plain(run.name), style="bold")
    title.append("  ")
    style = STATUS_STYLES.get(known.status.word, "")
    title.append(known.status.word, style=f"bold {style}".strip())
    if known.status.detail:
        title.append(f" ({known.status.detail})")
    if run.path:
        title.append(f"\n{plain(run.path)}", style="dim")
    return title


def _numbers(known: Facts) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    restarts = f", restarted {_times(len(known.restarts))}" if known.restarts else ""
    tokens = f", {number(known.consumed_tokens)} tokens" if known.consumed_tokens else ""
    table.add_row("  steps", Text(known.progress() + tokens + restarts))
    table.add_row("  loss", _loss(known))
    if known.validation_last is not None:
        parts = [_at(known.validation_last, "last"), _at(known.validation_best, "best")]
        table.add_row("  validation", Text(", ".join(part for part in parts if part) + " (nats)"))
    if known.tokens_per_second is not None:
        table.add_row("  tokens/s", Text(f"{number(known.tokens_per_second)} (median)"))
    return table


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


def _findings(findings: Sequence[Finding]) -> Iterator[RenderableType]:
    yield Text(f"findings: {tally(findings)}" if findings else "no findings", style="bold")
    for finding in findings:
        head = Text(heading(finding))
        head.stylize(_SEVERITY_STYLES[finding.severity], 0, len(finding.severity))
        yield Padding(head, (0, 0, 0, 2))
        if finding.message:
            yield Padding(Text(plain(finding.message)), (0, 0, 0, 4))
        for index, action in enumerate(finding.actions, 1):
            row = Table.grid(padding=(0, 1, 0, 0))
            row.add_row(Text(f"{index}."), Text(plain(action)))
            yield Padding(row, (0, 0, 0, 4))


def _checkpoints(checkpoints: Sequence[CheckpointInfo]) -> Iterator[RenderableType]:
    newest = sorted(checkpoints, key=lambda c: c.step, reverse=True)
    more = f" (newest {_SHOWN} of {len(newest)})" if len(newest) > _SHOWN else ""
    yield Text(f"checkpoints{more}", style="bold")
    table = Table.grid(padding=(0, 2, 0, 0))
    for info in newest[:_SHOWN]:
        status = Text(plain(info.status), style=_CHECKPOINT_STYLES.get(info.status, ""))
        if info.reason:
            status.append(f": {plain(info.reason)}", style="not bold default")
        table.add_row(f"  step {info.step:,}", status)
    yield table


def _problems(problems: Sequence[str]) -> Iterator[RenderableType]:
    yield Text(f"{count(len(problems), 'problem')} while reading", style="bold yellow")
    for problem in problems[:_SHOWN]:
        yield Padding(Text(plain(problem)), (0, 0, 0, 2))
    if len(problems) > _SHOWN:
        yield Padding(Text(f"and {len(problems) - _SHOWN:,} more"), (0, 0, 0, 2))
