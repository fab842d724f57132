"""Positions of sources taken from a running query and put into a new one (PROTOCOL R19; each of Spark's kinds)."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.connectors.source_connectors import CollectionSource, NumberSequenceSource
from penstock.spark import offset_log
from penstock.spark.epoch_query import EpochQuery, QuerySettings
from penstock.spark.python_sources import read_collection, read_sequence
from penstock.spark.session import RETENTION, query_settings
from penstock.spark.source_frames import combine
from tests.waiting import wait_until

LIMIT_S = 120.0
Batches = dict[int, list[Any]]


class Recording:
    """A query that keeps the rows of each batch, and the position after each, as taken inside the batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.batches: Batches = {}
        self.positions: dict[int, bytes] = {}

    def run_epoch(self, rows: DataFrame, batch_id: int) -> None:
        if not self.positions:
            self.positions[batch_id - 1] = offset_log.capture(self.folder, batch_id - 1)
        self.batches[batch_id] = sorted(map(str, rows.collect()))
        self.positions[batch_id] = offset_log.capture(self.folder, batch_id)

    def run(self, frame: DataFrame) -> "Recording":
        """To the end of a bounded input."""
        query = self.start(frame, bounded=True)
        assert query.wait(LIMIT_S) and query.failure is None, query.failure
        return self

    def run_until(self, frame: DataFrame, batch_id: int) -> "Recording":
        """Until a batch of an unbounded input is done."""
        query = self.start(frame, bounded=False)
        wait_until(lambda: batch_id in self.positions or query.failure, timeout_s=LIMIT_S)
        query.stop()
        return self

    def start(self, frame: DataFrame, *, bounded: bool) -> EpochQuery:
        return EpochQuery(frame, QuerySettings(self.folder, bounded, 0, query_settings(10_000)), self.run_epoch)


def rewound(tmp_path: Path, first: Recording, batch_id: int) -> Recording:
    """A query on a new folder that begins behind a batch of the first one."""
    folder = tmp_path / f"after-{batch_id}"
    offset_log.build(folder, first.positions[batch_id], batch_id)
    return Recording(folder)


def later_than(batches: Batches, batch_id: int) -> Batches:
    return {number: rows for number, rows in batches.items() if number > batch_id}


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Callable[[str, int], DataFrame]:
    """A source that reads so many files, one in each batch."""

    def make(name: str, count: int) -> DataFrame:
        folder = tmp_path / name
        folder.mkdir()
        for number in range(count):
            path = folder / f"{number:02d}.json"
            path.write_text(f'{{"{name}": {number}}}\n', encoding="utf-8")
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark takes the oldest first
        return spark.readStream.schema(f"{name} int").option("maxFilesPerTrigger", 1).json(str(folder))

    return make


@pytest.mark.smoke
def test_a_file_source_goes_on_behind_any_batch_also_past_a_compaction(
    tmp_path: Path, files: Callable[[str, int], DataFrame]
) -> None:
    """Source 0 has ended at batch 2, so from then on its log is behind the batch id, and source 1's has a .compact."""
    sources = combine([files("few", 3), files("many", 12)])
    first = Recording(tmp_path / "first").run(sources)
    assert sorted(first.batches) == list(range(12))
    names = {path.name for path in (tmp_path / "first" / "sources" / "1").iterdir()}
    assert "9.compact" in names
    assert '"logOffset":2}' in (tmp_path / "first" / "offsets" / "10").read_text(encoding="utf-8")
    for batch_id in (-1, 10):
        again = rewound(tmp_path, first, batch_id).run(sources)
        assert again.batches == later_than(first.batches, batch_id), batch_id


def test_a_file_source_can_be_rewound_again_after_a_rewind_past_two_compactions(
    spark: SparkSession, tmp_path: Path, files: Callable[[str, int], DataFrame]
) -> None:
    """From a lone second compaction Spark would go on with twice the interval, and not find its log the next time."""
    interval = "spark.sql.streaming.fileSource.log.compactInterval"
    spark.conf.set(interval, "2")
    try:
        source = files("many", 13)
        first = Recording(tmp_path / "first").run(source)
        second = rewound(tmp_path, first, 4).run(source)
        third = rewound(tmp_path, second, 10).run(source)
    finally:
        spark.conf.unset(interval)
    assert second.batches == later_than(first.batches, 4)
    assert third.batches == later_than(first.batches, 10)


@pytest.mark.full
def test_what_spark_keeps_of_its_logs_is_bounded_and_enough_for_a_position(
    spark: SparkSession, tmp_path: Path, files: Callable[[str, int], DataFrame]
) -> None:
    count, delay = (
        2 * int(RETENTION["spark.sql.streaming.minBatchesToRetain"]),
        next(k for k in RETENTION if "Delay" in k),
    )
    spark.conf.set(delay, "0s")  # the limit is a number of batches here, not the time that they take
    try:
        source = files("many", count)
        first = Recording(tmp_path / "first").run(source)
        again = rewound(tmp_path, first, count - 5).run(source)
    finally:
        spark.conf.set(delay, RETENTION[delay])
    assert again.batches == later_than(first.batches, count - 5)
    for log in ("offsets", "commits", "sources/0"):
        kept = [path.name for path in (tmp_path / "first" / log).iterdir() if not path.name.startswith(".")]
        assert len(kept) < count - 20, log


def test_a_position_is_not_moved_by_what_spark_has_logged_since(
    tmp_path: Path, files: Callable[[str, int], DataFrame]
) -> None:
    """The log of a file source runs ahead of the batches; entries above the position's offset stay out of it."""
    first = Recording(tmp_path / "first").run(files("many", 4))
    late = offset_log.capture(first.folder, 1)
    folder = tmp_path / "late"
    offset_log.build(folder, late, 1)
    assert sorted(path.name for path in (folder / "sources" / "0").iterdir()) == ["0", "1"]
    assert sorted(path.name for path in (folder / "commits").iterdir()) == ["0", "1"]
    offset_log.build(tmp_path / "fork", late, 1, new_query_id=True)
    ids = [(path / "metadata").read_text(encoding="utf-8") for path in (first.folder, folder, tmp_path / "fork")]
    assert ids[0] == ids[1] != ids[2]


def test_the_sources_of_collections_and_sequences_go_on_behind_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    def sources() -> DataFrame:
        numbers = read_sequence(spark, NumberSequenceSource(100, 139), 14)
        words = read_collection(spark, CollectionSource.of([f"w{n}" for n in range(5)], "string"), 3)
        return combine([numbers, words])

    first = Recording(tmp_path / "first").run(sources())
    assert [len(rows) for _, rows in sorted(first.batches.items())] == [17, 16, 12]
    again = rewound(tmp_path, first, 0).run(sources())
    assert again.batches == later_than(first.batches, 0)


@pytest.mark.smoke
def test_rate_micro_batch_goes_on_behind_any_batch(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4).option("startTimestamp", 1000).load()
    first = Recording(tmp_path / "first").run_until(frame, 4)
    again = rewound(tmp_path, first, 1).run_until(frame, 4)
    shared = range(2, 5)
    assert [again.batches[n] for n in shared] == [first.batches[n] for n in shared]
    assert min(again.batches) == 2


def test_a_batch_whose_epoch_raises_is_not_committed_and_comes_again(
    tmp_path: Path, files: Callable[[str, int], DataFrame]
) -> None:
    folder, seen = tmp_path / "query", []
    broken = threading.Event()

    def run_epoch(rows: DataFrame, batch_id: int) -> None:
        seen.append((batch_id, [row.many for row in rows.collect()]))
        if batch_id == 1 and not broken.is_set():
            broken.set()
            raise RuntimeError("the attempt is over")

    settings = QuerySettings(folder, True, 0, query_settings(10_000))
    frame = files("many", 3)
    query = EpochQuery(frame, settings, run_epoch)
    assert query.wait(LIMIT_S) and "the attempt is over" in (query.failure or "")
    assert (folder / "offsets" / "1").exists() and not (folder / "commits" / "1").exists()
    again = EpochQuery(frame, settings, run_epoch)
    assert again.wait(LIMIT_S) and again.failure is None
    assert seen == [(0, [0]), (1, [1]), (1, [1]), (2, [2])]
