"""The result as JSON, with the fields that programs rely on, and as a table for people."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.figures import Summary, ratios

DISTURBED_PERCENT = 5.0


@dataclass(frozen=True)
class Report:
    """All that was measured in one call. `checked`: every round asked for ran and its row counts were right."""

    workload: str
    data: str
    rows: int
    rows_per_batch: int
    checked: bool
    engines: Mapping[str, Summary]
    missing: Mapping[str, str] = field(default_factory=dict)
    """Engines without a round: why."""


def to_json(report: Report) -> dict[str, Any]:
    """The document that `--json` writes."""
    return {
        "workload": report.workload,
        "data": report.data,
        "rows": report.rows,
        "rows_per_batch": report.rows_per_batch,
        "checked": report.checked,
        "engines": {
            name: {
                "rows_per_s": round(summary.rows_per_s, 1),
                "peak_rss_mb": round(summary.peak_rss_mb, 1),
                "runs": [_round_floats(asdict(run)) for run in summary.runs],
            }
            for name, summary in report.engines.items()
        },
        "ratios": {name: round(ratio, 3) for name, ratio in ratios(report.engines).items()},
    }


def to_table(report: Report) -> str:
    """The report for a terminal, fastest engine first."""
    header = ("engine", "steady rows/s", "of each round", "peak RSS MB", "penstock ÷", "other CPU %")
    to_penstock = ratios(report.engines)
    rows = [header]
    for name, summary in sorted(report.engines.items(), key=lambda item: -item[1].rows_per_s):
        foreign = max(run.foreign_cpu_percent for run in summary.runs)
        rows.append(
            (
                name,
                f"{summary.rows_per_s:,.0f}",
                " ".join(f"{run.rows_per_s:,.0f}{'*' if run.partial else ''}" for run in summary.runs),
                f"{summary.peak_rss_mb:,.0f}",
                f"{to_penstock[name]:.2f}" if name in to_penstock else "",
                f"{foreign:.1f}{' !' if foreign > DISTURBED_PERCENT else ''}",
            )
        )
    title = (
        f"{report.workload} on {report.data}: {report.rows:,} rows, {report.rows_per_batch:,} per micro-batch, "
        f"row counts {'right' if report.checked else 'NOT ALL CHECKED'}"
    )
    return "\n".join([title, *_aligned(rows), *notes(report)])


def notes(report: Report) -> list[str]:
    """What to know of rounds that were cut short or disturbed."""
    runs = [run for summary in report.engines.values() for run in summary.runs]
    found = []
    if any(run.partial for run in runs):
        found.append("*  stopped at the time limit: the rate of what was finished")
    if any(run.foreign_cpu_percent > DISTURBED_PERCENT for run in runs):
        found.append(f"!  other work used more than {DISTURBED_PERCENT:.0f} % of the machine: a low estimate")
    return found


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [
        "  ".join([name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))])
        for name, *cells in rows
    ]


def _round_floats(run: dict[str, Any]) -> dict[str, Any]:
    figures = {name: round(value, 3) for name, value in run["figures"].items()}
    others = {name: value for name, value in run.items() if name != "figures"}
    rounded = {name: round(value, 1) if isinstance(value, float) else value for name, value in others.items()}
    return {**rounded, "figures": figures} if figures else rounded
