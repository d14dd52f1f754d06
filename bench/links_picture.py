"""The picture of README.md: how long an all-reduce of 25 MiB takes, by links, read from the newest page of `links`.

scripts/reference_pages.py writes it. It has no background, and colors that are readable on white and on black."""

import dataclasses
import pathlib
import re
from xml.sax.saxutils import escape

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
SIZE = "25 MiB"
CONTENDERS = {"Shoal": "#2b8fb3", "torch Gloo": "#d9822b"}
GRAY = "#808890"
WIDTH, LEFT, RIGHT, TOP = 720, 250, 90, 62
BAR, GROUP = 15, 46
MOST_BOUNDS = 2.0  # the axis ends there: a ring of many workers needs almost twice the bound


@dataclasses.dataclass(frozen=True)
class Rig:
    rate_mbit: float
    label: str
    bound_ms: float
    medians_ms: dict[str, float]


def newest_page() -> pathlib.Path:
    return max(RESULTS.glob("links_20*.md"))


def rigs_of(page: str) -> list[Rig]:
    """Of each scenario that has the size and both contenders; the fastest links first."""
    rigs = []
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        name = re.match(r"n=(\d+), k=(\d+), ([\d.]+) Mbit/s(.*)", part)
        medians = dict(re.findall(rf"^\| {SIZE} \| ([^|]+) \| ([\d.]+) ms \[", part, re.MULTILINE))
        bound = re.search(rf"^\| {SIZE} \| ([\d.]+) ms \| ([\d.]+) ms \|", part, re.MULTILINE)
        if name is None or bound is None or not CONTENDERS.keys() <= medians.keys():
            continue
        label = f"{name[3]} Mbit/s{name[4]}; {name[1]} workers, {name[2]} servers"
        times = {contender: float(medians[contender]) for contender in CONTENDERS}
        rigs.append(Rig(float(name[3]), label, float(bound[2]), times))
    return sorted(rigs, key=lambda rig: -rig.rate_mbit)


def text(x: float, y: float, content: str, size: int = 12, anchor: str = "start") -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" fill="{GRAY}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" {style}>{escape(content)}</text>'


def draw(rigs: list[Rig]) -> str:
    bottom = TOP + GROUP * len(rigs)

    def x_of(bounds: float) -> float:
        return LEFT + bounds / MOST_BOUNDS * (WIDTH - LEFT - RIGHT)

    parts = [text(0, 16, f"Time of an all-reduce of {SIZE} (bars: in units of the bound; shorter is better)", 14)]
    x = LEFT
    for contender, color in CONTENDERS.items():
        parts.append(f'<rect x="{x}" y="32" width="12" height="12" fill="{color}"/>')
        parts.append(text(x + 18, 43, contender))
        x += 110
    for bounds in (0, 0.5, 1, 1.5, 2):
        dash = ' stroke-dasharray="4 3" stroke-width="2"' if bounds == 1 else ' stroke-opacity="0.4"'
        line = f'x1="{x_of(bounds):.0f}" y1="{TOP - 6}" x2="{x_of(bounds):.0f}" y2="{bottom}"'
        parts.append(f'<line {line} stroke="{GRAY}"{dash}/>')
        parts.append(text(x_of(bounds), bottom + 16, f"{bounds:g}", anchor="middle"))
    for i, rig in enumerate(rigs):
        y = TOP + i * GROUP
        link, _, members = rig.label.partition("; ")
        rate, _, ports = link.partition(", ")
        parts += [text(0, y + 13, rate + (f", {ports}" if ports else "")), text(0, y + 29, members)]
        for j, (contender, median_ms) in enumerate(rig.medians_ms.items()):
            top, end = y + j * (BAR + 2), x_of(median_ms / rig.bound_ms)
            bar = f'x="{LEFT}" y="{top}" width="{end - LEFT:.0f}" height="{BAR}"'
            parts.append(f'<rect {bar} fill="{CONTENDERS[contender]}"/>')
            parts.append(text(end + 5, top + 12, f"{median_ms:.0f} ms"))
    foot = f"The bound (1, dashed): {SIZE} divided by the rate of a worker's link. Medians; {newest_page().name}."
    parts.append(text(0, bottom + 38, foot))
    size = f'width="{WIDTH}" height="{bottom + 48}" viewBox="0 0 {WIDTH} {bottom + 48}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" role="img">'
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def picture() -> str:
    return draw(rigs_of(newest_page().read_text(encoding="utf-8")))
