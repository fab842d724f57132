"""What Ctrl-C and SIGTERM do to a program with running jobs: the jobs are suspended, then the program ends.

The first signal starts a thread that suspends the jobs. The program goes on meanwhile, so that a lock that it holds
cannot block the suspension. Then its main thread gets a KeyboardInterrupt (SIGINT) or a SystemExit with code 143
(SIGTERM). A second signal ends the process at once: to the job logs it is a driver that was killed. One that follows
the first within `SAME_SIGNAL_S` is that signal again: `uv run` and `timeout` pass on what the program gets by itself.

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
from typing import Any, Protocol, TypeAlias

from penstock.clock import Clock, SystemClock
from penstock.control.terminal import print_error, print_message
from penstock.errors import JavaNotFoundError
from penstock.model.execution import JobStatus

HANDLED = (signal.SIGINT, signal.SIGTERM)
DELIVERY_S = 0.5
"""How long the main thread has to find out by itself that its job was suspended, before it is interrupted."""
SAME_SIGNAL_S = 0.2

Work: TypeAlias = tuple[Callable[..., None], tuple[Any, ...]]
"""A function and its arguments."""


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

    def __init__(self, exit_now: Callable[[int], None] = os._exit, clock: Clock | None = None) -> None:
        self._exit_now = exit_now
        self._clock = clock or SystemClock()
        self._pid = os.getpid()
        self._jobs: list[SuspendableJob] = []
        self._has_hook = False
        self._work: queue.SimpleQueue[Work] | None = None
        """What handlers start. They run in the middle of anything, also of `Thread.start`, which they must not call."""
        self._close: Callable[[], None] | None = None
        self._is_shell = False
        self._only: SuspendableJob | None = None
        """In a shell, the job that the statement waits for."""
        self._reset()

    def _reset(self) -> None:
        self._received: list[signal.Signals] = []
        self._received_at_s = 0.0
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
    def handled(self, close: Callable[[], None] | None = None, only: SuspendableJob | None = None) -> Iterator[None]:
        """Handle the signals in this block only, also in an interactive program.

        `close` is called before the last lines are printed, which `print_lines` does. With `only`, an interrupt
        suspends this job and no other one.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in HANDLED}
        self._reset()
        self._close, self._only, self._is_shell = close, only, close is None and is_interactive()
        self._replace_handlers()
        try:
            yield
        finally:
            is_ending = self.is_received and not self._is_shell
            self._close, self._only, self._is_shell = None, None, False
            for number, handler in before.items():
                if handler is not None and not is_ending:  # otherwise one more signal ends the process quietly
                    signal.signal(number, handler)

    def add(self, job: SuspendableJob) -> None:
        """Suspend this job too, as long as it has not ended."""
        if self._delivered.is_set():
            self._reset()  # the program has gone on after an interrupt
        self._jobs = [*_not_ended(self._jobs), job]

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

        The main thread first waits for the other jobs and for the last lines, because the process may end with it. A
        second signal ends the wait, and the process.
        """
        if isinstance(error, KeyboardInterrupt | SystemExit) and _is_main_thread():
            self._delivered.set()
            self._described.wait()
        return error

    def print_lines(self) -> None:
        """Print how each job was suspended, and how to resume it."""
        lines, self._lines = self._lines, []
        for line in lines:
            print_message(line)

    # ---- signals

    def _replace_handlers(self) -> None:
        if self._pid != os.getpid():  # a fork of the program has none of its threads and jobs
            self._pid, self._jobs, self._work = os.getpid(), [], None
        if self._work is None:
            self._work = queue.SimpleQueue()
            threading.Thread(target=_start_threads, args=(self._work,), name="interrupts", daemon=True).start()
        for number in HANDLED:
            if _is_default(signal.getsignal(number)) and not (self._is_shell and number is signal.SIGTERM):
                signal.signal(number, self._receive)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        """In the main thread, between two of its instructions."""
        if os.getpid() != self._pid:  # a fork of the program, for example of a multiprocessing pool
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            signal.raise_signal(number)
            return
        if self._is_wake_up:
            self._is_wake_up = False
            if not self._delivered.is_set():
                raise self.deliver(self.interrupt())
            return
        now_s = self._clock.monotonic_s()
        if self._received and now_s - self._received_at_s < SAME_SIGNAL_S:
            return
        self._received.append(signal.Signals(number))
        self._received_at_s = now_s
        if len(self._received) == 1:
            jobs = self._running()
            if not jobs:
                raise self.deliver(self.interrupt())
            self._described.clear()
            self._start(self._suspend, jobs)
        elif self._is_shell:
            self._delivered.set()
            raise KeyboardInterrupt  # the suspension goes on, and so does the shell
        elif len(self._received) == 2 and self._running():
            self._start(self._end_at_once)
        else:
            self._exit_now(exit_code(self._received[0]))

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        assert self._work is not None, "only a handler calls this"
        self._work.put((target, arguments))

    def _suspend(self, jobs: list[SuspendableJob]) -> None:
        """Suspend the jobs, then interrupt the main thread, wherever it is."""
        received, delivered, described, is_shell = self._received, self._delivered, self._described, self._is_shell
        try:
            _suspend_all(jobs, self.interrupt())
            if len(received) == 1 or is_shell:  # otherwise the process is being ended at once
                self._lines = [job.describe_end() for job in jobs]
                if self._close is None:
                    self.print_lines()
        finally:
            if len(received) == 1 or is_shell:
                described.set()
            if len(received) == 1 and not delivered.wait(DELIVERY_S):
                self._is_wake_up = True
                signal.pthread_kill(threading.main_thread().ident or 0, received[0])

    def _end_at_once(self) -> None:
        jobs = self._running()
        try:
            for job in jobs:
                job.abandon()
            self._lines = self._lines or [job.describe_end() for job in jobs]
            if self._close is not None:
                self._close()
            self.print_lines()
        finally:
            self._exit_now(exit_code(self._received[0]))

    def _running(self) -> list[SuspendableJob]:
        """The jobs that a signal suspends."""
        return _not_ended(self._jobs if self._only is None else [self._only])

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


def _start_threads(work: "queue.SimpleQueue[Work]") -> None:
    """Run each piece of work in a thread of its own."""
    while True:
        target, arguments = work.get()
        threading.Thread(target=target, args=arguments, name=target.__name__, daemon=True).start()


def _suspend_all(jobs: list[SuspendableJob], interrupt: BaseException) -> None:
    names = ", ".join(repr(job.name) for job in jobs)
    print_message(f"suspending {names}: interrupt again to end at once, without a last checkpoint")
    threads = [threading.Thread(target=job.suspend, args=(interrupt,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _not_ended(jobs: list[SuspendableJob]) -> list[SuspendableJob]:
    return [job for job in jobs if not job.status().is_terminal_state()]


def _is_default(handler: Any) -> bool:
    """Whether nobody but Python or PySpark has set the handler; an ignored signal stays ignored."""
    is_default = handler in (signal.SIG_DFL, signal.default_int_handler)
    return is_default or str(getattr(handler, "__module__", "")).startswith("pyspark.")


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
