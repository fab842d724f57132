"""Iterators with a position and sockets as Python data sources of Spark.

Records are read in the process in which Spark asks for offsets, by a thread that runs ahead, and travel to the tasks
inside their partitions. An offset is a position and the number of records before it. Records that are not buffered any
more are read again from the position; of a socket they are lost.
"""

import json
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from penstock.codec.row_codec import RowCodec
from penstock.connectors.position_sources import PositionSource
from penstock.errors import UnsupportedValueError
from penstock.runtime.operators.sink_operators import encode_records
from penstock.spark.python_sources import AvailableNow, load_python_source, require_read_limits

DEFAULT_MAX_ROWS = 100_000
POLL_S = 1.0
"""An unbounded iterator that ended is opened again after this pause."""
Offset = dict[str, Any]


class RowsPartition(InputPartition):
    """Records as an Arrow stream."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class Pump:
    """A thread that reads a source ahead, up to a number of records."""

    def __init__(self, source: PositionSource, position: Any, capacity: int) -> None:
        self._source = source
        self._position = position
        self._capacity = capacity
        self._rows: deque[tuple[Any, Any]] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="penstock-source", daemon=True).start()

    def take(self, most: int, *, wait: bool) -> list[tuple[Any, Any]]:
        """Up to so many records. `wait`: until there are as many, or the source has ended.

        Raises what the source raised, after the records before it.
        """
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: len(self._rows) >= min(most, self._capacity) or self._ended)
            taken = [self._rows.popleft() for _ in range(min(most, len(self._rows)))]
            self._changed.notify_all()
            if not taken and self._error is not None:
                raise self._error
            return taken

    def _run(self) -> None:
        try:
            while True:
                self._read()
                if self._source.bounded:
                    return
                threading.Event().wait(POLL_S)
        except BaseException as error:
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _read(self) -> None:
        for record, position in pairs(self._source, self._position):
            self._position = position
            with self._changed:
                self._changed.wait_for(lambda: len(self._rows) < self._capacity)
                self._rows.append((record, position))
                self._changed.notify_all()


class PositionReader(DataSourceStreamReader, AvailableNow):
    """Reads a source from position to position."""

    def __init__(self, source: PositionSource, max_rows: int) -> None:
        self.source = source
        self.max_rows = max_rows
        self._pump: Pump | None = None
        self._planned: dict[int, tuple[int, list[Any]]] = {}
        """Number of the first record -> number behind the last, and the records, until Spark commits them."""

    def initialOffset(self) -> Offset:
        return {"position": None, "records": 0}

    def getDefaultReadLimit(self) -> Any:
        from pyspark.sql.streaming.datasource import ReadMaxRows

        return ReadMaxRows(self.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to do: a bounded source waits for its records."""

    def latestOffset(self, start: Offset, limit: Any = None) -> Offset:
        """Reads the records of the next epoch. The same offset if there are none."""
        if self._pump is None:
            self._pump = Pump(self.source, start["position"], 2 * self.max_rows)
        taken = self._pump.take(self.max_rows, wait=self.source.bounded)
        if not taken:
            return start
        first = start["records"]
        self._planned[first] = (first + len(taken), [record for record, _ in taken])
        return {"position": taken[-1][1], "records": first + len(taken)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        records = self._records(start, end)
        return [RowsPartition(encode_records(records, self.source.record_type))] if records else []

    def commit(self, end: Offset) -> None:
        """Forget the records before the offset."""
        for first in [first for first, (behind, _) in self._planned.items() if behind <= end["records"]]:
            del self._planned[first]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowsPartition)
        with pa.ipc.open_stream(partition.data) as stream:
            yield from stream

    def _records(self, start: Offset, end: Offset) -> list[Any]:
        behind, records = self._planned.get(start["records"], (None, []))
        if behind == end["records"]:
            return records
        if not self.source.replayable:
            return []
        count = end["records"] - start["records"]
        return [record for record, _ in islice(pairs(self.source, start["position"]), count)]


class WholeSource(DataSourceReader):
    """Reads a bounded source from its beginning to its end in one task, for batch mode."""

    def __init__(self, source: PositionSource) -> None:
        self._source = source

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows = pairs(self._source, None)
        while records := [record for record, _ in islice(rows, DEFAULT_MAX_ROWS)]:
            with pa.ipc.open_stream(encode_records(records, self._source.record_type)) as stream:
                yield from stream


def pairs(source: PositionSource, position: Any) -> Iterator[tuple[Any, Any]]:
    """Records with their positions as JSON reads them, checked."""
    for pair in source.open(position):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise UnsupportedValueError(
                f"the iterator of a source yielded {pair!r}; it must yield pairs: a record, and the position behind it"
            )
        yield pair[0], _as_json(pair[1])


def _as_json(position: Any) -> Any:
    if type(position) in (int, str):
        return position
    try:
        return json.loads(json.dumps(position))
    except (TypeError, ValueError) as error:
        raise UnsupportedValueError(
            f"the iterator of a source yielded the position {position!r}: {error}; a position is stored in "
            f"checkpoints as JSON: make it of numbers, texts, lists and dicts"
        ) from error


def read_positions(
    session: SparkSession, source: PositionSource, max_rows: int | None, *, batch: bool = False
) -> DataFrame:
    """A stream of the source's records; with `batch`, all of them."""
    if not batch:
        require_read_limits(type(source).__name__)
    reader = PositionReader(source, max_rows or DEFAULT_MAX_ROWS)
    return load_python_source(session, reader, WholeSource(source), RowCodec(source.record_type).ddl, batch=batch)
