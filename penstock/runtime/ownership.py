"""Who may run a subtask's epoch: the decision table of PROTOCOL section 3, under the subtask's lock.

One `Ownership` per subtask. It knows the version of the subtask's state, the current run and the kept output of the
last finished epoch; it knows nothing of operators or state.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import StateLostError, SupersededTaskError
from penstock.model.ids import SubtaskId, Version
from penstock.runtime.process.messages import TaskHeader

LEAVE_TIMEOUT_S = 30.0
"""For a cancelled run to leave the user's function."""


@dataclass
class Run:
    """One execution of an epoch. `cancelled` asks it to stop."""

    epoch: int
    consumer: str
    task_attempt: int
    cancelled: threading.Event = field(default_factory=threading.Event)
    interrupt: Callable[[], None] = lambda: None
    """Wakes the run if it is waiting for input."""


@dataclass(frozen=True)
class Kept:
    """A finished epoch: its output is replayed to every later task, byte for byte."""

    epoch: int
    parent: Version
    version: Version
    output: Any


class Ownership:
    """The version, the running epoch and the kept output of one subtask. Thread safe."""

    def __init__(self, subtask: SubtaskId, version: Version) -> None:
        self.subtask = subtask
        self._version = version
        self._run: Run | None = None
        self._kept: Kept | None = None
        self._newest: dict[str, int] = {}
        self._lost: str | None = None
        self._changed = threading.Condition()

    @property
    def version(self) -> Version:
        """The version of the current state."""
        return self._version

    def admit(self, header: TaskHeader) -> Run | Kept:
        """What the task does: a `Run` that it must end with `finish` or `drop`, or the `Kept` output to pass on.

        Raises SupersededTaskError (this task only) or StateLostError (the attempt is over). May wait for another run.
        """
        epoch = header.epoch.epoch
        with self._changed:
            self._check_superseded(header)
            self._newest[header.consumer] = header.task_attempt
            while True:
                self._check_superseded(header)
                if self._lost is not None:
                    raise StateLostError(
                        f"subtask {self.subtask} could not undo an epoch, or not end one: {self._lost}"
                    )
                if self._kept is not None and self._kept.epoch == epoch and self._kept.parent == header.parent:
                    return self._kept
                if self._run is None:
                    return self._open(header)
                if self._run.consumer == header.consumer:
                    self._cancel_run()
                else:
                    self._changed.wait(1.0)

    def _check_superseded(self, header: TaskHeader) -> None:
        if self._version.epoch > header.epoch.epoch:
            raise SupersededTaskError(
                f"subtask {self.subtask} is at epoch {self._version.epoch}, the task asks for {header.epoch.epoch}"
            )
        if self._newest.get(header.consumer, -1) > header.task_attempt:
            raise SupersededTaskError(
                f"task attempt {header.task_attempt} of subtask {self.subtask} was overtaken by attempt "
                f"{self._newest[header.consumer]}"
            )

    def _open(self, header: TaskHeader) -> Run:
        if self._version != header.parent:
            raise StateLostError(
                f"subtask {self.subtask} holds version {self._version}, "
                f"epoch {header.epoch.epoch} needs {header.parent}"
            )
        self._kept = None  # PROTOCOL R10: the header names this version as parent, so nobody asks for its output again
        self._run = Run(header.epoch.epoch, header.consumer, header.task_attempt)
        return self._run

    def _cancel_run(self) -> None:
        """Wait until the run has left the user's code; PROTOCOL R11."""
        run = self._run
        assert run is not None
        run.cancelled.set()
        run.interrupt()
        if not self._changed.wait_for(lambda: self._run is not run, LEAVE_TIMEOUT_S):
            raise StateLostError(f"a cancelled run of subtask {self.subtask} did not leave the user's function")

    def finish(self, run: Run, version: Version, output: Any) -> Kept:
        """The run has finished: its version and its output become the subtask's together."""
        with self._changed:
            if self._run is not run or run.cancelled.is_set():
                raise SupersededTaskError(f"the run of subtask {self.subtask} was cancelled before it finished")
            self._kept = Kept(run.epoch, self._version, version, output)
            self._version = version
            self._run = None
            self._changed.notify_all()
            return self._kept

    def lose(self, why: str) -> None:
        """A run has ended and its changes could not be undone: this subtask does not run again in this attempt."""
        with self._changed:
            self._lost = why
            self._run = None
            self._changed.notify_all()

    def drop(self, run: Run) -> None:
        """The run has ended without a result; its changes have been undone."""
        with self._changed:
            if self._run is run:
                self._run = None
            self._changed.notify_all()
