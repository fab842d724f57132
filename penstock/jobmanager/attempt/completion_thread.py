"""The one thread that completes the checkpoints and savepoints of an attempt (PROTOCOL R21)."""

import threading
from collections.abc import Callable

from penstock.checkpoint.no_checkpoints import Coordinator
from penstock.checkpoint.savepoints import Savepoints
from penstock.errors import JobFailedError, PenstockError
from penstock.model.snapshot import CheckpointAck, CheckpointDecline, Manifest, SavepointEvent

POLL_S = 0.25
END_TIMEOUT_S = 60.0


class CompletionThread:
    """From `start` to `stop`. Acks come from RPC threads and wake it; an error of its own ends the attempt."""

    def __init__(
        self,
        coordinator: Coordinator,
        savepoints: Savepoints,
        fail: Callable[[PenstockError], None],
        completed: Callable[[Manifest | None], None],
    ) -> None:
        """`completed` gets the newest completed checkpoint, again and again, and returns at once."""
        self._completed = completed
        self._coordinator = coordinator
        self._savepoints = savepoints
        self._fail = fail
        self._has_events = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)

    def start(self) -> None:
        """Complete what is ready from now on."""
        self._thread.start()

    def ack(self, ack: CheckpointAck) -> None:
        """A subtask has written its part of a checkpoint."""
        self._coordinator.ack(ack)
        self._has_events.set()

    def decline(self, decline: CheckpointDecline) -> None:
        """A subtask cannot take part in a checkpoint."""
        self._coordinator.decline(decline)
        self._has_events.set()

    def savepoint_event(self, event: SavepointEvent) -> None:
        """A subtask has written, is writing or cannot write its part of a savepoint."""
        self._savepoints.receive(event)
        self._has_events.set()

    def stop(self) -> None:
        """Complete nothing more."""
        self._stopped.set()

    def join(self) -> None:
        """Let the commits of the last completed checkpoint end before the job is called ended."""
        if self._thread.ident is not None:
            self._thread.join(END_TIMEOUT_S)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._has_events.wait(POLL_S)
            self._has_events.clear()
            try:
                self._coordinator.complete_ready()
                self._completed(self._coordinator.newest_completed)
                self._savepoints.advance()
            except PenstockError as error:
                self._fail(error)
                return
            except Exception as error:  # a bug of ours must end the attempt, not only this thread
                self._fail(JobFailedError(f"completing a checkpoint failed: {type(error).__name__}: {error}"))
                return
