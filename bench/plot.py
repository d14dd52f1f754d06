"""Bar charts as SVG, without a library: groups of bars, with a dashed line for each bound of a group."""

import dataclasses
import math
import textwrap
from xml.sax.saxutils import escape

COLORS = (
    "#1f6f8b", "#e08e45", "#7a9e4b", "#a35d8f", "#8c8c8c", "#c75146", "#4f5d95", "#d9b44a", "#5fb0a5", "#3b3b3b",
    "#b8a1d9", "#7d5a3c",
)  # fmt: skip
HEIGHT = 380
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 64, 40
BAR_WIDTH = 26
GROUP_GAP = 34
LEGEND_ROW = 18
FOOT_ROW = 15
FOOT_LETTER = 5.4  # about, of its size


@dataclasses.dataclass(frozen=True)
class Bar:
    label: str  # in the legend
    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Group:
    label: str
    bars: list[Bar]
    bounds: dict[str, float]  # name of the line and its height


def text(x: float, y: float, content: str, size: int = 11, anchor: str = "start", color: str = "#333") -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" fill="{color}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def nice_step(top: float) -> float:
    """A round number that goes about five times into `top`."""
    power = 10 ** math.floor(math.log10(top / 5))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power * 5 >= top)


def bar_chart(title: str, unit: str, groups: list[Group], foot: list[str]) -> str:
    labels = list(dict.fromkeys(bar.label for group in groups for bar in group.bars))
    color = {label: COLORS[i % len(COLORS)] for i, label in enumerate(labels)}
    widths = [len(group.bars) * BAR_WIDTH for group in groups]
    width = max(720, LEFT + RIGHT + sum(widths) + GROUP_GAP * (len(groups) + 1))
    highest = max([bar.high for group in groups for bar in group.bars] + [b for g in groups for b in g.bounds.values()])
    step = nice_step(highest)
    top = step * (int(highest / step) + 1)
    bottom = HEIGHT - BOTTOM

    def y_of(value: float) -> float:
        return bottom - value / top * (bottom - TOP)

    parts = [text(LEFT, 22, title, 15, color="#111"), text(LEFT, 42, unit)]
    for i in range(int(top / step) + 1):
        parts.append(line(LEFT, y_of(i * step), width - RIGHT, y_of(i * step), 'stroke="#ddd"'))
        parts.append(text(LEFT - 6, y_of(i * step) + 4, f"{i * step:g}", anchor="end"))
    x = LEFT + GROUP_GAP
    for group, group_width in zip(groups, widths):
        for i, bar in enumerate(group.bars):
            left, middle = x + i * BAR_WIDTH, x + (i + 0.5) * BAR_WIDTH
            parts.append(
                f'<rect x="{left + 2:.1f}" y="{y_of(bar.value):.1f}" width="{BAR_WIDTH - 4}"'
                f' height="{bottom - y_of(bar.value):.1f}" fill="{color[bar.label]}"/>'
            )
            parts.append(line(middle, y_of(bar.low), middle, y_of(bar.high), 'stroke="#333"'))
            parts.append(text(middle, y_of(bar.high) - 4, f"{bar.value:.3g}", 9, "middle"))
        for name, height in group.bounds.items():
            parts.append(
                line(x - 8, y_of(height), x + group_width + 8, y_of(height), 'stroke="#c00" stroke-dasharray="4 3"')
            )
            parts.append(text(x + group_width + 10, y_of(height) + 3, name, 9, color="#c00"))
        parts.append(text(x + group_width / 2, bottom + 18, group.label, 11, "middle"))
        x += group_width + GROUP_GAP
    below = HEIGHT + 4
    for i, label in enumerate(labels):
        column, row = i % 3, i // 3
        left, base = LEFT + column * 220, below + row * LEGEND_ROW
        parts.append(f'<rect x="{left}" y="{base - 10}" width="12" height="12" fill="{color[label]}"/>')
        parts.append(text(left + 18, base, label))
    below += (len(labels) + 2) // 3 * LEGEND_ROW
    foot_lines = [
        row for sentence in foot for row in textwrap.wrap(sentence, int((width - LEFT - RIGHT) / FOOT_LETTER))
    ]
    for i, sentence in enumerate(foot_lines):
        parts.append(text(LEFT, below + (i + 1) * FOOT_ROW, sentence, 10, color="#666"))
    height = below + (len(foot_lines) + 1) * FOOT_ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" font-family="sans-serif">'
        f'<rect width="100%" height="100%" fill="white"/>' + "\n".join(parts) + "</svg>\n"
    )
