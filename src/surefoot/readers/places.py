"""Columns of single places (``grad_norm@layers.3``) to one list column a signal."""

from typing import TYPE_CHECKING

from surefoot.runs import PLACES

if TYPE_CHECKING:
    import polars


def fold_places(
    frame: "polars.DataFrame",
) -> tuple["polars.DataFrame", dict[str, tuple[str, ...]]]:
    """The frame with list columns ``signal@places``, and for each the places in their order."""
    import polars as pl

    found: dict[str, list[str]] = {}
    for column in frame.columns:
        signal, at, place = column.partition("@")
        if at:
            found.setdefault(signal, []).append(place)
    if not found:
        return frame, {}
    lists = []
    for signal, places in found.items():
        columns = [f"{signal}@{place}" for place in places]
        listed = pl.concat_list([pl.col(c).cast(pl.Float32) for c in columns])
        empty = pl.all_horizontal([pl.col(c).is_null() for c in columns])
        lists.append(pl.when(~empty).then(listed).alias(f"{signal}{PLACES}"))
    gone = [c for c in frame.columns if "@" in c]
    return (
        frame.with_columns(lists).drop(gone),
        {signal: tuple(places) for signal, places in found.items()},
    )
