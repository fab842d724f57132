"""The one edge that reads a packed source: its rows become cells in the task that reads them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.connectors.read_path import packed_edge
from penstock.graph.job_graph import EdgePlan, JobGraph, SourcePlan, StagePlan
from penstock.runtime.exchange_rows import lead_fields, row_schema
from penstock.runtime.packed_rows import RowPacker, cell_batch


@dataclass(frozen=True)
class PackedEdge:
    """Where the rows of a source go. Plain data; tasks get it."""

    edge: EdgePlan
    stage: StagePlan
    """Without its functions, which are not needed."""

    @staticmethod
    def of(graph: JobGraph, source: SourcePlan) -> "PackedEdge":
        edge, stage = packed_edge(graph, source)
        return PackedEdge(edge, replace(stage, inputs=(), operators=(), outputs=()))

    def pack(self, batches: Iterable[pa.RecordBatch], first: int) -> Iterator[pa.RecordBatch]:
        """The rows as cells. A batch has the fields of the records, then the columns of the event time if there is one.

        `first`: the target of the first row where rows are spread evenly.
        """
        packer = RowPacker(self.edge, self.stage, first)
        for batch in batches:
            if cells := list(packer.add(self._laid_out(batch))):
                yield cell_batch(cells)
        if cells := list(packer.end()):
            yield cell_batch(cells)

    def _laid_out(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch as a stage would emit it on the edge."""
        time, schema = self.edge.event_time, row_schema(self.edge)
        lead = [pa.nulls(batch.num_rows, pa.int64())]
        if time is not None:
            names = [time.column, *filter(None, [time.partition_column])]
            lead = [batch.column(name) for name in names]
        width = len(schema) - len(lead_fields(self.edge))
        return pa.RecordBatch.from_arrays([*lead, *batch.columns[:width]], schema=schema)
