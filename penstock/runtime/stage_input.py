"""The input of a stage: from Arrow batches to batches of records and barriers, edge by edge."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec
import numpy as np
import pyarrow as pa

from penstock.errors import UnsupportedValueError
from penstock.graph.job_graph import StagePlan
from penstock.model.options import execution_options
from penstock.model.options.execution_options import BATCH_ROWS
from penstock.runtime.exchange_rows import (
    BARRIER,
    BARRIER_EDGE,
    EDGE,
    PACKED,
    TIMESTAMP,
    EdgeColumns,
    has_timestamps,
    positions_in_columns,
    positions_read,
)
from penstock.runtime.operators.batch import Batch, EdgeBatch
from penstock.runtime.packed_rows import PackedInput, is_packed
from penstock.runtime.process.messages import Barrier

_barrier_decoder = msgspec.msgpack.Decoder(Barrier)


class StageInput:
    """Turns the Arrow batches of a stage's input into batches of records, edge by edge."""

    def __init__(self, stage: StagePlan, batch_rows: int = BATCH_ROWS.default, *, drop_untimed: bool = False) -> None:
        in_columns = positions_in_columns(stage)
        self._edges = [
            EdgeColumns(
                index,
                edge,
                keyed=stage.keyed and edge.partitioning != "broadcast",
                in_columns=-1 - index in in_columns,
            )
            for index, edge in enumerate(stage.inputs)
        ]
        self._timed = has_timestamps(stage)
        self._packed = {
            index: PackedInput(index, edge, batch_rows, timed=self._timed)
            for index, edge in enumerate(stage.inputs)
            if is_packed(edge, stage)
        }
        self._event_times = [edge.event_time for edge in stage.inputs]
        self._read = positions_read(stage)
        self._drop_untimed = drop_untimed
        self._split = self._split_in_order if stage.batch and len(stage.inputs) > 1 else self._split_by_edge

    def items(self, batches: Iterable[pa.RecordBatch]) -> Iterator[EdgeBatch | Barrier]:
        """Records and barriers, in the order of arrival."""
        for batch in batches:
            if batch.num_rows:
                yield from self._split(batch)

    def _split_in_order(self, batch: pa.RecordBatch) -> Iterator[EdgeBatch | Barrier]:
        """For batch mode: rows of different edges are not reordered, because they are sorted by key."""
        edges = batch.column(EDGE).to_numpy(zero_copy_only=False)
        starts = [0, *(int(index) + 1 for index in np.flatnonzero(np.diff(edges))), len(edges)]
        whole = {}
        if len(starts) > 3:  # decode each edge once
            parts = (part for part in self._split_by_edge(batch) if isinstance(part, EdgeBatch))
            whole = {part.edge: part for part in parts if len(part.batch) == part.rows and not part.dropped}
        done = dict.fromkeys(whole, 0)
        for start, stop in pairwise(starts):
            edge = int(edges[start])
            if edge in whole:
                end = done[edge] + stop - start
                yield whole[edge].slice(done[edge], end)
                done[edge] = end
            else:
                yield from self._split_by_edge(batch.slice(start, stop - start))

    def _split_by_edge(self, batch: pa.RecordBatch) -> Iterator[EdgeBatch | Barrier]:
        edges = batch.column(EDGE).to_numpy(zero_copy_only=False)
        present = [int(edges[0])] if edges.min() == edges.max() else [int(edge) for edge in np.unique(edges)]
        for edge in present:
            part = batch if len(present) == 1 else batch.filter(pa.array(edges == edge))
            if edge == BARRIER_EDGE:
                yield from (_barrier_decoder.decode(data) for data in part.column(BARRIER).to_pylist())
            elif edge in self._packed:
                for packed in self._packed[edge].rows(part.column(PACKED).to_pylist()):
                    rows = self._with_event_time(edge, packed)
                    yield self._decoded(edge, rows, packed.num_rows - rows.num_rows)
            else:
                rows = self._with_event_time(edge, part)
                yield self._decoded(edge, rows, part.num_rows - rows.num_rows)

    def _decoded(self, edge: int, rows: pa.RecordBatch, dropped: int) -> EdgeBatch:
        is_read = -1 - edge in self._read
        decoded = self._edges[edge].decode(rows, timed=self._timed) if is_read else Batch([])
        return EdgeBatch(edge, decoded, rows.num_rows, dropped, rows)

    def _with_event_time(self, edge: int, part: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a source that have an event time. Rows without one are an error, unless they are dropped."""
        event_time = self._event_times[edge]
        if event_time is None or not part.column(TIMESTAMP).null_count:
            return part
        if not self._drop_untimed:
            raise UnsupportedValueError(
                f"a row has no event time: its column {event_time.column!r} is null; set "
                f"{execution_options.NULL_EVENT_TIME.key}: drop to leave such rows out (they are counted), or fill the "
                f"column before from_dataframe()"
            )
        return part.filter(part.column(TIMESTAMP).is_valid())
