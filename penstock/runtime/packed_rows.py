"""Rows between two stages, packed: a cell of bytes holds some rows of one edge for one subtask.

A subtask chooses the target of its rows itself, and Spark moves a few large cells instead of many rows. A cell is an
Arrow record batch without its schema, which both sides take from the plan of the edge. Sources that Penstock reads
itself pack their rows in the same way.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.codec.keys import KeyCodec
from penstock.codec.row_codec import RowCodec
from penstock.errors import RpcError
from penstock.graph.job_graph import EdgePlan, StageOutput, StagePlan
from penstock.model.units import MIB
from penstock.runtime.exchange_rows import (
    BARRIER,
    PACKED,
    TARGET,
    TIMESTAMP,
    EdgeEncoder,
    encode_barrier,
    key_columns_of,
    lead_fields,
)
from penstock.runtime.kept_output import KeptBatches
from penstock.runtime.operators.batch import Batch
from penstock.runtime.process.messages import Barrier

CELL_ROWS = 32_768
"""Rows are gathered up to this number before they are split by target."""
CELL_BYTES = 16 * MIB
"""Of a cell with more than one row, and of the rows that are gathered."""
SCHEMA = pa.schema([(TARGET, pa.int32()), (BARRIER, pa.binary()), (PACKED, pa.binary())])
PACKED_DDL = f"{TARGET} int, {BARRIER} binary, {PACKED} binary"
"""`SCHEMA` for Spark."""
Cell: TypeAlias = tuple[int | None, bytes]
"""Rows, and the subtask they are for; None as in `RowTargets.split`."""


class PackedOutput:
    """What a subtask emits on one edge to another stage, packed; kept until the next epoch (PROTOCOL R10)."""

    def __init__(self, edge: EdgePlan, reader: StagePlan, folder: Path | None = None) -> None:
        self._encoder = EdgeEncoder(edge, reader.parallelism)
        self._packer = RowPacker(edge, reader)
        self._parallelism = reader.parallelism
        self._batches = KeptBatches(SCHEMA, folder)

    def add(self, batch: Batch) -> None:
        """Encode a batch immediately, so that a value that does not fit is an error of the operator that made it."""
        if len(batch):
            rows, chosen = self._encoder.encode(batch)
            self._keep(self._packer.add(rows, chosen))

    def end(self, barrier: Barrier) -> KeptBatches:
        """The epoch's cells, followed by a barrier for each downstream subtask."""
        self._keep(self._packer.end())
        count = self._parallelism
        barriers = pa.array([encode_barrier(barrier)] * count, pa.binary())
        arrays = [pa.array(range(count), pa.int32()), barriers, pa.nulls(count, pa.binary())]
        self._batches.add(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
        self._batches.end()
        return self._batches

    def _keep(self, found: Iterable[Cell]) -> None:
        for cell in found:
            self._batches.add(cell_batch([cell]))


class RowPacker:
    """Gathers rows of an edge, and divides them into cells by target; those of one target stay in order."""

    def __init__(self, edge: EdgePlan, reader: StagePlan, first: int = 0) -> None:
        """`first`: the target of the first row where rows are spread evenly."""
        self._targets = RowTargets(edge, reader, first)
        self._gathered: list[pa.RecordBatch] = []
        self._chosen: list[list[int]] = []
        """Of a custom partitioner, for each gathered batch."""
        self._rows = 0
        self._bytes = 0

    def add(self, rows: pa.RecordBatch, chosen: list[int] | None = None) -> Iterator[Cell]:
        """The cells that are full with these rows, which are in the columns of `row_schema`."""
        if self._bytes + rows.nbytes > CELL_BYTES:
            yield from self.end()  # so that no column of the rows together is larger than Arrow allows
        self._gathered.append(rows)
        if chosen is not None:
            self._chosen.append(chosen)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= CELL_ROWS or self._bytes >= CELL_BYTES:
            yield from self.end()

    def end(self) -> Iterator[Cell]:
        """The cells of the rows that are left."""
        if not self._gathered:
            return
        rows = self._gathered[0] if len(self._gathered) == 1 else pa.concat_batches(self._gathered)
        chosen = [target for targets in self._chosen for target in targets]
        self._gathered.clear()
        self._chosen.clear()
        self._rows = self._bytes = 0
        for target, part in self._targets.split(rows, chosen):
            for cell in cells(part):
                yield target, cell


def cell_batch(found: Sequence[Cell]) -> pa.RecordBatch:
    """Cells as rows of the exchange."""
    targets = pa.array([target for target, _ in found], pa.int32())
    packed = pa.array([cell for _, cell in found], pa.binary())
    return pa.RecordBatch.from_arrays([targets, pa.nulls(len(found), pa.binary()), packed], schema=SCHEMA)


class RowTargets:
    """Which subtask of the reading stage gets a row of an edge."""

    def __init__(self, edge: EdgePlan, reader: StagePlan, first: int = 0) -> None:
        self._parallelism = reader.parallelism
        self._max_parallelism = reader.max_parallelism
        self._partitioning = edge.partitioning
        self._keys: KeyCodec | None = None
        self._key_columns: list[int] = []
        """Positions among the columns of encoded rows."""
        if edge.partitioning == "key":
            self._keys = KeyCodec(edge.key_types)
            width = len(RowCodec(edge.record_type).fields)
            own = range(width, width + len(self._keys.fields))
            lead = len(lead_fields(edge))
            self._key_columns = [lead + n for n in (own if edge.key_selector is not None else key_columns_of(edge))]
        self._passed = first
        """Rows so far, for an even distribution."""

    def split(self, rows: pa.RecordBatch, chosen: list[int]) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        """The rows of each target. None: every subtask of a broadcast, the subtask of the same number in a forward."""
        if self._partitioning in ("broadcast", "forward"):
            yield None, rows
        elif self._parallelism == 1 or self._partitioning == "global":
            yield 0, rows
        else:
            targets = self._targets(rows, chosen)
            counts = np.bincount(targets, minlength=self._parallelism)
            if counts.max() == rows.num_rows:
                yield int(counts.argmax()), rows
                return
            ordered = rows.take(pa.array(np.argsort(targets, kind="stable")))
            start = 0
            for target in np.flatnonzero(counts):
                yield int(target), ordered.slice(start, int(counts[target]))
                start += int(counts[target])

    def _targets(self, rows: pa.RecordBatch, chosen: list[int]) -> npt.NDArray[np.int64]:
        if self._partitioning == "custom":
            return np.array(chosen, np.int64)
        if self._keys is None:
            first = self._passed
            self._passed += rows.num_rows
            return np.arange(first, self._passed) % self._parallelism
        hashes = self._keys.hash_batch([rows.column(index) for index in self._key_columns]).astype(np.int64)
        return hashes % self._max_parallelism * self._parallelism // self._max_parallelism


def cells(rows: pa.RecordBatch) -> Iterator[bytes]:
    """The rows as cells, each within the limit unless it is a single row."""
    if rows.num_rows > 1 and rows.nbytes > CELL_BYTES:
        half = rows.num_rows // 2
        yield from cells(rows.slice(0, half))
        yield from cells(rows.slice(half))
    else:
        yield rows.serialize().to_pybytes()


class PackedInput:
    """Turns the cells of an input edge into rows, in the columns of the stage's input."""

    def __init__(self, index: int, edge: EdgePlan, batch_rows: int, *, timed: bool = True) -> None:
        """`timed`: rows into the stage have an event time, or at least a column for it."""
        fields = lead_fields(edge)
        fields += [pa.field(f"i{index}_{n}", kind) for n, (_, kind) in enumerate(RowCodec(edge.record_type).fields)]
        if edge.key_selector is not None:
            keys = KeyCodec(edge.key_types)
            fields += [pa.field(f"k{index}_{n}", kind) for n, (_, kind) in enumerate(keys.fields)]
        self._schema = pa.schema(fields)
        self._is_timed = timed
        self._batch_rows = batch_rows

    def rows(self, packed: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """The rows of the cells in order, in batches of at most `batch_rows`; small cells are put together."""
        gathered: list[pa.RecordBatch] = []
        count = 0
        for cell in packed:
            for part in self._slices(cell):
                if count + part.num_rows > self._batch_rows:
                    yield from _together(gathered)
                    gathered, count = [], 0
                gathered.append(part)
                count += part.num_rows
        yield from _together(gathered)

    def _slices(self, cell: bytes) -> Iterator[pa.RecordBatch]:
        try:
            rows = pa.ipc.read_record_batch(pa.py_buffer(cell), self._schema)
        except (pa.ArrowInvalid, OSError) as error:
            raise RpcError(f"unreadable rows on the way to a stage: {error}") from error
        if not self._is_timed:
            rows = rows.drop_columns([TIMESTAMP])
        for start in range(0, rows.num_rows, self._batch_rows):
            yield rows.slice(start, self._batch_rows)


def _together(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if batches:
        yield batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def is_packed(edge: EdgePlan, reader: StagePlan) -> bool:
    """Whether rows of an edge are packed: between two stages, and after a source that says so. Not in batch mode, which
    sorts rows on arrival.
    """
    return (isinstance(edge.source, StageOutput) or edge.packed) and not reader.batch
