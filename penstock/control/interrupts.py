"""What Ctrl-C and SIGTERM do to a program with running jobs: the jobs are suspended, then the program ends.

The first signal starts a thread that suspends the jobs. The program goes on meanwhile, so that a lock that it holds
cannot block the suspension. Then its main thread gets a KeyboardInterrupt (SIGINT) or a SystemExit with code 143
(SIGTERM). A second signal ends the process at once: to the job logs it is a driver that was killed.

Handlers are installed in the main thread of a script only, and only in place of Python's and PySpark's own: PySpark's
cancels all Spark jobs, also the one that a last checkpoint needs. A program with handlers of its own keeps them.
"""

import builtins
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Protocol

from penstock.control.terminal import print_error, print_message
from penstock.errors import JavaNotFoundError
from penstock.model.execution import JobStatus

HANDLED = (signal.SIGINT, signal.SIGTERM)
DELIVERY_S = 0.5
"""How long the main thread has to find out by itself that its job was suspended, before it is interrupted."""
DESCRIBE_S = 5.0


class SuspendableJob(Protocol):
    """A job of this process."""

    @property
    def name(self) -> str: ...
    def status(self) -> JobStatus: ...
    def suspend(self, interrupt: BaseException) -> None: ...
    def abandon(self) -> None: ...
    def describe_end(self) -> str: ...


class Interrupts:
    """The signals of this process. `install` and `handled` belong to the main thread, the rest to any."""

    def __init__(self, exit_now: Callable[[int], None] = os._exit) -> None:
        self._exit_now = exit_now
        self._jobs: list[SuspendableJob] = []
        self._has_hook = False
        self._work: queue.SimpleQueue[Callable[[], None]] | None = None
        """What handlers start. They run in the middle of anything, also of `Thread.start`, which they must not call."""
        self._close: Callable[[], None] | None = None
        self._is_shell = False
        self._reset()

    def _reset(self) -> None:
        self._received: list[signal.Signals] = []
        self._is_wake_up = False
        self._delivered = threading.Event()
        self._described = threading.Event()
        """How the jobs ended is known, and printed unless `close` comes first."""
        self._described.set()
        self._lines: list[str] = []

    # ---- the program

    def install(self) -> None:
        """Handle the signals from now on, unless the program is interactive or has handlers of its own."""
        if threading.current_thread() is threading.main_thread() and not is_interactive():
            self._replace_handlers()
            if not self._has_hook:
                self._has_hook, sys.excepthook = True, self._quiet_hook(sys.excepthook)

    @contextmanager
    def handled(self, close: Callable[[], None] | None = None) -> Iterator[None]:
        """Handle the signals in this block only, also in an interactive program.

        `close` is called before the last lines are printed, which `print_lines` does.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in HANDLED}
        self._reset()
        self._close, self._is_shell = close, close is None and is_interactive()
        self._replace_handlers()
        try:
            yield
        finally:
            is_ending = self.is_received and not self._is_shell
            self._close, self._is_shell = None, False
            for number, handler in before.items():
                if handler is not None and not is_ending:  # otherwise one more signal ends the process quietly
                    signal.signal(number, handler)

    def add(self, job: SuspendableJob) -> None:
        """Suspend this job too, as long as it has not ended."""
        if self._delivered.is_set():
            self._reset()  # the program has gone on after an interrupt
        self._jobs = [*self._running(), job]

    @property
    def is_received(self) -> bool:
        """A signal has come."""
        return bool(self._received)

    def interrupt(self) -> BaseException:
        """What the first signal raises in the main thread."""
        if self._received and self._received[0] is signal.SIGTERM:
            return SystemExit(exit_code(signal.SIGTERM))
        return KeyboardInterrupt()

    def deliver(self, error: BaseException) -> BaseException:
        """The error, which the calling thread raises now. If it is the main thread, it is not interrupted again.

        The main thread first lets the jobs' last lines be printed, because the process may end with it.
        """
        if isinstance(error, KeyboardInterrupt | SystemExit) and _is_main_thread():
            self._delivered.set()
            self._described.wait(DESCRIBE_S)
        return error

    def print_lines(self) -> None:
        """Print how each job was suspended, and how to resume it."""
        lines, self._lines = self._lines, []
        for line in lines:
            print_message(line)

    # ---- signals

    def _replace_handlers(self) -> None:
        if self._work is None:
            self._work = queue.SimpleQueue()
            threading.Thread(target=_start_threads, args=(self._work,), name="interrupts", daemon=True).start()
        for number in HANDLED:
            if _is_default(signal.getsignal(number)) and not (self._is_shell and number is signal.SIGTERM):
                signal.signal(number, self._receive)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        """In the main thread, between two of its instructions."""
        if self._is_wake_up:
            self._is_wake_up = False
            if not self._delivered.is_set():
                raise self.deliver(self.interrupt())
            return
        self._received.append(signal.Signals(number))
        if len(self._received) == 1:
            if not self._running():
                raise self.deliver(self.interrupt())
            self._described.clear()
            self._start(self._suspend)
        elif self._is_shell:
            self._delivered.set()
            raise KeyboardInterrupt  # the suspension goes on, and so does the shell
        elif len(self._received) == 2 and self._running():
            self._start(self._end_at_once)
        else:
            self._exit_now(exit_code(self._received[0]))

    def _start(self, work: Callable[[], None]) -> None:
        assert self._work is not None, "only a handler calls this"
        self._work.put(work)

    def _suspend(self) -> None:
        """Suspend every job, then interrupt the main thread, wherever it is."""
        jobs = self._running()
        names = ", ".join(repr(job.name) for job in jobs)
        print_message(f"suspending {names}: interrupt again to end at once, without a last checkpoint")
        threads = [threading.Thread(target=job.suspend, args=(self.interrupt(),), daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(self._received) > 1:
            return  # the process is being ended at once
        self._lines = [job.describe_end() for job in jobs]
        if self._close is None:
            self.print_lines()
        self._described.set()
        if not self._delivered.wait(DELIVERY_S):
            self._is_wake_up = True
            signal.pthread_kill(threading.main_thread().ident or 0, self._received[0])

    def _end_at_once(self) -> None:
        jobs = self._running()
        for job in jobs:
            job.abandon()
        self._lines = self._lines or [job.describe_end() for job in jobs]
        if self._close is not None:
            self._close()
        self.print_lines()
        self._exit_now(exit_code(self._received[0]))

    def _running(self) -> list[SuspendableJob]:
        return [job for job in self._jobs if not job.status().is_terminal_state()]

    def _quiet_hook(self, before: Callable[..., Any]) -> Callable[..., Any]:
        """Like `before`, but without the place of an error that is none, or that any program would have met."""

        def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
            if isinstance(error, JavaNotFoundError):
                print_error(str(error), error.exit_code)
            elif not (self._received and isinstance(error, KeyboardInterrupt)):
                before(kind, error, traceback)

        return hook


INTERRUPTS = Interrupts()
"""Of this process."""


def exit_code(number: signal.Signals) -> int:
    """The exit code of a process that a signal has ended, as shells count: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + number


def is_interactive() -> bool:
    """Whether the program is a shell or a notebook, in which an interrupt ends a statement, not the process."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or hasattr(builtins, "__IPYTHON__")


def _start_threads(work: "queue.SimpleQueue[Callable[[], None]]") -> None:
    """Run each piece of work in a thread of its own."""
    while True:
        target = work.get()
        threading.Thread(target=target, name=target.__name__, daemon=True).start()


def _is_default(handler: Any) -> bool:
    """Whether nobody but Python or PySpark has set the handler; an ignored signal stays ignored."""
    is_default = handler in (signal.SIG_DFL, signal.default_int_handler)
    return is_default or str(getattr(handler, "__module__", "")).startswith("pyspark.")


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
