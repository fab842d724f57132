"""A requested savepoint: the same object from the REST route or the JobClient to the barrier, and for the result."""

from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.errors import CheckpointFailedError
from penstock.model.ids import new_trigger_id

SavepointFormat = Literal["canonical", "native"]
Then = Literal["go_on", "stop", "cancel"]


@dataclass(eq=False)
class SavepointRequest:
    """What the savepoint should be, how much of it is written, and its path in `future`. Any thread may read it."""

    target: str = ""
    """The folder in which the savepoint's own folder is created; empty until the job has chosen its default."""
    format: SavepointFormat = "canonical"
    then: Then = "go_on"
    """What the job does after the savepoint."""
    drain: bool = False
    """Event time ends before the savepoint: all its timers and windows fire (features N4)."""
    trigger_id: str = field(default_factory=new_trigger_id)
    """32 hex digits. Two requests with the same id are the same savepoint."""
    future: Future[str] = field(default_factory=Future, init=False)
    """The path of the savepoint's folder, or a CheckpointFailedError."""
    progress: float = field(default=0.0, init=False)
    """How much is written, from 0 to 1; never decreases."""
    stats: CheckpointStats | None = field(default=None, init=False)
    """Its figures, once it has ended."""

    @property
    def is_stop(self) -> bool:
        """The job ends with the savepoint."""
        return self.then != "go_on"

    def advance(self, progress: float) -> None:
        """Note how much is written. Called by one thread at a time."""
        self.progress = max(self.progress, min(progress, 1.0))

    def complete(self, path: str) -> None:
        """The savepoint exists. The first result counts, here and in `fail`."""
        self.progress = 1.0
        with suppress(InvalidStateError):
            self.future.set_result(path)

    def fail(self, reason: str) -> None:
        """The savepoint will never exist, or nobody will know whether it does."""
        with suppress(InvalidStateError):
            self.future.set_exception(CheckpointFailedError(f"the savepoint failed: {reason}"))
