"""Which checkpoints to keep: the newest k, then ever sparser ones, and the newest confirmed one.

Trouble may be noticed long after it began, so the way back must reach far: checkpoints 1, 2, 4, 8 …
intervals back let a rewind lose at most about as many steps again as it has to, at a storage that
grows with the logarithm of the run's length.
"""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from surefoot.checkpoint.folder import discard
from surefoot.checkpoint.index import known_checkpoints, write_index


def steps_to_keep(
    steps: Iterable[int], *, keep_newest: int, interval: int, confirmed: int | None
) -> set[int]:
    """The steps to keep of those at hand; call it after each save.

    An inner checkpoint goes if its kept neighbours stay within a factor 4 of each other in age, as
    then every age between them is within a factor 2 of one of the two. Ages only grow, which
    brings neighbours closer in ratio, so what holds once holds for good, in whatever rhythm
    checkpoints are made. Of any three neighbours the outer two are more than a factor 4 apart:
    at most about log2(n) remain of n.

    Args:
        steps: the checkpoints there are, quarantined ones left out.
        keep_newest: how many of the newest stay whatever their age; at least 1.
        interval: steps between regular saves; ages below it count as one.
        confirmed: the newest confirmed checkpoint, None if there is none.

    Returns:
        The newest ``keep_newest``, the oldest, ``confirmed`` and the spaced ones between.
    """
    ordered = sorted(set(steps), reverse=True)
    if not ordered:
        return set()
    newest = ordered[0]
    pinned = {*ordered[:keep_newest], confirmed}
    kept = [newest]
    for step, older in pairwise(ordered[1:]):
        # Half an interval: the target "1 interval back" is met within a factor 2 by 2 intervals.
        nearer = max(newest - kept[-1], interval / 2)
        if step in pinned or newest - older > 4 * nearer:
            kept.append(step)
    return {*kept, ordered[-1]}


def quarantined_to_keep(quarantined: Iterable[tuple[int, int, str]]) -> set[int]:
    """The steps to keep of quarantined checkpoints: for each reason the one saved last.

    Args:
        quarantined: (step, serial number of the save, reason) of each.
    """
    latest: dict[str, tuple[int, int]] = {}
    for step, serial, reason in quarantined:
        latest[reason] = max(latest.get(reason, (-1, -1)), (serial, step))
    return {step for _, step in latest.values()}


def rotate(folder: Path, *, keep_newest: int, interval: int) -> None:
    """Delete the checkpoints in ``folder`` that need not stay, and write the index of the rest.

    The index goes first: it names no checkpoint that is not there.
    """
    checkpoints = known_checkpoints(folder)
    trusted = [known for known in checkpoints if known.status != "quarantined"]
    keep = steps_to_keep(
        (known.step for known in trusted),
        keep_newest=keep_newest,
        interval=interval,
        confirmed=max((known.step for known in trusted if known.confirmed), default=None),
    )
    keep |= quarantined_to_keep(
        (known.step, known.manifest.serial, known.manifest.quarantine)
        for known in checkpoints
        if known.manifest.quarantine is not None
    )
    write_index(folder, [known for known in checkpoints if known.step in keep])
    for known in checkpoints:
        if known.step not in keep:
            discard(known.folder)
