"""Actors that run one at a time and can be stopped, paused and ended at every step: threads with a baton.

An actor goes on until its next `step`, which the storage calls before every operation. Only the actor with the baton
runs, so that a seed decides the whole schedule.
"""

import threading
from collections.abc import Callable

from penstock.failpoint import InjectedCrash

STACK_S = 30.0


class Actor:
    """One thread of a process that may crash."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._go = _held_lock()  # a lock as a semaphore of one: much cheaper than threading.Semaphore
        self._rested = _held_lock()
        self.is_doomed = False
        self.is_done = False
        self.error: BaseException | None = None
        self.paused_until = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def advance(self) -> None:
        """Let it go on to its next step, or to its end. Called by the schedule."""
        self._go.release()
        assert self._rested.acquire(timeout=STACK_S), "an actor waits for another one"

    def step(self) -> None:
        """Give the baton back and wait for it. Called by the actor."""
        self._rested.release()
        self._go.acquire()
        if self.is_doomed:
            raise InjectedCrash("crash")

    @property
    def is_current(self) -> bool:
        """Whether the calling thread is this actor's."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self.is_doomed:
                self._work()
        except BaseException as error:  # looked at by the schedule
            self.error = error
        self.is_done = True
        self._rested.release()


def _held_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock
