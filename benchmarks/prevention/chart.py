"""Curves over the learning rate, one a row, as a plain SVG."""

import html
import math
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, LEGEND = 760, 400, 60, 40, 46, 210
COLOURS = ("#1f5fa8", "#c8501e", "#2c8a4b", "#8a3fa0", "#a08500", "#c23a6b", "#4a4a4a", "#1b9aa0")

Curve = Sequence[tuple[float, float]]


def chart(
    title: str, curves: Mapping[str, Curve], *, x: str, y: str, log_y: bool = False,
    highest: float | None = None,
) -> str:  # fmt: skip
    """The SVG.

    Args:
        title: above it.
        curves: points (x, y) by name; x on a logarithmic axis. Values that are not finite are left
            out.
        x: what the axis shows.
        y: likewise.
        log_y: whether y is logarithmic.
        highest: y beyond it is drawn at the edge.
    """
    scale = math.log10 if log_y else float
    points = {
        name: [
            (math.log10(a), scale(min(b, highest or math.inf)))
            for a, b in curve
            if math.isfinite(b) and (b > 0 or not log_y)
        ]
        for name, curve in curves.items()
    }
    xs = [a for curve in points.values() for a, _ in curve] or [0.0, 1.0]
    ys = [b for curve in points.values() for _, b in curve] or [0.0, 1.0]
    x_low, x_high = min(xs), max(max(xs), min(xs) + 1e-9)
    y_low, y_high = min(ys), max(max(ys), min(ys) + 1e-9)
    right = WIDTH - LEGEND

    def at(a: float, b: float) -> tuple[float, float]:
        return (
            LEFT + (a - x_low) / (x_high - x_low) * (right - LEFT),
            HEIGHT - BOTTOM - (b - y_low) / (y_high - y_low) * (HEIGHT - BOTTOM - TOP),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14" font-weight="bold">{html.escape(title)}</text>',
        f'<text x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">'
        f"{html.escape(x)}</text>",
        f'<text x="14" y="{(TOP + HEIGHT - BOTTOM) / 2:.0f}" text-anchor="middle" transform='
        f'"rotate(-90 14 {(TOP + HEIGHT - BOTTOM) / 2:.0f})">{html.escape(y)}</text>',
    ]
    for tick in sorted({round(a, 9) for a in xs}):
        px, py = at(tick, y_low)
        parts.append(f'<line x1="{px:.1f}" x2="{px:.1f}" y1="{TOP}" y2="{py:.1f}" stroke="#eee"/>')
        parts.append(
            f'<text x="{px:.1f}" y="{py + 16:.1f}" text-anchor="middle">{10**tick:g}</text>'
        )
    for i in range(5):
        value = y_low + (y_high - y_low) * i / 4
        px, py = at(x_low, value)
        shown = 10**value if log_y else value
        parts.append(f'<line x1="{px}" x2="{right}" y1="{py:.1f}" y2="{py:.1f}" stroke="#eee"/>')
        parts.append(f'<text x="{px - 6}" y="{py + 4:.1f}" text-anchor="end">{shown:.3g}</text>')
    for number, (name, curve) in enumerate(points.items()):
        colour, row = COLOURS[number % len(COLOURS)], TOP + 10 + 20 * number
        drawn = [at(a, b) for a, b in sorted(curve)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in drawn)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in drawn]
        parts.append(
            f'<rect x="{right + 16}" y="{row - 8}" width="14" height="4" fill="{colour}"/>'
        )
        parts.append(f'<text x="{right + 36}" y="{row}">{html.escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
