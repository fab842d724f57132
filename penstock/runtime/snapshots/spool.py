"""The spool: rows that a subtask has received and not yet processed (PROTOCOL R13).

With unaligned checkpoints, an epoch does not wait until all rows are processed: after its time limit it reads its input
to the end and appends the rest to the spool. The spool belongs to the subtask's version: the next epoch processes it
first, a dropped run leaves it unchanged, and a checkpoint contains a copy. Rows are written once, in segments. An epoch
that processes part of a segment only advances its offset, so later checkpoints can refer to the same files.
"""

import logging
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock import failpoint
from penstock.errors import CheckpointCorruptError, CheckpointError
from penstock.graph.job_graph import EdgePlan, StagePlan
from penstock.model.ids import new_nonce
from penstock.model.options.checkpointing_options import MAX_SPOOL
from penstock.model.units import KIB, MIB
from penstock.runtime.exchange_rows import TIMESTAMP, EdgeColumns, positions_in_columns, positions_read
from penstock.runtime.operators.batch import EdgeBatch

MAX_SPOOL_BYTES = MAX_SPOOL.default
SEGMENT_BYTES = 8 * MIB
HELD_BYTES = 256 * KIB
"""A segment up to this size stays in memory."""
EDGE_KEY, TYPES_KEY = b"penstock.edge", b"penstock.types"


@dataclass(frozen=True)
class SealedSpool:
    """The sealed spool. Later epochs do not change it."""

    segments: tuple["Segment", ...] = ()
    skip: int = 0
    """Rows of the first segment that are processed."""

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments) - self.skip

    @property
    def size_bytes(self) -> int:
        """The bytes of the waiting rows, assuming that rows of the first segment have equal sizes."""
        total = sum(segment.size_bytes for segment in self.segments)
        return total - self.skip * self.segments[0].size_bytes // self.segments[0].rows if self.segments else 0


class Segment:
    """Some rows of one input edge as an Arrow stream. Immutable. Its file is removed with the last reference."""

    def __init__(self, data: bytes, rows: int, folder: Path) -> None:
        self.id = new_nonce()
        self.rows = rows
        self.size_bytes = len(data)
        self.is_stuck = False
        """Whether it could not be written to disk."""
        self._data: bytes | None = data
        if len(data) > HELD_BYTES:
            self._path = folder / f"spool-{self.id}"
            self._write(data)

    def _write(self, data: bytes) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_bytes(data)
        except OSError as error:
            logging.getLogger("penstock.spool").warning(
                "spooled rows stay in memory, and no more rows are spooled: %s", error
            )
            with suppress(OSError):
                self._path.unlink()
            self.is_stuck = True
            return
        self._data = None
        weakref.finalize(self, self._path.unlink, missing_ok=True)

    def read(self) -> bytes:
        """The stream's bytes."""
        return self._data if self._data is not None else self._path.read_bytes()


class Spool:
    """The rows that one subtask has yet to process, in order. One epoch at a time."""

    def __init__(self, stage: StagePlan, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._max_parallelism = stage.max_parallelism
        read = positions_read(stage)
        self._plans: dict[int, EdgePlan] = {
            index: edge
            for index, edge in enumerate(stage.inputs)
            if stage.keyed and edge.partitioning != "broadcast" and -1 - index in read
        }
        in_columns = positions_in_columns(stage)
        self._columns = {
            index: EdgeColumns(index, edge, keyed=True, in_columns=-1 - index in in_columns)
            for index, edge in self._plans.items()
        }
        self._segments: list[Segment] = []
        self._skip = 0
        self._saved = SealedSpool()
        self._open: list[pa.RecordBatch] = []
        """Rows of one edge that are not yet in a segment."""
        self._open_edge = -1
        self._open_bytes = 0

    # ---- one epoch

    def begin_epoch(self) -> None:
        """Begin an epoch, whose changes `roll_back` can undo."""
        self._saved = self.seal()

    def finish_epoch(self) -> None:
        """Commit the changes of the epoch."""
        self._saved = SealedSpool()

    def roll_back(self) -> None:
        """Undo the changes of the epoch."""
        self._segments, self._skip = list(self._saved.segments), self._saved.skip
        self._open.clear()
        self._open_bytes = 0

    def takes(self, edge: int) -> bool:
        """Whether rows of this edge can be spooled: only those of keyed inputs, whose order matters only per key."""
        return edge in self._plans

    @property
    def rows(self) -> int:
        """The number of spooled rows."""
        return self.seal().rows + sum(int(part.num_rows) for part in self._open)

    @property
    def is_full(self) -> bool:
        """Whether no more rows can be spooled, because of `penstock.unaligned.max-spool` or a full disk."""
        if any(segment.is_stuck for segment in self._segments):
            return True
        return sum(segment.size_bytes for segment in self._segments) + self._open_bytes > self._max_bytes

    def add(self, item: EdgeBatch) -> None:
        """Append rows to the spool."""
        columns = self._columns[item.edge]
        part = columns.encode(item.batch) if item.columns is None else columns.select(item.columns)
        if self._open_edge != item.edge or self._open_bytes >= SEGMENT_BYTES:
            self.flush()
        self._open_edge = item.edge
        self._open.append(part)
        self._open_bytes += part.nbytes

    def flush(self) -> None:
        """Write the added rows to a segment."""
        if not self._open:
            return
        failpoint.before("C27")
        schema = self._open[0].schema.with_metadata(self._metadata(self._open_edge))
        self._segments.append(_segment(self._open, schema, self._folder))
        failpoint.after("C27")
        self._open.clear()
        self._open_bytes = 0

    def work_off(self, take: Callable[[EdgeBatch], int]) -> None:
        """Pass the spooled rows to `take` in order, until it accepts fewer than given. It returns how many."""
        self.flush()
        while self._segments:
            for item in self._items(self._segments[0], self._skip):
                taken = take(item)
                self._skip += taken
                if taken < len(item.batch):
                    return
            del self._segments[0]
            self._skip = 0

    def _items(self, segment: Segment, skip: int) -> Iterator[EdgeBatch]:
        edge, parts = self._parts(segment.read(), "the spool")
        for part in parts:
            if skip >= part.num_rows:
                skip -= part.num_rows
                continue
            rest = part.slice(skip)
            skip = 0
            batch = self._columns[edge].decode(rest, timed=TIMESTAMP in rest.schema.names)
            yield EdgeBatch(edge, batch, len(batch), 0, rest)

    # ---- checkpoints

    def seal(self) -> SealedSpool:
        """The present spool."""
        return SealedSpool(tuple(self._segments), self._skip)

    def restore(self, data: bytes, skip: int, path: str) -> Segment:
        """Restore a whole segment of this subtask."""
        _, parts = self._parts(data, path)
        segment = Segment(data, sum(part.num_rows for part in parts), self._folder)
        if not self._segments:
            self._skip = skip
        self._segments.append(segment)
        return segment

    def restore_some(self, data: bytes, skip: int, key_groups: tuple[int, int], path: str) -> None:
        """Restore the rows of any subtask's segment whose keys are in these key groups."""
        edge, parts = self._parts(data, path)
        columns = self._columns[edge]
        for part in parts:
            rest = part.slice(min(skip, part.num_rows))
            skip = max(0, skip - part.num_rows)
            groups = np.mod(columns.hashes(rest), np.int32(self._max_parallelism))
            mine = rest.filter(pa.array((groups >= key_groups[0]) & (groups <= key_groups[1])))
            if mine.num_rows:
                batch = columns.decode(mine, timed=TIMESTAMP in mine.schema.names)
                self.add(EdgeBatch(edge, batch, len(batch), 0, mine))
        self.flush()

    def _parts(self, data: bytes, path: str) -> tuple[int, list[pa.RecordBatch]]:
        """The edge of a stream's rows, and the rows."""
        try:
            reader = pa.ipc.open_stream(data)
            metadata, parts = reader.schema.metadata or {}, list(reader)
            edge = int(metadata[EDGE_KEY])
        except (pa.ArrowInvalid, OSError, KeyError, ValueError) as error:
            raise CheckpointCorruptError(path, "rows in flight", str(error)) from error
        if edge not in self._plans or metadata != self._metadata(edge):
            raise CheckpointError(
                f"{path!r} holds rows in flight to another input than the program has ({metadata}); a checkpoint with "
                f"such rows needs the same program: restore it with that program and stop the job cleanly"
            )
        return edge, parts

    def _metadata(self, edge: int) -> dict[bytes, bytes]:
        plan = self._plans[edge]
        key = ", ".join([*(plan.key_columns or ()), *(each.text for each in plan.key_types)])
        return {EDGE_KEY: str(edge).encode(), TYPES_KEY: f"{plan.record_type.text} by {key}".encode()}


def _segment(parts: Sequence[pa.RecordBatch], schema: pa.Schema, folder: Path) -> Segment:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for part in parts:
            writer.write_batch(part.replace_schema_metadata(schema.metadata))
    return Segment(sink.getvalue().to_pybytes(), sum(part.num_rows for part in parts), folder)
