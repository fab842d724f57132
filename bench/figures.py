"""From batches to the numbers of the report: steady rates, medians over rounds, ratios. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import median

from bench.errors import RoundFailedError

STATE_PROCESS = "state process peak MB"
"""The figure of the largest process that keeps state."""


@dataclass(frozen=True)
class Batch:
    """Rows that an engine read and wrote between two moments; `rows_out` is None when it cannot tell."""

    rows: int
    started_ms: float
    finished_ms: float
    rows_out: int | None = None


@dataclass(frozen=True)
class Run:
    """One round of one engine."""

    rows_per_s: float
    peak_rss_mb: float
    wall_s: float
    rows: int
    batches: int
    foreign_cpu_percent: float
    checked: bool
    """Whether it was complete and its counts were right."""
    partial: bool
    """Whether it was stopped at the time limit."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Those that are not rates, by their name and unit."""


@dataclass(frozen=True)
class Summary:
    """All rounds of one engine: the medians and what they are made of."""

    rows_per_s: float
    peak_rss_mb: float
    runs: tuple[Run, ...]
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def counts(self) -> bool:
        """Whether it may be compared: all rounds were complete, with right counts."""
        return all(run.checked for run in self.runs)


def parse_batches(text: str) -> list[Batch]:
    """Batches of an events file, in its order. A last line without its end was cut off by a kill and is left out."""
    return [Batch(**json.loads(line)) for line in text.split("\n")[:-1]]


def steady_rate(batches: Sequence[Batch], warmup_batches: int) -> float:
    """Rows per second after the warm-up, pauses between batches included.

    The clock runs from the end of the warm-up to the end of the last batch; without a warm-up, from the first start.
    Spans of processes that ran side by side may overlap.
    """
    ordered = sorted(batches, key=lambda batch: batch.finished_ms)
    steady = ordered[warmup_batches:]
    if not steady:
        raise RoundFailedError(
            f"only {len(batches)} batches were finished and the first {warmup_batches} are warm-up; allow more time"
        )
    if warmup_batches:
        start_ms = ordered[warmup_batches - 1].finished_ms
    else:
        start_ms = min(batch.started_ms for batch in steady)
    elapsed_ms = steady[-1].finished_ms - start_ms
    if elapsed_ms <= 0:
        raise RoundFailedError(f"{len(steady)} steady batches took {elapsed_ms} ms by their own clock")
    return sum(batch.rows for batch in steady) * 1000 / elapsed_ms


def batches_of_warmup(batches: Sequence[Batch], warmup_rows: int) -> int:
    """How many batches, in the order in which they ended, hold so many rows."""
    if not warmup_rows:
        return 0
    ordered = sorted(batches, key=lambda batch: batch.finished_ms)
    until = accumulate(batch.rows for batch in ordered)
    return next((number for number, rows in enumerate(until, 1) if rows >= warmup_rows), len(ordered))


def counts_match(batches: Sequence[Batch], expected_rows: int, expected_rows_out: int | None = None) -> bool:
    """Whether every expected row was read once and, where the engine counts them, so many rows came out.

    Without their number, one row must have come out for each.
    """
    if expected_rows_out is None:
        expected_rows_out = expected_rows
    rows = sum(batch.rows for batch in batches)
    counted = [batch.rows_out for batch in batches if batch.rows_out is not None]
    return rows == expected_rows and (not counted or sum(counted) == expected_rows_out)


def summarise(runs: Sequence[Run]) -> Summary:
    """The medians of an engine's rounds."""
    return Summary(
        rows_per_s=median(run.rows_per_s for run in runs),
        peak_rss_mb=median(run.peak_rss_mb for run in runs),
        runs=tuple(runs),
        figures={
            name: median(run.figures[name] for run in runs if name in run.figures)
            for name in dict.fromkeys(name for run in runs for name in run.figures)
        },
    )


def ratios(summaries: Mapping[str, Summary]) -> dict[str, float]:
    """How many times faster Penstock is than each of the others; of its variants alone, the first that was named.

    Engines with a round that was stopped at the time limit or has miscounted are left out.
    """
    counting = {name: summary for name, summary in summaries.items() if summary.counts}
    to = base_of(list(summaries))
    if to not in counting:
        return {}
    return {name: counting[to].rows_per_s / summary.rows_per_s for name, summary in counting.items() if name != to}


def base_of(names: Sequence[str]) -> str:
    """The engine that the others are compared with.

    >>> base_of(["bytewax", "penstock"]), base_of(["penstock_rocksdb", "pyflink_thread"])
    ('penstock', 'penstock_rocksdb')
    """
    return "penstock" if "penstock" in names else next(iter(names), "")


def lost_percent(without: Summary, with_it: Summary) -> float:
    """The part of the throughput that something costs; below 0 if the medians are the other way round."""
    return 100 * (1 - with_it.rows_per_s / without.rows_per_s)


def limit_line(text: str, limit: str, *, is_within: bool) -> str:
    """A figure beside its limit.

    >>> limit_line("3.1 % of the throughput lost", "at most 2 %", is_within=False)
    '3.1 % of the throughput lost (limit: at most 2 %): MISSED'
    """
    return f"{text} (limit: {limit}): {'kept' if is_within else 'MISSED'}"
