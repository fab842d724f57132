"""Ctrl-C and SIGTERM: the first signal suspends the jobs and then ends the program, the second ends it at once."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.control import interrupts
from penstock.control.interrupts import Interrupts
from penstock.errors import JavaNotFoundError
from penstock.model.execution import JobStatus
from penstock.testing import ManualClock
from tests.waiting import LIMIT_S


class FakeJob:
    """A job that is suspended when the test says so."""

    def __init__(self, name: str = "totals") -> None:
        self.name = name
        self.asked = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()
        self.given: BaseException | None = None
        self._status = JobStatus.RUNNING

    def status(self) -> JobStatus:
        return self._status

    def suspend(self, interrupt: BaseException) -> None:
        self.given = interrupt
        self.asked.set()
        self.may_end.wait(LIMIT_S)
        self._status = JobStatus.SUSPENDED

    def abandon(self) -> None:
        self._status = JobStatus.SUSPENDED

    def describe_end(self) -> str:
        return f"job {self.name!r} is {self._status.name}"


class Exits:
    """Notes the exit codes of a process that would have ended."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.has_exited = threading.Event()

    def __call__(self, code: int) -> None:
        self.codes.append(code)
        self.has_exited.set()


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exits]:
    """The process's own handlers come back after the test."""
    before = {number: signal.getsignal(number) for number in interrupts.HANDLED}
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield Exits()
    for number, handler in before.items():
        signal.signal(number, handler)


class Signals:
    """Sends signals to this process, a second apart."""

    def __init__(self) -> None:
        self.clock = ManualClock()

    def send(self, number: signal.Signals = signal.SIGINT) -> None:
        self.clock.advance(1_000)
        signal.raise_signal(number)


def join_threads(*names: str) -> None:
    for thread in threading.enumerate():
        if thread.name in names:
            thread.join(LIMIT_S)


def wait_in_main(event: threading.Event) -> None:
    """A program that never ends by itself."""
    assert event.wait(LIMIT_S), "no interrupt came"


@pytest.mark.parametrize(
    ("number", "error"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)],
    ids=lambda value: str(value),
)
def test_the_first_signal_suspends_every_job_and_then_interrupts_the_program(
    exits: Exits, capsys: pytest.CaptureFixture[str], number: signal.Signals, error: type[BaseException]
) -> None:
    found = Interrupts(exits)
    found.install()
    jobs = [FakeJob("a"), FakeJob("b")]
    for job in jobs:
        found.add(job)
    with pytest.raises(error) as raised:
        signal.raise_signal(number)
        wait_in_main(threading.Event())
    assert all(isinstance(job.given, error) and job.status() is JobStatus.SUSPENDED for job in jobs)
    assert getattr(raised.value, "code", 143) == 143 and exits.codes == []
    assert capsys.readouterr().err.splitlines() == [
        "suspending 'a', 'b': interrupt again to end at once, without a last checkpoint",
        "job 'a' is SUSPENDED",
        "job 'b' is SUSPENDED",
    ]


def test_a_program_that_learns_of_it_from_its_job_is_not_interrupted_twice(exits: Exits) -> None:
    found = Interrupts(exits)
    found.install()
    job = FakeJob()
    found.add(job)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
        assert job.asked.wait(LIMIT_S) and job.given is not None
        raise found.deliver(job.given)
    join_threads("_suspend")  # it would have sent the signal again


def test_a_second_signal_ends_the_process_at_once_and_says_how_to_resume(
    exits: Exits, capsys: pytest.CaptureFixture[str]
) -> None:
    signals = Signals()
    found = Interrupts(exits, signals.clock)
    found.install()
    job = FakeJob()
    job.may_end.clear()
    found.add(job)
    signals.send()
    assert job.asked.wait(LIMIT_S)
    signals.send()
    assert exits.has_exited.wait(LIMIT_S)
    job.may_end.set()
    join_threads("_end_at_once", "_suspend")
    assert exits.codes == [130]
    assert capsys.readouterr().err.splitlines()[1:] == ["job 'totals' is SUSPENDED"]


def test_a_third_signal_waits_for_nothing(exits: Exits) -> None:
    signals = Signals()
    found = Interrupts(exits, signals.clock)
    found.install()
    job = FakeJob()
    job.may_end.clear()
    is_stuck, may_go_on = threading.Event(), threading.Event()

    def abandon() -> None:
        is_stuck.set()
        may_go_on.wait(LIMIT_S)

    job.abandon = abandon  # type: ignore[method-assign]
    found.add(job)
    for _ in range(3):
        signals.send(signal.SIGTERM)
    assert exits.codes == [143]
    assert job.asked.wait(LIMIT_S) and is_stuck.wait(LIMIT_S)
    may_go_on.set()
    job.may_end.set()
    join_threads("_end_at_once", "_suspend")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_process_that_cannot_print_its_last_lines_ends_all_the_same(exits: Exits) -> None:
    signals = Signals()
    found = Interrupts(exits, signals.clock)
    job = FakeJob()
    job.may_end.clear()

    def close() -> None:
        raise RuntimeError("the display is broken")

    found.add(job)
    with found.handled(close):
        for _ in range(2):
            signals.send()
        assert exits.has_exited.wait(LIMIT_S)
    job.may_end.set()
    join_threads("_end_at_once", "_suspend")
    assert exits.codes == [130]


def test_a_signal_that_a_wrapper_passes_on_is_not_a_second_one(exits: Exits) -> None:
    clock = ManualClock()
    found = Interrupts(exits, clock)
    found.install()
    job = FakeJob()
    job.may_end.clear()
    found.add(job)
    with pytest.raises(SystemExit):
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
            clock.advance(50)
        job.may_end.set()
        wait_in_main(threading.Event())
    assert job.given is not None and exits.codes == []


def test_a_program_that_waits_for_one_job_ends_after_all_are_suspended(exits: Exits) -> None:
    found = Interrupts(exits)
    found.install()
    quick, slow = FakeJob("quick"), FakeJob("slow")
    slow.may_end.clear()
    limits: list[float | None] = []

    class Described(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            limits.append(timeout)
            slow.may_end.set()
            return super().wait(timeout)

    found._described = Described()
    for job in (quick, slow):
        found.add(job)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
        assert quick.asked.wait(LIMIT_S) and quick.given is not None
        raise found.deliver(quick.given)
    assert slow.status() is JobStatus.SUSPENDED and limits == [None]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("learns_from_job", [True, False])
def test_a_job_that_cannot_be_described_does_not_keep_the_program_from_ending(
    exits: Exits, learns_from_job: bool
) -> None:
    found = Interrupts(exits)
    found.install()
    job = FakeJob()
    job.describe_end = MagicMock(side_effect=RuntimeError("a bug"))  # type: ignore[method-assign]
    found.add(job)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
        assert job.asked.wait(LIMIT_S) and job.given is not None
        if learns_from_job:
            raise found.deliver(job.given)
        wait_in_main(threading.Event())
    join_threads("_suspend")


def test_without_a_job_a_signal_ends_the_program_without_a_traceback(
    exits: Exits, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Interrupts(exits)
    found.install()
    with pytest.raises(KeyboardInterrupt) as raised:
        signal.raise_signal(signal.SIGINT)
    sys.excepthook(raised.type, raised.value, raised.tb)
    assert capsys.readouterr().err == ""
    sys.excepthook(JavaNotFoundError, JavaNotFoundError("no Java"), raised.tb)
    assert capsys.readouterr().err == "error: no Java\n"
    sys.excepthook(ValueError, ValueError("mine"), None)
    assert capsys.readouterr().err == "ValueError: mine\n"


def test_a_job_that_has_ended_is_left_alone(exits: Exits) -> None:
    found = Interrupts(exits)
    found.install()
    job = FakeJob()
    job.abandon()
    found.add(job)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert not job.asked.is_set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_a_child_that_has_inherited_the_handlers_ends_as_if_there_were_none(
    exits: Exits, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """`Pool.terminate` sends SIGTERM; the jobs belong to the process that has forked the pool's."""
    found = Interrupts(exits)
    found.install()
    job = FakeJob()
    found.add(job)
    found._pid = 0  # of another process
    sent: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", sent.append)
    handler = signal.getsignal(number)
    assert callable(handler)
    handler(number, None)
    default = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    assert sent == [number] and signal.getsignal(number) == default[number]
    assert not job.asked.is_set()


def test_a_program_that_goes_on_after_an_interrupt_can_be_interrupted_again(exits: Exits) -> None:
    found = Interrupts(exits)
    found.install()
    for _ in range(2):
        job = FakeJob()
        found.add(job)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
            wait_in_main(threading.Event())
        assert job.status() is JobStatus.SUSPENDED


def pyspark_handler(number: int, frame: Any) -> None:
    raise AssertionError("it would cancel the job of the last checkpoint")


pyspark_handler.__module__ = "pyspark.core.context"


def own_handler(number: int, frame: Any) -> None: ...


@pytest.mark.parametrize(
    ("before", "is_replaced"), [(pyspark_handler, True), (own_handler, False), (signal.SIG_IGN, False)]
)
def test_only_handlers_of_python_and_pyspark_are_replaced(
    exits: Exits, before: Callable[[int, Any], None], is_replaced: bool
) -> None:
    for number in interrupts.HANDLED:
        signal.signal(number, before)
    Interrupts(exits).install()
    assert [signal.getsignal(number) is not before for number in interrupts.HANDLED] == [is_replaced] * 2


def test_in_a_notebook_only_the_statement_is_interrupted(exits: Exits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "is_interactive", lambda: True)
    signals = Signals()
    found = Interrupts(exits, signals.clock)
    found.install()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    job = FakeJob()
    job.may_end.clear()
    found.add(job)
    with found.handled():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        with pytest.raises(KeyboardInterrupt):
            for _ in range(2):
                signals.send()
    assert job.asked.wait(LIMIT_S)
    job.may_end.set()
    join_threads("_suspend")
    assert exits.codes == [] and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_in_a_notebook_jobs_in_the_background_go_on(exits: Exits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "is_interactive", lambda: True)
    found = Interrupts(exits)
    waited_for, background = FakeJob(), FakeJob("background")
    for job in (background, waited_for):
        found.add(job)
    with pytest.raises(KeyboardInterrupt), found.handled(only=waited_for):
        signal.raise_signal(signal.SIGINT)
        wait_in_main(threading.Event())
    assert waited_for.status() is JobStatus.SUSPENDED and not background.asked.is_set()


def test_penstock_run_closes_its_display_before_the_last_line(exits: Exits, capsys: pytest.CaptureFixture[str]) -> None:
    found = Interrupts(exits)
    job = FakeJob()
    found.add(job)
    with pytest.raises(KeyboardInterrupt), found.handled(lambda: print("closed", file=sys.stderr)):
        signal.raise_signal(signal.SIGINT)
        wait_in_main(threading.Event())
    assert "SUSPENDED" not in capsys.readouterr().err
    found.print_lines()
    assert capsys.readouterr().err == "job 'totals' is SUSPENDED\n"
    signal.raise_signal(signal.SIGINT)  # while the process ends: quietly
    assert exits.codes == [130]
