"""Made-up rounds of an engine."""

from dataclasses import replace
from typing import Any

from bench.figures import Run

_RUN = Run(
    rows_per_s=1.0,
    peak_rss_mb=100.0,
    wall_s=1.0,
    rows=1,
    batches=1,
    foreign_cpu_percent=0.0,
    checked=True,
    partial=False,
)


def make_run(rows_per_s: float, **others: Any) -> Run:
    """A round with this rate, and with these of its other figures."""
    return replace(_RUN, rows_per_s=rows_per_s, **others)
