"""The picture of the table: recall against false alarms, drawn as plain SVG."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 860, 460
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 44, 52
FLOOR = 0.05
"""False alarms per 10 000 steps below which a point is drawn at the edge, as "none"."""


@dataclass(frozen=True, slots=True)
class Point:
    """One detector.

    Attributes:
        name: label.
        false: false alarms per 10 000 healthy steps.
        recall: 0 to 1.
        interval: of the recall.
        own: whether it is drawn as surefoot's own.
    """

    name: str
    false: float
    recall: float
    interval: tuple[float, float]
    own: bool = False


def recall_plot(points: Sequence[Point], title: str, target: tuple[float, float]) -> str:
    """The SVG; ``target`` is the corner (false alarms, recall) to be reached."""
    most = max([point.false for point in points if math.isfinite(point.false)] + [10.0])
    decades = math.ceil(math.log10(most)) - math.log10(FLOOR)

    def x(false: float) -> float:
        share = (math.log10(max(false, FLOOR)) - math.log10(FLOOR)) / decades
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(recall: float) -> float:
        return HEIGHT - BOTTOM - recall * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15">{html.escape(title)}</text>',
        f'<rect x="{LEFT}" y="{y(1):.1f}" width="{x(target[0]) - LEFT:.1f}" '
        f'height="{y(target[1]) - y(1):.1f}" fill="#d9f0d9"/>',
    ]
    for tenth in range(0, 11, 2):
        parts.append(_line(LEFT, y(tenth / 10), WIDTH - RIGHT, y(tenth / 10), "#ddd"))
        parts.append(_text(LEFT - 8, y(tenth / 10) + 4, f"{tenth / 10:g}", "end"))
    for exponent in range(math.ceil(math.log10(FLOOR)), math.ceil(math.log10(most)) + 1):
        parts.append(_line(x(10.0**exponent), y(0), x(10.0**exponent), y(1), "#eee"))
        parts.append(_text(x(10.0**exponent), y(0) + 18, f"{10.0**exponent:g}", "middle"))
    parts.append(_text(LEFT, y(0) + 18, "none", "middle"))
    parts.append(_text((LEFT + WIDTH) / 2, HEIGHT - 10, "false alarms per 10 000 healthy steps"))
    parts.append(_text(LEFT, TOP - 6, "share of faults found (bars: 95 %)", "start"))
    taken: list[tuple[float, float]] = []
    # Labels make room downwards, those near the axis upwards.
    low = sorted((one for one in points if one.recall < 0.15), key=lambda one: one.recall)
    high = sorted((one for one in points if one.recall >= 0.15), key=lambda one: -one.recall)
    for point in [*high, *low]:
        if not math.isfinite(point.false) or not math.isfinite(point.recall):
            continue
        color = "#1a7f37" if point.own else "#444"
        px, py = x(point.false), y(point.recall)
        parts.append(_line(px, y(point.interval[0]), px, y(point.interval[1]), color))
        parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="5" fill="{color}"/>')
        right = px < WIDTH - 240
        ly = py
        while any(abs(ly - other) < 13 and abs(px - ox) < 220 for ox, other in taken):
            ly += 13 if point.recall >= 0.15 else -13
        taken.append((px, ly))
        label = _text(px + (9 if right else -9), ly + 4, point.name, "start" if right else "end")
        parts.append(label.replace("<text", f'<text fill="{color}"', 1))
    parts.append("</svg>\n")
    return "\n".join(parts)


def _line(x1: float, y1: float, x2: float, y2: float, color: str) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{color}" stroke-width="1.3"/>'
    )


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'
