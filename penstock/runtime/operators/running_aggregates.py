"""Built-in functions on columns: `keyed.running(...)` and `keyed.deduplicate(...)`."""

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.batch_functions import BatchProcessFunction, BatchRuntimeContext
from penstock.model.column_aggregates import BoundAggregate, state_type
from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.key_slots import KeySlots
from penstock.model.ttl import StateTtlConfig
from penstock.model.type_information import scalar
from penstock.runtime.operators.column_folds import fields_of, fold_rows, results

RUNNING_STATE = "_running"
SEEN_STATE = "_seen"


class RunningAggregates(BatchProcessFunction):
    """For each row the aggregates of all rows of its key up to it."""

    def __init__(self, key_names: tuple[str, ...], aggregates: tuple[BoundAggregate, ...]) -> None:
        self.key_names = key_names
        self.aggregates = aggregates

    def open(self, runtime_context: BatchRuntimeContext) -> None:  # type: ignore[override]
        self._state = runtime_context.get_state(ValueStateDescriptor(RUNNING_STATE, state_type(self.aggregates)))

    def process_batch(self, batch: pa.RecordBatch, keys: KeySlots, ctx: BatchProcessFunction.Context) -> Any:
        before = fields_of(self.aggregates, self._state.get_many(keys))
        rows = pa.array(keys.indices)
        columns = [column.take(rows) for column in keys.columns]
        after: list[pa.Array] = []
        for aggregate, fields in zip(self.aggregates, before, strict=True):
            by_row, by_key = fold_rows(aggregate, keys, batch, fields)
            columns.append(results(aggregate, by_row))
            after += by_key
        self._state.put_many(keys, after)
        names = [*self.key_names, *(aggregate.name for aggregate in self.aggregates)]
        return pa.RecordBatch.from_arrays(columns, names)


class Deduplicate(BatchProcessFunction):
    """The first row of each key, and the first one after its time to live."""

    def __init__(self, ttl: StateTtlConfig | None) -> None:
        self.ttl = ttl

    def open(self, runtime_context: BatchRuntimeContext) -> None:  # type: ignore[override]
        descriptor = ValueStateDescriptor(SEEN_STATE, scalar("BOOLEAN"))
        if self.ttl is not None:
            descriptor.enable_time_to_live(self.ttl)
        self._seen = runtime_context.get_state(descriptor)

    def process_batch(self, batch: pa.RecordBatch, keys: KeySlots, ctx: BatchProcessFunction.Context) -> Any:
        is_new = self._seen.get_many(keys).is_null().to_numpy(zero_copy_only=False)
        self._seen.put_many(keys, np.ones(len(keys), np.bool_), where=is_new)
        rows = np.sort(keys.first_rows[is_new])
        ctx.set_source_rows(rows)
        return batch.take(pa.array(rows)) if len(rows) < batch.num_rows else batch
