"""A sink that discards its records, for benchmarks and for jobs that only have side effects."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.model.sink import Sink, SinkContext, SinkWriter
from penstock.model.snapshot import Committable


class DiscardingSink(Sink):
    """Discards every record."""

    @property
    def allows_fallback(self) -> bool:
        """Nothing is stored, so nothing can be stored twice."""
        return True

    def open(self, context: SinkContext) -> SinkWriter:
        """A writer that does nothing."""
        return _Discard()

    def commit(self, committable: Committable) -> None:
        """There is nothing to commit."""

    def sweep(self, job_id: str, sink_uid: str, keep: Sequence[Committable], before_attempt: int) -> None:
        """There is nothing to abort."""


class _Discard(SinkWriter):
    def begin_epoch(self) -> None: ...

    def write(self, records: Sequence[Any]) -> None: ...

    def write_columns(self, rows: pa.RecordBatch) -> None: ...

    def roll_back(self) -> None: ...

    def pre_commit(self) -> list[tuple[str, dict[str, str | int]]]:
        return []

    def close(self) -> None: ...
