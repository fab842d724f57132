"""Verdicts on connectors: latencies of sinks, and the least rate of a database."""

import pytest

from bench import database_write, sink_latency
from bench.errors import RoundFailedError
from bench.sink_latency import Latencies, to_latencies, to_lines
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats


def checkpoint(number: int, trigger_ms: int, complete_ms: int) -> CheckpointStats:
    return CheckpointStats(number, "completed", trigger_ms, complete_ms, complete_ms - trigger_ms)


def test_q6_a_row_has_the_limit_of_the_newest_checkpoint_that_was_complete_when_it_was_seen() -> None:
    failed = CheckpointStats(3, "failed", 2_110, 2_120, 10)
    checkpoints = {1: checkpoint(1, 1_000, 1_300), 2: checkpoint(2, 2_000, 2_100), 3: failed}
    found = to_latencies([(1_310, [10, 400]), (2_130, [1_100]), (2_140, [1_200])], checkpoints)
    assert found == Latencies([1_300, 910, 1_030, 940], [300, 300, 100, 100], [10, 30, 40])
    assert found.percent_within == 100.0
    assert Latencies([1_301, 910], [300, 300], [1]).percent_within == 50.0


def test_q6_rows_without_a_checkpoint_and_no_rows_are_no_figures() -> None:
    with pytest.raises(RoundFailedError, match="before a checkpoint was complete"):
        to_latencies([(1_299, [10])], {1: checkpoint(1, 1_000, 1_300)})
    with pytest.raises(RoundFailedError, match="no row"):
        to_latencies([], {1: checkpoint(1, 1_000, 1_300)})


def test_q6_the_limit_is_kept_at_95_percent_and_the_longest_is_shown() -> None:
    rows = Latencies([500] * 95 + [9_000] * 5, [100] * 100, [20])
    assert to_lines("kafka", rows) == [
        "kafka: 100 rows, visible after 500 ms, 95 % of them within 500 ms, the longest after 9,000 ms",
        "kafka: a checkpoint takes 100 ms, at most 100 ms; its rows are visible 20 ms after its end, at most 20 ms",
        "kafka: 95.0 % of the rows are visible within interval + duration (limit: at least 95 %): kept",
    ]
    missed = Latencies([500] * 94 + [9_000] * 6, [100] * 100, [20])
    assert to_lines("kafka", missed)[-1].endswith("(limit: at least 95 %): MISSED")


def test_q6_every_sink_has_a_reader_and_hdfs_is_one_of_them() -> None:
    assert set(sink_latency.SINKS) == set(sink_latency.readers()) and "hdfs" in sink_latency.SINKS


def test_q5_the_least_rate_of_a_copy() -> None:
    assert database_write.verdict(100_000.0).endswith("at least 100,000 rows/s): kept")
    assert database_write.verdict(99_999.0).endswith(": MISSED")
