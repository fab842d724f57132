"""Savepoints that somebody asked for, and what became of them (features N2, N3, N5)."""

import threading
from dataclasses import dataclass
from typing import Literal

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.errors import CheckpointFailedError

Format = Literal["canonical", "native"]
Then = Literal["go_on", "stop", "cancel"]


@dataclass(frozen=True)
class SavepointWish:
    """What is wanted."""

    trigger_id: str
    """32 hex digits; the same one is the same savepoint."""
    target: str
    """The folder in which the savepoint's own folder is made."""
    format: Format = "canonical"
    then: Then = "go_on"
    """What the job does afterwards."""
    drain: bool = False
    """Event time comes to its end first: all timers and windows fire."""


class SavepointRequest:
    """One wish, how far it has come, and its answer. Any thread may look at it and wait for it."""

    def __init__(self, wish: SavepointWish) -> None:
        self.wish = wish
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._path: str | None = None
        self._failure: str | None = None
        self._progress = 0.0
        self.stats: CheckpointStats | None = None
        """Its figures, once it has ended."""

    @property
    def trigger_id(self) -> str:
        """By which it is known."""
        return self.wish.trigger_id

    @property
    def progress(self) -> float:
        """How much is written, from 0 to 1."""
        return self._progress

    @property
    def is_answered(self) -> bool:
        """Whether it is known how it ended."""
        return self._answered.is_set()

    @property
    def path(self) -> str | None:
        """The savepoint's folder, once it is there."""
        return self._path

    @property
    def failure(self) -> str | None:
        """Why there is none and will be none."""
        return self._failure

    def advance(self, progress: float) -> None:
        """So much is written; it never goes back."""
        with self._lock:
            self._progress = max(self._progress, min(progress, 1.0))

    def complete(self, path: str) -> None:
        """The savepoint exists."""
        with self._lock:
            if not self._answered.is_set():
                self._path, self._progress = path, 1.0
                self._answered.set()

    def fail(self, reason: str) -> None:
        """The savepoint will never exist, or nobody is left who could say so. The first answer holds."""
        with self._lock:
            if not self._answered.is_set():
                self._failure = reason
                self._answered.set()

    def result(self, timeout_s: float | None = None) -> str:
        """The path of the savepoint; raises CheckpointFailedError, or TimeoutError."""
        if not self._answered.wait(timeout_s):
            raise TimeoutError(f"the savepoint has not ended within {timeout_s} s")
        if self._path is None:
            raise CheckpointFailedError(f"the savepoint failed: {self._failure}")
        return self._path
