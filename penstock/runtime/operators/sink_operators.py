"""Sinks as the last operators of a chain: print, collect, and the transactional ones (PROTOCOL R28)."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from penstock import compat
from penstock.codec.row_codec import RowCodec
from penstock.graph.job_graph import OperatorPlan
from penstock.graph.pickling import loads
from penstock.model.flink_text import printed_text
from penstock.model.ids import SubtaskId
from penstock.model.sink import ColumnWriter, SinkContext, SinkWriter
from penstock.model.snapshot import Committable
from penstock.model.types import TypeInformation
from penstock.runtime.operators.batch import Batch


class EpochSink(Protocol):
    """A sink as a subtask uses it in each epoch."""

    def begin_epoch(self) -> None: ...
    def write(self, records: Sequence[Any]) -> None: ...
    def roll_back(self) -> None: ...
    def pre_commit(self, epoch: int) -> list[Committable]: ...
    def close(self) -> None: ...


@runtime_checkable
class TakesColumns(Protocol):
    """A sink that can write rows as Arrow columns too."""

    takes_columns: bool

    def write_columns(self, rows: pa.RecordBatch) -> None: ...


class Transactions:
    """A user's sink: its writer pre-commits transactions, the JobManager commits them."""

    def __init__(self, plan: OperatorPlan, context: SinkContext) -> None:
        self._context = context
        self._writer: SinkWriter = loads(plan.function).config.open(context)
        self._column_writer = self._writer if isinstance(self._writer, ColumnWriter) else None
        self.takes_columns = self._column_writer is not None

    def begin_epoch(self) -> None:
        self._writer.begin_epoch()

    def write(self, records: Sequence[Any]) -> None:
        self._writer.write(records)

    def write_columns(self, rows: pa.RecordBatch) -> None:
        assert self._column_writer is not None
        self._column_writer.write_columns(rows)

    def roll_back(self) -> None:
        self._writer.roll_back()

    def pre_commit(self, epoch: int) -> list[Committable]:
        context = self._context
        return [
            Committable(context.sink_uid, context.subtask, epoch, transaction, data)
            for transaction, data in self._writer.pre_commit()
        ]

    def close(self) -> None:
        self._writer.close()


class Printed:
    """`stream.print()`: lines that the JobManager prints when the epoch commits.

    A program run with `--pyflink` prints as PyFlink does: without the subtask number if there is only one.
    """

    def __init__(self, plan: OperatorPlan, subtask: SubtaskId, parallelism: int) -> None:
        identifier = loads(plan.function).config
        as_in_flink = compat.is_installed()
        number = "" if as_in_flink and parallelism == 1 else str(subtask.index + 1)
        place = ":".join(filter(None, (identifier, number)))
        self._prefix = f"{place}> " if place else ""
        self._text = printed_text(plan.input_type) if as_in_flink else str
        self.lines: list[str] = []

    def begin_epoch(self) -> None:
        self.lines = []

    def write(self, records: Sequence[Any]) -> None:
        self.lines.extend(f"{self._prefix}{self._text(record)}" for record in records)

    def roll_back(self) -> None:
        self.lines = []

    def pre_commit(self, epoch: int) -> list[Committable]:
        return []

    def close(self) -> None:
        self.lines = []


class Collected:
    """`execute_and_collect()`: the epoch's records are sent to the JobManager as Arrow streams."""

    takes_columns = True

    def __init__(self, plan: OperatorPlan) -> None:
        self.uid = plan.uid
        self.payloads: list[bytes] = []
        self._type = plan.input_type

    def begin_epoch(self) -> None:
        self.payloads = []

    def write(self, records: Sequence[Any]) -> None:
        """Encode now, so that a value that does not fit is an error of the operator that emitted it."""
        self.payloads.append(encode_records(records, self._type))

    def write_columns(self, rows: pa.RecordBatch) -> None:
        self.payloads.append(_encode_columns(rows.columns, self._type))

    def roll_back(self) -> None:
        self.payloads = []

    def pre_commit(self, epoch: int) -> list[Committable]:
        return []

    def close(self) -> None:
        self.payloads = []


def write_batch(sink: EpochSink, batch: Batch) -> None:
    """Write a batch to a sink: as columns if the batch has some and the sink takes them."""
    if batch.columns is not None and isinstance(sink, TakesColumns) and sink.takes_columns:
        sink.write_columns(batch.columns.rows)
    else:
        sink.write(batch.records)


def open_sink(plan: OperatorPlan, context: SinkContext, parallelism: int) -> EpochSink:
    """The sink of a plan, ready for its first epoch."""
    kind = plan.config["sink"]
    if kind == "print":
        return Printed(plan, context.subtask, parallelism)
    if kind == "collect":
        return Collected(plan)
    return Transactions(plan, context)


def encode_records(records: Sequence[Any], type_info: TypeInformation) -> bytes:
    """Records as an Arrow stream."""
    return _encode_columns(RowCodec(type_info).encode(records), type_info)


def _encode_columns(columns: list[pa.Array], type_info: TypeInformation) -> bytes:
    schema = pa.schema([pa.field(name, arrow) for name, arrow in RowCodec(type_info).fields])
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return bytes(stream.getvalue())


def decode_records(data: bytes, type_info: TypeInformation) -> list[Any]:
    """The records in an Arrow stream made by `encode_records`."""
    codec = RowCodec(type_info)
    records: list[Any] = []
    with pa.ipc.open_stream(data) as reader:
        for batch in reader:
            records.extend(codec.decode_batch(batch.columns))
    return records
