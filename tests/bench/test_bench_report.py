"""The JSON that programs read and the table that people read."""

from bench.figures import Run, summarise
from bench.report import Report, to_json, to_table


def make_run(rows_per_s: float, *, foreign_cpu_percent: float = 0.0, partial: bool = False) -> Run:
    return Run(
        rows_per_s=rows_per_s,
        peak_rss_mb=512.04,
        wall_s=9.0,
        rows=2_000_000,
        batches=8,
        foreign_cpu_percent=foreign_cpu_percent,
        checked=not partial,
        partial=partial,
    )


def make_report(**runs: list[Run]) -> Report:
    return Report(
        workload="w1",
        data="big",
        rows=2_000_000,
        rows_per_batch=250_000,
        checked=True,
        engines={name: summarise(done) for name, done in runs.items()},
    )


def test_the_json_document_has_exactly_the_promised_fields() -> None:
    document = to_json(make_report(penstock=[make_run(200_000.0)] * 3, bytewax=[make_run(100_000.0)] * 3))
    assert list(document) == ["workload", "data", "rows", "rows_per_batch", "checked", "engines", "ratios"]
    assert set(document["engines"]) == {"penstock", "bytewax"}
    assert set(document["engines"]["penstock"]) == {"rows_per_s", "peak_rss_mb", "runs"}
    assert [run["rows_per_s"] for run in document["engines"]["penstock"]["runs"]] == [200_000.0] * 3
    assert document["engines"]["penstock"]["peak_rss_mb"] == 512.0
    assert document["ratios"] == {"bytewax": 2.0}


def test_the_table_lists_the_fastest_engine_first_with_its_ratio() -> None:
    lines = to_table(make_report(bytewax=[make_run(80_000.0)], penstock=[make_run(160_000.0)])).splitlines()
    assert "2,000,000 rows" in lines[0] and "row counts right" in lines[0]
    assert lines[2].split() == ["penstock", "160,000", "160,000", "512", "0.0"]
    assert lines[3].split() == ["bytewax", "80,000", "80,000", "512", "2.00", "0.0"]


def test_the_table_marks_rounds_that_were_cut_short_or_disturbed() -> None:
    table = to_table(make_report(bytewax=[make_run(80_000.0, foreign_cpu_percent=30.0, partial=True)]))
    assert "80,000*" in table and "30.0 !" in table
    assert "stopped at the time limit" in table and "other work used more than 5 %" in table
