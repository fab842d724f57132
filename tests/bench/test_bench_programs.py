"""What the programs of the engines share: the log of batches and that of latencies."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.figures import Batch, parse_batches
from bench.programs.batch_log import BatchLog
from bench.programs.latency_log import LatencyLog, percentiles, sum_up


def batch(rows: int, rows_out: int, finished_ms: float) -> dict[str, Any]:
    return {"rows": rows, "rows_out": rows_out, "started_ms": finished_ms - 1, "finished_ms": finished_ms}


def test_what_fires_after_a_batch_belongs_to_it(tmp_path: Path) -> None:
    path = tmp_path / "events"
    with BatchLog(path, closing_rows=1) as log:
        for one in (batch(100, 5, 10), batch(0, 7, 20), batch(100, 0, 30), batch(1, 0, 40), batch(0, 9, 50)):
            log.add(one)
        assert (log.rows, log.rows_out) == (200, 21)
    assert parse_batches(path.read_text()) == [Batch(100, 9, 20, 12), Batch(100, 29, 50, 9)]


def test_an_idle_batch_does_not_make_the_one_before_longer(tmp_path: Path) -> None:
    path = tmp_path / "events"
    with BatchLog(path) as log:
        log.add(batch(100, 5, 10))
        log.add(batch(0, 0, 90))
    assert parse_batches(path.read_text()) == [Batch(100, 9, 10, 5)]


def test_results_between_two_steps_are_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "events"
    with BatchLog(path) as log:
        log.add(batch(100, 30, 10))
        log.take_back(20)
        assert log.rows_out == 10
    assert parse_batches(path.read_text())[0].rows_out == 10


def test_a_program_that_fails_does_not_report_its_last_batch(tmp_path: Path) -> None:
    path = tmp_path / "events"
    with pytest.raises(KeyError), BatchLog(path) as log:
        log.add(batch(100, 30, 10))
        raise KeyError
    assert path.read_text() == ""


def latencies(work: Path, monkeypatch: pytest.MonkeyPatch, numbers: list[int]) -> tuple[Batch, dict[str, float]]:
    """Rows that are made every second and come out half a second later, but the last, which takes two seconds."""
    for number in numbers:
        late_us = 2_000_000 if number == 9 else 500_000
        monkeypatch.setattr("bench.programs.latency_log.now_us", lambda us=number * 1_000_000 + late_us: us)
        log = LatencyLog(str(work))
        log.add([(number, number * 1_000_000)])
        log.close()
    sum_up(work, work / "events", rows=10)
    [found] = parse_batches((work / "events").read_text())
    return found, json.loads((work / "figures.json").read_text())


def test_latencies_are_those_of_the_second_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, figures = latencies(tmp_path, monkeypatch, list(range(10)))
    assert found == Batch(rows=10, started_ms=0, finished_ms=11_000, rows_out=10)
    assert figures == {"p50 ms": 500, "p95 ms": 2_000, "p99 ms": 2_000, "max ms": 2_000}


@pytest.mark.parametrize("numbers", [[*range(9)], [*range(10), 3], [*range(9), 8]])
def test_a_row_that_is_lost_or_comes_twice_is_no_right_count(
    numbers: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = latencies(tmp_path, monkeypatch, numbers)
    assert found.rows_out == -1


def test_percentiles_of_one_row() -> None:
    assert set(percentiles([7.0]).values()) == {7.0}
