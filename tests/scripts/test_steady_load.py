"""The figures of a job under a steady load."""

from pathlib import Path
from typing import Any

import pytest

from tests.loading import load_script

steady_load = load_script("steady_load")
ROWS = steady_load.ROWS
SECONDS = 600


def figures(
    rows: dict[int, int], memory: float = 0.0, files: int = 0, seconds: int = SECONDS, heap: float = 0.0
) -> dict[str, Any]:
    """Of a run with a file per second that is visible two seconds later; the others are added each second."""
    producer = steady_load.Producer(Path("in"), 1.0, seconds)
    producer.written = {second: float(second) for second in range(seconds)}
    counted = dict.fromkeys(range(seconds), ROWS) | rows
    visible = {second: second + 2.0 for second in range(seconds)}
    output = steady_load.Output(Path("out"), visible, counted)
    samples = [
        steady_load.Sample(
            float(at_s), {"driver": 300 + memory * at_s, "jvm": 900 + at_s}, {"checkpoints": 40 + files * at_s}
        )
        for at_s in range(0, seconds, 5)
    ]
    found: dict[str, Any] = steady_load.to_figures(producer, output, samples, [100.0, 100.0 + heap * seconds])
    return found


def test_a_run_that_is_right_has_its_latency_and_nothing_grown() -> None:
    found = figures({})
    assert (found["files"], found["rows"], found["wrong files"], found["grown"]) == (SECONDS, SECONDS * ROWS, 0, [])
    assert (found["latency median s"], found["latency p95 s"]) == (2.0, 2.0)


@pytest.mark.parametrize("count", [0, ROWS - 1, ROWS + 1])
def test_a_row_that_is_missing_or_doubled_is_found(count: int) -> None:
    assert figures({7: count})["wrong files"] == 1


def test_growth_is_found() -> None:
    assert figures({}, memory=0.2)["grown"] == ["memory: driver"]
    assert figures({}, heap=0.2)["grown"] == ["memory: live objects of the jvm"]
    assert figures({}, files=1)["grown"] == ["files: checkpoints"]


def test_a_short_run_has_its_latency_and_says_nothing_of_growth() -> None:
    found = figures({}, memory=10.0, files=1, seconds=60)
    assert found["grown"] == [] and found["latency median s"] == 2.0


def test_the_heap_is_the_total_of_a_histogram() -> None:
    lines = (" num  #instances  #bytes  class name", "   1:  91231  10485760  [B", "Total  1500000  104857600", "")
    histogram = "\n".join(lines)
    assert steady_load.live_mib(histogram) == 100.0
    with pytest.raises(ValueError, match="without a total"):
        steady_load.live_mib("Attach failed")
