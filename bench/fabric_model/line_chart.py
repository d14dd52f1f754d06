"""Lines over numbers of workers as SVG, without a library. Both axes are logarithmic."""

import math
from xml.sax.saxutils import escape

from plot import COLORS, line, text

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 64, 50
LEGEND_ROW = 18


def line_chart(title: str, unit: str, lines: dict[str, list[tuple[float, float]]], foot: list[str]) -> str:
    points = [point for each in lines.values() for point in each]
    low_x, high_x = min(x for x, _ in points), max(x for x, _ in points)
    top = 2 ** math.ceil(math.log2(max(y for _, y in points)))
    bottom = 2 ** math.floor(math.log2(min(y for _, y in points)))

    def x_of(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(x / low_x) / max(math.log(high_x / low_x), 1e-9)

    def y_of(y: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log(y / bottom) / max(math.log(top / bottom), 1e-9)

    parts = [text(LEFT, 22, title, 15, color="#111"), text(LEFT, 42, unit)]
    grid = bottom
    while grid <= top:
        parts.append(line(LEFT, y_of(grid), WIDTH - RIGHT, y_of(grid), 'stroke="#ddd"'))
        parts.append(text(LEFT - 6, y_of(grid) + 4, f"{grid:g}", anchor="end"))
        grid *= 2
    for x in sorted({x for x, _ in points}):
        parts.append(text(x_of(x), HEIGHT - BOTTOM + 18, f"{x:g}", anchor="middle"))
    for i, (name, each) in enumerate(lines.items()):
        color = COLORS[i % len(COLORS)]
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in each)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{color}"/>' for x, y in each]
        left, base = LEFT + i % 2 * 340, HEIGHT + i // 2 * LEGEND_ROW
        parts.append(f'<rect x="{left}" y="{base - 10}" width="12" height="12" fill="{color}"/>')
        parts.append(text(left + 18, base, name))
    below = HEIGHT + (len(lines) + 1) // 2 * LEGEND_ROW
    for i, sentence in enumerate(foot):
        parts.append(text(LEFT, below + (i + 1) * 15, sentence, 10, color="#666"))
    height = below + (len(foot) + 1) * 15
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif"'
        f' role="img" aria-label="{escape(title, {chr(34): "&quot;"})}">'
        f'<rect width="100%" height="100%" fill="white"/>' + "\n".join(parts) + "</svg>\n"
    )
