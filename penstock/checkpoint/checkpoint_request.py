"""Checkpoints that somebody asked for, outside the interval (features M6)."""

import threading

from penstock.errors import CheckpointFailedError
from penstock.model.ids import CheckpointId


class CheckpointRequest:
    """One wish for a checkpoint, and its answer. `full`: nothing of it is inherited from an older one."""

    def __init__(self, *, full: bool = False) -> None:
        self.full = full
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._answer: CheckpointId | str = ""

    def complete(self, checkpoint_id: CheckpointId) -> None:
        """The checkpoint exists and is committed."""
        self._settle(checkpoint_id)

    def fail(self, reason: str) -> None:
        """The checkpoint will never exist, or nobody is left who could say so."""
        self._settle(reason)

    def _settle(self, answer: CheckpointId | str) -> None:
        """The first answer holds."""
        with self._lock:
            if not self._answered.is_set():
                self._answer = answer
                self._answered.set()

    @property
    def is_answered(self) -> bool:
        """Whether it is known how the checkpoint ended."""
        return self._answered.is_set()

    def result(self, timeout_s: float | None = None) -> CheckpointId:
        """The number of the completed checkpoint; raises CheckpointFailedError, or TimeoutError."""
        if not self._answered.wait(timeout_s):
            raise TimeoutError(f"the checkpoint has not ended within {timeout_s} s")
        if isinstance(self._answer, str):
            raise CheckpointFailedError(f"the checkpoint failed: {self._answer}")
        return self._answer
