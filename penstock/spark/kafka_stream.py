"""A KafkaSource as a replayable Python data source of Spark.

Offsets are in Spark's offset log, in the form of Spark's own Kafka source, and so in every checkpoint. Where a source
started is kept in the folder of the query's source logs, as Spark's source does, so that a job which fails in its first
epoch starts there again. Where a bounded source ends is kept beside it.
"""

import json
from abc import ABC
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from penstock.codec.row_codec import fields_ddl
from penstock.connectors.kafka.kafka_consumers import KafkaRange, read_messages
from penstock.connectors.kafka.kafka_source import KafkaSource
from penstock.connectors.kafka.kafka_topics import KafkaTopics, check_source
from penstock.connectors.kafka.message_columns import MessageColumns
from penstock.connectors.kafka.partition_offsets import Offsets, from_json_form, limit_end, to_json_form, within_stops
from penstock.runtime.packed_rows import PACKED_DDL
from penstock.spark.packed_edge import PackedEdge
from penstock.spark.python_sources import DEFAULT_MAX_ROWS, load_python_source
from penstock.spark.read_limits import ROWS

try:
    from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1: an epoch reads everything there is
    SupportsTriggerAvailableNow = ABC  # type: ignore[assignment, misc]

START_FILE, STOP_FILE = "0", "1"
SPARK_FORM = "\0v1\n"
"""What Spark's own source writes before the offsets at which it started."""

JsonOffsets = dict[str, dict[str, int]]


class KafkaInputPartition(InputPartition):
    """A range of offsets of one partition: one task."""

    def __init__(self, wanted: KafkaRange) -> None:
        self.wanted = wanted


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans epochs in one process and reads ranges in others."""

    def __init__(
        self, source: KafkaSource, max_rows: int, folder: Path | None, packed: PackedEdge | None = None
    ) -> None:
        """`folder`: the query's log of this source. `packed`: where its rows go, if its tasks pack them."""
        self._source = source
        self._max_rows = max_rows
        self._folder = folder
        self._packed = packed
        self._topics: KafkaTopics | None = None
        self._stops: Offsets | None = None
        self._last: JsonOffsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_topics": None}

    # ---- in the process that plans epochs

    def initialOffset(self) -> JsonOffsets:
        start = self._logged(START_FILE)
        if start is None:
            start = self._broker.start_offsets()
            self._log(START_FILE, start)
        self._last = to_json_form(start)
        return self._last

    def getDefaultReadLimit(self) -> Any:
        return ReadMaxRows(self._max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end now: `latestOffset` asks for it again in every epoch."""
        self._stop_offsets()

    def latestOffset(self, start: JsonOffsets | None = None, limit: Any = None) -> JsonOffsets:
        """The end of the next epoch. Partitions that are new start in it, and are read in the one after it."""
        given = from_json_form(start if start is not None else self._last or self.initialOffset())
        positions, ends = self._broker.progress(given)
        stops = self._stop_offsets()
        rows = getattr(limit, "max_rows", None)
        ended = limit_end(positions, within_stops(ends, stops), rows)
        new = [p for p in self._broker.partitions() if p not in given and (stops is None or p in stops)]
        # A partition that is not there now keeps its position: it may come back, and must not be read twice.
        self._last = to_json_form({**given, **positions, **ended, **self._broker.first_offsets(new)})
        return self._last

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        self._last = end  # PySpark 4.1 names the position in no other call, also that of a query that continues
        begins = from_json_form(start)
        ranges = [
            KafkaRange(topic, number, begins[topic, number], offset)
            for (topic, number), offset in from_json_form(end).items()
            if begins.get((topic, number), offset) < offset
        ]
        return [KafkaInputPartition(wanted) for wanted in ranges]

    def commit(self, end: JsonOffsets) -> None:
        """Nothing: the group learns of checkpoints, not of epochs."""

    def stop(self) -> None:
        if self._topics is not None:
            self._topics.close()
            self._topics = None

    @property
    def _broker(self) -> KafkaTopics:
        if self._topics is None:
            self._topics = KafkaTopics(self._source)
        return self._topics

    def _stop_offsets(self) -> Offsets | None:
        if self._stops is None and self._source.stopping is not None:
            self._stops = self._logged(STOP_FILE)
            if self._stops is None:
                self._stops = self._broker.stop_offsets()
                self._log(STOP_FILE, self._stops or {})
        return self._stops

    def _logged(self, name: str) -> Offsets | None:
        path = self._folder / name if self._folder is not None else None
        if path is None or not path.exists():
            return None
        text = path.read_text(encoding="utf-8")
        return from_json_form(json.loads(text.removeprefix(SPARK_FORM)))

    def _log(self, name: str, offsets: Offsets) -> None:
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            new = self._folder / f".{name}.new"
            new.write_text(SPARK_FORM + json.dumps(to_json_form(offsets)), encoding="utf-8")
            new.replace(self._folder / name)

    # ---- in tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, KafkaInputPartition)
        rows = read_range(self._source, partition.wanted)
        return rows if self._packed is None else self._packed.pack(rows, first=partition.wanted.partition)


class KafkaBatchReader(DataSourceReader):
    """Reads a bounded source at once, for batch mode."""

    def __init__(self, source: KafkaSource) -> None:
        self._source = source

    def partitions(self) -> Sequence[InputPartition]:
        topics = KafkaTopics(self._source)
        try:
            start, stops = topics.start_offsets(), topics.stop_offsets() or {}
        finally:
            topics.close()
        ranges = [KafkaRange(topic, number, start[topic, number], end) for (topic, number), end in stops.items()]
        return [KafkaInputPartition(wanted) for wanted in ranges if wanted.start < wanted.end]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, KafkaInputPartition)
        return read_range(self._source, partition.wanted)


def read_range(source: KafkaSource, wanted: KafkaRange) -> Iterator[pa.RecordBatch]:
    """The columns of the messages of a range."""
    messages = read_messages(source.settings, wanted, skip_lost=not source.fail_on_data_loss)
    return MessageColumns(source).batches(messages)


@dataclass(frozen=True)
class KafkaLimits:
    """How many records an epoch reads."""

    fixed: int | None = None
    """Always."""
    first: int | None = None
    """At first if there is no fixed limit; later what the query is told."""


def read_all_of_kafka(session: SparkSession, source: KafkaSource) -> DataFrame:
    """All of a bounded source, for batch mode."""
    check_source(source, first=True)
    reader = KafkaStreamReader(source, DEFAULT_MAX_ROWS, None)
    return load_python_source(session, reader, KafkaBatchReader(source), _columns_ddl(source), batch=True)


def read_kafka(
    session: SparkSession,
    source: KafkaSource,
    limits: KafkaLimits,
    folder: Path | None,
    packed: PackedEdge | None = None,
) -> DataFrame:
    """The source as a stream, with its rows or packed. Raises at once if the brokers or topics are not there."""
    is_first = folder is None or not (folder / START_FILE).exists()
    check_source(source, first=is_first)
    reader = KafkaStreamReader(source, limits.fixed or limits.first or DEFAULT_MAX_ROWS, folder, packed)
    ddl = _columns_ddl(source) if packed is None else PACKED_DDL
    limited = ROWS if not limits.fixed and limits.first is not None else None
    return load_python_source(session, reader, KafkaBatchReader(source), ddl, limited=limited)


def _columns_ddl(source: KafkaSource) -> str:
    return fields_ddl([(field.name, field.type) for field in MessageColumns(source).schema])
