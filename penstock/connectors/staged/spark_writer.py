"""`to_spark(write, exactly_once=True)`: rows wait with their checkpoint and are then handed to the program's writer."""

from collections.abc import Callable
from typing import Any

from penstock.connectors.staged.staged_sink import StagedOutput, StagedSink


class SparkWriterSink(StagedSink):
    """Calls the writer with the rows of each completed checkpoint, perhaps again with the same rows and token.

    The writer stays in the JobManager: it may hold a Spark session. TaskManagers get the sink without it.
    """

    def __init__(self, write: Callable[[StagedOutput], None] | None) -> None:
        self._write = write

    @property
    def keeps_marker(self) -> bool:
        """False: only the writer knows which tokens it has seen, and it must be able to read the rows again."""
        return False

    def publish(self, output: StagedOutput) -> None:
        """Hand the rows to the writer."""
        assert self._write is not None, "only the JobManager commits"
        self._write(output)

    def __reduce__(self) -> tuple[Any, ...]:
        return SparkWriterSink, (None,)
