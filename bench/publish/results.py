"""The document of all results: read, brought up to date case by case, and written.

It only holds what was measured: `merge` takes a report of a run. A case that is measured again replaces what was there.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.datasets import DATASETS
from bench.engine import Engine
from bench.figures import Summary, base_of
from bench.publish.machine import versions_of
from bench.publish.suite import Case
from bench.report import Report, to_json
from bench.workloads import load_workload

FORMAT = 1
MEASURED = "measured"
Document = dict[str, Any]


@dataclass(frozen=True)
class Circumstances:
    """When and on what a case was measured."""

    date: str
    commit: str
    machine: Mapping[str, Any]
    rounds: int


def empty() -> Document:
    """Nothing is measured."""
    return {"format": FORMAT, "cases": {}}


def read_results(path: Path) -> Document:
    """The document in a file, or an empty one."""
    if not path.exists():
        return empty()
    document: Document = json.loads(path.read_text(encoding="utf-8"))
    assert document["format"] == FORMAT, f"{path} has format {document['format']}, and this program writes {FORMAT}"
    return document


def write_results(path: Path, document: Document) -> None:
    """Replace the file at once, so that an interrupted run leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    unfinished.rename(path)


def merge(document: Document, case: Case, report: Report, engines: tuple[Engine, ...], by: Circumstances) -> Document:
    """The document with this case as it was measured now; the others are left as they are."""
    return {**document, "cases": {**document["cases"], case.id: to_case(case, report, engines, by)}}


def to_case(case: Case, report: Report, engines: tuple[Engine, ...], by: Circumstances) -> Document:
    """The entry of one case."""
    dataset = DATASETS[case.data]
    figures = to_json(report)
    batched = {"rows_per_epoch": case.rows_per_epoch} if load_workload(case.workload).reads_input else {}
    states = {engine.name: status_of(report, engine.name, by.rounds) for engine in engines}
    base = base_of(list(report.engines))
    compared = figures["ratios"] if states.get(base) == MEASURED else {}
    return {
        "workload": case.workload,
        "data": case.data,
        "rows": dataset.rows,
        "keys": dataset.keys,
        "events_per_s": dataset.events_per_s,
        **batched,
        "date": by.date,
        "commit": by.commit,
        "rounds": by.rounds,
        "limit_s": case.limit_s,
        "machine": dict(by.machine),
        "engines": {
            engine.name: {
                "status": states[engine.name],
                "versions": versions_of(engine),
                **({"note": engine.notes[case.workload]} if case.workload in engine.notes else {}),
                **entry_of(states[engine.name], report.engines.get(engine.name), figures["engines"].get(engine.name)),
            }
            for engine in engines
        },
        "ratio_of": base,
        "ratios": {name: ratio for name, ratio in compared.items() if states[name] == MEASURED},
    }


def entry_of(status: str, summary: Summary | None, figures: Document | None) -> Document:
    """What was found of one engine. A rate that does not count is under another name."""
    if summary is None or figures is None:
        return {}
    rate = {"rows_per_s" if status == MEASURED else "partial_rows_per_s": figures["rows_per_s"]}
    others = {"figures": {name: round(value, 3) for name, value in summary.figures.items()}} if summary.figures else {}
    return {**rate, "peak_rss_mb": figures["peak_rss_mb"], **others, "runs": figures["runs"]}


def status_of(report: Report, name: str, rounds: int) -> str:
    """`measured`, or why its figures do not count."""
    summary = report.engines.get(name)
    if name in report.missing:
        return report.missing[name]
    if summary is None:
        return "failed"
    if any(run.partial for run in summary.runs):
        return "partial"
    if not summary.counts:
        return "wrong counts"
    return MEASURED if len(summary.runs) == rounds else "failed"
