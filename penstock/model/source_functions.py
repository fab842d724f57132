"""Sources in Python that produce records in a method of their own, as in Flink's Java API; see `env.add_source`."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any

from penstock.model.functions import Function


class SourceFunction(Function):
    """Produces the records of a stream, in one process on the machine of the driver.

    With `CheckpointedFunction` its operator state is the position: after a failure it starts there and must produce the
    same records again, so every record counts once. Without it the records since the last checkpoint are lost, and
    `run` starts from the beginning.
    """

    class SourceContext(ABC):
        """Takes the records of a source."""

        @abstractmethod
        def collect(self, element: Any) -> None:
            """Emit a record."""

        @abstractmethod
        def get_checkpoint_lock(self) -> AbstractContextManager[object]:
            """Hold it while a record is emitted and the position moves on: no snapshot comes in between.

            Taking it waits while enough records are waiting to be read.
            """

    @abstractmethod
    def run(self, ctx: "SourceFunction.SourceContext") -> None:
        """Emit records until there are no more, or until `cancel` is called. The job ends when all sources have."""

    def cancel(self) -> None:
        """Called from another thread: `run` should return soon."""
        return
