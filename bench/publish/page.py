"""The page of results as Markdown, made from the document alone."""

from collections.abc import Iterator, Mapping
from typing import Any

from bench.figures import STATE_PROCESS
from bench.publish.plots import plot_names
from bench.publish.results import MEASURED, Document
from bench.publish.suite import SUITE
from bench.report import DISTURBED_PERCENT
from bench.workloads import load_workload

MARK = "<!-- Written by `python -m bench.publish --render`. Do not change it by hand. -->"
HEAD = f"""{MARK}
# Benchmarks

Penstock beside other engines for stateful streams in Python, on one machine and in turns. The [method](method.md) says
what was measured and how, and how to repeat it. All figures are in [results.json](results.json).
"""
UNMEASURED = "Not measured yet.\n"


def to_page(document: Document) -> str:
    """The whole page. What was not measured yet says so."""
    cases = document["cases"]
    parts = [HEAD]
    for workload in dict.fromkeys([*(case.workload for case in SUITE), *(c["workload"] for c in cases.values())]):
        own = {name: case for name, case in cases.items() if case["workload"] == workload}
        parts.append(f"## {workload}: {load_workload(workload).title}\n")
        parts += [f"![{alt}](plots/{name}.svg)\n" for name, alt in plot_names(workload, own).items()]
        parts += [to_section(case) for case in own.values()] or [UNMEASURED]
    return "\n".join(parts)


def to_section(case: Document) -> str:
    """The table of one case, and when and how it was measured."""
    table = figure_table(case) if has_figures(case) else rate_table(case)
    return "\n".join([f"**{describe_data(case)}**", "", *table, "", *remarks(case), measured_line(case), ""])


def describe_data(case: Document) -> str:
    """Which rows.

    >>> describe_data({"data": "big", "rows": 2000000, "keys": 100000, "events_per_s": 10000, "rows_per_epoch": 250000})
    'big: 2,000,000 rows, 100,000 keys, 250,000 rows per epoch'
    """
    if case["data"].startswith("rate"):
        return f"{case['data']}: {case['events_per_s']:,} rows/s, {case['keys']:,} keys"
    text = f"{case['data']}: {case['keys']:,} keys"
    if "rows_per_epoch" not in case:
        return text
    return f"{case['data']}: {case['rows']:,} rows, {case['keys']:,} keys, {case['rows_per_epoch']:,} rows per epoch"


def has_figures(case: Document) -> bool:
    """Whether figures that are not rates are what the case is about."""
    return not load_workload(case["workload"]).reads_input


def rate_table(case: Document) -> Iterator[str]:
    """A row for each engine, the fastest first, those without a figure last."""
    base = case["ratio_of"]
    state = any(STATE_PROCESS in entry.get("figures", {}) for entry in case["engines"].values())
    of_state = " largest TaskManager MB |" if state else ""
    yield f"| engine | rows/s | rounds | peak memory MB |{of_state} {base} is faster by |"
    yield "|---|---:|---:|---:|" + ("---:|" if state else "") + "---:|"
    ordered = sorted(case["engines"].items(), key=lambda item: -item[1].get("rows_per_s", 0))
    for name, entry in ordered:
        largest = entry.get("figures", {}).get(STATE_PROCESS)
        cells = [
            name + (" ¹" if "note" in entry else ""),
            rate_of(entry),
            " ".join(f"{run['rows_per_s']:,.0f}" for run in entry["runs"]) if entry["status"] == MEASURED else "",
            f"{entry['peak_rss_mb']:,.0f}" if "peak_rss_mb" in entry else "",
            *([f"{largest:,.0f}" if largest else ""] if state else []),
            f"{case['ratios'][name]:.2f}" if name in case["ratios"] else "",
        ]
        yield f"| {' | '.join(cells)} |"


def rate_of(entry: Mapping[str, Any]) -> str:
    """The rate, or why there is none.

    >>> rate_of({"status": "measured", "rows_per_s": 1234.5}), rate_of({"status": "partial", "partial_rows_per_s": 9.0})
    ('1,234', 'partial')
    """
    return f"{entry['rows_per_s']:,.0f}" if entry["status"] == MEASURED else str(entry["status"])


def figure_table(case: Document) -> Iterator[str]:
    """A row for each figure, a column for each engine."""
    engines = case["engines"]
    yield f"| | {' | '.join(engines)} |"
    yield "|---|" + "---:|" * len(engines)
    if any(entry["status"] != MEASURED for entry in engines.values()):
        yield f"| result | {' | '.join(entry['status'] for entry in engines.values())} |"
    counted = {name: entry if entry["status"] == MEASURED else {} for name, entry in engines.items()}
    for figure in dict.fromkeys(figure for entry in counted.values() for figure in entry.get("figures", {})):
        if figure == STATE_PROCESS:
            continue
        found = (entry.get("figures", {}).get(figure) for entry in counted.values())
        yield f"| {figure} | {' | '.join('' if value is None else short(value) for value in found)} |"
    memory = (entry.get("peak_rss_mb") for entry in counted.values())
    yield f"| peak memory MB | {' | '.join('' if value is None else short(value) for value in memory)} |"


def short(value: float) -> str:
    """With as many digits as say something.

    >>> short(123456.7), short(12.34), short(0.1234)
    ('123,457', '12.3', '0.12')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def remarks(case: Document) -> Iterator[str]:
    """What to know of single engines."""
    for name, entry in case["engines"].items():
        if "note" in entry:
            yield f"¹ {name}: {entry['note']}\n"
    for name, entry in case["engines"].items():
        if entry["status"] == "partial":
            yield f"{name} was stopped after {case['limit_s']:,.0f} s, before the end of its input.\n"
    disturbed = [name for name, entry in case["engines"].items() if is_disturbed(entry)]
    if disturbed:
        other = f"other work used more than {DISTURBED_PERCENT:.0f} % of the machine"
        yield f"In rounds of {', '.join(disturbed)}, {other}: their figures are low.\n"


def is_disturbed(entry: Mapping[str, Any]) -> bool:
    """Whether other work had a part of the machine in one of its rounds."""
    return any(run["foreign_cpu_percent"] > DISTURBED_PERCENT for run in entry.get("runs", ()))


def measured_line(case: Document) -> str:
    """When, on what, and with which versions."""
    machine = case["machine"]
    rounds = f"{case['rounds']} round{'s' if case['rounds'] > 1 else ''} in turns"
    versions = dict.fromkeys(entry["versions"] for entry in case["engines"].values())
    cores = f"{machine['cores']} cores ({machine['processor']})"
    return (
        f"*{case['date']}, commit {case['commit']}, medians of {rounds}; {cores}, "
        f"{machine['memory_gib']:g} GiB, {machine['system']}, Python {machine['python']}, Java {machine['java']}; "
        f"{'; '.join(versions)}.*"
    )
