"""A checkpoint that was requested, outside the interval (features M6)."""

from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field

from penstock.errors import CheckpointFailedError
from penstock.model.ids import CheckpointId


@dataclass(eq=False)
class CheckpointRequest:
    """One request. Its `future` has the number of the completed checkpoint, or a CheckpointFailedError."""

    full: bool = False
    """The checkpoint builds on no older one."""
    future: Future[CheckpointId] = field(default_factory=Future, init=False)

    def complete(self, checkpoint_id: CheckpointId) -> None:
        """The checkpoint exists and is committed. The first result counts, here and in `fail`."""
        with suppress(InvalidStateError):
            self.future.set_result(checkpoint_id)

    def fail(self, reason: str) -> None:
        """The checkpoint will never exist, or nobody will know whether it does."""
        with suppress(InvalidStateError):
            self.future.set_exception(CheckpointFailedError(f"the checkpoint failed: {reason}"))
