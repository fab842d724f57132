"""Actors that run one at a time: threads that hand a baton over. So a seed decides the whole interleaving.

An actor has the baton until it rests, which it does only where the world asks it to: at storage operations, crash
points, locks and in its own loops. Nothing here depends on time or on the operating system's scheduler.
"""

import threading
from collections.abc import Callable
from typing import Protocol

from penstock.failpoint import InjectedCrash

STUCK_S = 300.0


class Owner(Protocol):
    """The process that an actor is a thread of."""

    name: str


class Actor:
    """One thread of a process. It can be paused for any number of steps, and ended where it rests."""

    def __init__(self, owner: Owner, role: str, work: Callable[["Actor"], None]) -> None:
        self.owner = owner
        self.role = role
        self.paused_until = 0
        self.waits_for: Callable[[], bool] | None = None
        """It need not go on before this holds; looked at by the schedule, which saves many hand-overs."""
        self.is_doomed = False
        self.is_done = False
        self.error: BaseException | None = None
        self._work = work
        self._go = _held_lock()  # a lock as a semaphore of one: much cheaper than threading.Semaphore
        self._rested = _held_lock()
        self._thread: threading.Thread | None = None

    def __str__(self) -> str:
        return f"{self.owner.name}.{self.role}"

    def advance(self) -> None:
        """Let it go on until it rests or ends. Called by the schedule."""
        if self._thread is None:
            if self.is_doomed:
                self.is_done = True
                return
            self._thread = threading.Thread(target=self._run, name=str(self), daemon=True)
            self._thread.start()
        else:
            self._go.release()
        assert self._rested.acquire(timeout=STUCK_S), f"{self} does not rest"
        if self.is_done:
            self._thread.join()

    def rest(self) -> None:
        """Give the baton back and wait for it. Called by the actor."""
        self._rested.release()
        self._go.acquire()
        if self.is_doomed:
            raise InjectedCrash("crash")

    def _run(self) -> None:
        try:
            self._work(self)
        except BaseException as error:  # looked at by the schedule
            self.error = error
        self.is_done = True
        self._rested.release()


class BatonLock:
    """A lock for code that rests while it holds one: whoever waits for it rests too."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self._wait = wait
        self._held = False

    def __enter__(self) -> None:
        while self._held:
            self._wait()
        self._held = True

    def __exit__(self, *_: object) -> None:
        self._held = False


def _held_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock
