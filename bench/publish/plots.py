"""Plots of the results as SVG, drawn without a library: bars for each case, lines where something grows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from bench.figures import STATE_PROCESS

WIDTH = 760
LABEL_WIDTH = 190
BAR_HEIGHT, BAR_STEP = 20, 30
TOP = 46
CHART_HEIGHT = 260
COLOURS = ("#2f6db3", "#b5642b", "#3d7a4a", "#7a4a9c", "#a3493b", "#5f6b76", "#0f8a8a")
STYLE = """
    .paper { fill: #ffffff; }
    .own { fill: #2f6db3; }
    .other { fill: #9db0c4; }
    .axis { stroke: #8196ab; stroke-width: 1; }
    text { font-family: system-ui, sans-serif; font-size: 13px; fill: #1b2733; }
    .title { font-size: 15px; font-weight: bold; }
    .small { font-size: 12px; fill: #44566a; }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #1d232b; }
      .own { fill: #6ea8e6; }
      .other { fill: #56697d; }
      text { fill: #e3e9ef; }
      .small { fill: #b3c0cd; }
    }
"""

Cases = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Axis:
    """What grows from left to right, and what is drawn over it."""

    name: str
    title: str
    x_label: str
    x: str
    """The field of a case."""
    y_label: str
    figure: str = ""
    """Of an engine; the rate if empty."""
    only: tuple[str, Any] | None = None
    """A field that all cases of the plot have in common, and its value."""


AXES: Mapping[str, Sequence[Axis]] = {
    "w1": (
        Axis(
            "w1-rows-per-epoch",
            "w1 by rows per epoch",
            "rows per epoch",
            "rows_per_epoch",
            "rows/s",
            only=("data", "big"),
        ),
        Axis("w1-keys", "w1 by number of keys", "keys", "keys", "rows/s", only=("rows_per_epoch", 250_000)),
    ),
    "w5": (
        Axis("w5-keys", "w5 by number of keys", "keys", "keys", "rows/s"),
        Axis("w5-memory", "w5: memory of a TaskManager", "keys", "keys", "MB", STATE_PROCESS),
    ),
    "w7": (
        Axis("w7-full", "w7: full checkpoints", "keys", "keys", "keys/s per core", "full checkpoint keys/s per core"),
    ),
    "w8": (Axis("w8-p50", "w8: median latency by rate", "rows/s", "events_per_s", "ms", "p50 ms"),),
}


def plots_of(document: Mapping[str, Any]) -> dict[str, str]:
    """All plots by name."""
    found: dict[str, str] = {}
    for workload in dict.fromkeys(case["workload"] for case in document["cases"].values()):
        own = {name: case for name, case in document["cases"].items() if case["workload"] == workload}
        found |= {name: bars(case) for name, case in own.items() if has_bars(case)}
        found |= {axis.name: lines(axis, points_of(axis, own)) for axis in axes_of(workload, own)}
    return found


def plot_names(workload: str, cases: Cases) -> dict[str, str]:
    """The plots of a workload by name, each with what it shows."""
    shown = {name: f"Rows per second of each engine, {name}" for name, case in cases.items() if has_bars(case)}
    return {**shown, **{axis.name: axis.title for axis in axes_of(workload, cases)}}


def has_bars(case: Mapping[str, Any]) -> bool:
    """Whether rates of several engines can be compared."""
    return "rows_per_epoch" in case and len(rates_of(case)) > 1


def axes_of(workload: str, cases: Cases) -> list[Axis]:
    """Those over which at least one engine has two points."""
    axes = AXES.get(workload, ())
    return [axis for axis in axes if any(len(points) > 1 for points in points_of(axis, cases).values())]


def rates_of(case: Mapping[str, Any]) -> dict[str, float]:
    """The rates that count."""
    return {name: entry["rows_per_s"] for name, entry in case["engines"].items() if "rows_per_s" in entry}


def points_of(axis: Axis, cases: Cases) -> dict[str, list[tuple[float, float]]]:
    """For each engine its points, from left to right."""
    points: dict[str, list[tuple[float, float]]] = {}
    for case in cases.values():
        if axis.x not in case or (axis.only and case.get(axis.only[0]) != axis.only[1]):
            continue
        for name, entry in case["engines"].items():
            value = entry.get("figures", {}).get(axis.figure) if axis.figure else entry.get("rows_per_s")
            if entry["status"] == "measured" and value is not None:
                points.setdefault(name, []).append((case[axis.x], value))
    return {name: sorted(own) for name, own in points.items()}


def bars(case: Mapping[str, Any]) -> str:
    """A bar for each engine, the longest on top."""
    rates = sorted(rates_of(case).items(), key=lambda item: -item[1])
    longest = rates[0][1]
    title = f"{case['workload']} on {case['data']}, {case['rows_per_epoch']:,} rows per epoch: rows/s"
    parts = []
    for number, (name, rate) in enumerate(rates):
        top = TOP + number * BAR_STEP
        length = max(1.0, (WIDTH - LABEL_WIDTH - 110) * rate / longest)
        kind = "own" if name.startswith("penstock") else "other"
        middle = top + BAR_HEIGHT / 2 + 5
        parts += [
            f'<text x="{LABEL_WIDTH - 8}" y="{middle:.0f}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="{kind}" x="{LABEL_WIDTH}" y="{top}" width="{length:.1f}" height="{BAR_HEIGHT}"/>',
            f'<text x="{LABEL_WIDTH + length + 8:.1f}" y="{middle:.0f}">{rate:,.0f}</text>',
        ]
    listed = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates)
    return svg(title, f"Rows per second: {listed}.", parts, TOP + len(rates) * BAR_STEP + 10)


def lines(axis: Axis, points: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """A line for each engine; the x axis is logarithmic, the y axis begins at 0."""
    left, right, bottom = 90, WIDTH - 200, TOP + CHART_HEIGHT
    xs = sorted({x for own in points.values() for x, _ in own})
    highest = nice(max(y for own in points.values() for _, y in own))
    low, span = math.log(xs[0]), (math.log(xs[-1]) - math.log(xs[0])) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        return left + (right - left) * (math.log(x) - low) / span, bottom - CHART_HEIGHT * y / highest

    parts = [f'<line class="axis" x1="{left}" y1="{bottom}" x2="{right}" y2="{bottom}"/>']
    for x in xs:
        parts.append(
            f'<text class="small" x="{place(x, 0)[0]:.1f}" y="{bottom + 18}" text-anchor="middle">{x:,.0f}</text>'
        )
    for part in range(5):
        y = place(xs[0], highest * part / 4)[1]
        parts.append(f'<line class="axis" opacity="0.35" x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        label = f"{highest * part / 4:,.0f}" if highest >= 8 else f"{highest * part / 4:.2g}"
        parts.append(f'<text class="small" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    parts.append(
        f'<text class="small" x="{(left + right) / 2}" y="{bottom + 38}" text-anchor="middle">{axis.x_label}</text>'
    )
    for number, (name, own) in enumerate(points.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [place(*point) for point in own]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
        row = TOP + 8 + number * 22
        parts.append(f'<rect x="{right + 24}" y="{row - 9}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{right + 42}" y="{row + 2}">{escape(name)}</text>')
    listed = "; ".join(f"{name} " + ", ".join(f"{y:,.1f} at {x:,.0f}" for x, y in own) for name, own in points.items())
    return svg(f"{axis.title}: {axis.y_label}", f"{axis.y_label} by {axis.x_label}: {listed}.", parts, bottom + 50)


def nice(value: float) -> float:
    """The next number above that reads well on an axis.

    >>> nice(174_000), nice(83), nice(0.4)
    (200000.0, 100.0, 0.4)
    """
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(step * power for step in (1, 2, 4, 5, 8, 10) if step * power >= value * (1 - 1e-9))


def svg(title: str, description: str, parts: Sequence[str], height: float) -> str:
    """The picture, readable on light and dark pages."""
    body = "\n".join(f"  {part}" for part in parts)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}"'
    return (
        f'{head} role="img" aria-labelledby="t d">\n'
        f'  <title id="t">{escape(title)}</title>\n  <desc id="d">{escape(description)}</desc>\n'
        f"  <style>{STYLE}  </style>\n"
        f'  <rect class="paper" width="{WIDTH}" height="{height:.0f}"/>\n'
        f'  <text class="title" x="16" y="26">{escape(title)}</text>\n{body}\n</svg>\n'
    )
