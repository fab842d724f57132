"""The staged rows of a checkpoint as a DataFrame, read by Spark's tasks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.codec.row_codec import RowCodec
from penstock.connectors.staged.staged_files import StagedRows
from penstock.connectors.staged.staged_sink import StagedOutput
from penstock.model.ddl import arrow_to_ddl, quote_name
from penstock.model.types import TypeInformation
from penstock.spark.epoch_runner import SparkEpoch

WriteFrame = Callable[[DataFrame, SparkEpoch], None]


@dataclass(frozen=True)
class FrameWriter:
    """Calls a program's writer with staged rows."""

    write: WriteFrame
    session: Callable[[], SparkSession]
    record_type: TypeInformation

    def __call__(self, output: StagedOutput) -> None:
        epoch = SparkEpoch(output.job_id, output.epoch, None, output.owner, output.marker)
        self.write(staged_frame(self.session(), output, self.record_type), epoch)


def staged_frame(session: SparkSession, output: StagedOutput, record_type: TypeInformation) -> DataFrame:
    """The rows, one partition for each staged part. Each action reads them again."""
    fields = RowCodec(record_type).fields
    ddl = ", ".join(f"{quote_name(name)} {arrow_to_ddl(arrow)}" for name, arrow in fields)
    count = len(output.parts)
    return session.range(0, count, 1, count).mapInArrow(_ReadParts(output.parts), ddl)


@dataclass(frozen=True)
class _ReadParts:
    parts: tuple[StagedRows, ...]

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self.parts[number].batches()
