"""Who may run an epoch of a subtask: each row of the table in PROTOCOL section 3."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import StateLostError, SupersededTaskError
from penstock.model.ids import Version
from penstock.runtime.ownership import Kept, Ownership, Run
from penstock.runtime.process.messages import TaskHeader
from tests.runtime.subtasks import SUBTASK, epoch_header
from tests.waiting import wait_until

FIRST = Version(1, 0, "restored")
SECOND = Version(1, 1, "a")


def ask(epoch: int = 1, parent: Version = FIRST, consumer: str = "end", attempt: int = 0) -> TaskHeader:
    return TaskHeader("token", SUBTASK, parent, consumer, attempt, None, epoch_header(epoch))


def running(ownership: Ownership, header: TaskHeader) -> Run:
    run = ownership.admit(header)
    assert isinstance(run, Run)
    return run


def finished() -> Ownership:
    """An owner that has finished epoch 1 for the consumer `end`."""
    ownership = Ownership(SUBTASK, FIRST)
    ownership.finish(running(ownership, ask(attempt=5)), SECOND, {"edge": b"rows"})
    return ownership


class Asking(threading.Thread):
    """A task in a thread of its own, because it may have to wait."""

    def __init__(self, ownership: Ownership, header: TaskHeader) -> None:
        super().__init__(daemon=True)
        self._ask: Callable[[], Any] = lambda: ownership.admit(header)
        self.answer: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.answer = self._ask()
        except Exception as error:
            self.answer = error

    def result(self) -> Any:
        self.join(10)
        assert not self.is_alive(), "the task still waits"
        return self.answer


def test_the_parent_version_and_nobody_running_means_run() -> None:
    ownership = Ownership(SUBTASK, FIRST)
    assert isinstance(ownership.admit(ask()), Run)
    assert ownership.version == FIRST


def test_a_finished_epoch_is_replayed_byte_for_byte() -> None:
    ownership = finished()
    for header in (ask(attempt=5), ask(attempt=6), ask(consumer="other")):
        kept = ownership.admit(header)
        assert isinstance(kept, Kept)
        assert kept == Kept(1, FIRST, SECOND, {"edge": b"rows"})
    assert ownership.version == SECOND


def test_the_kept_output_goes_when_a_header_names_its_version_as_parent() -> None:
    ownership = finished()
    running(ownership, ask(2, SECOND, attempt=9))
    with pytest.raises(SupersededTaskError):
        ownership.admit(ask(1, FIRST, attempt=5))


def test_an_older_epoch_is_refused_for_this_task_only() -> None:
    ownership = finished()
    ownership.finish(running(ownership, ask(2, SECOND, attempt=9)), Version(1, 2, "b"), {})
    with pytest.raises(SupersededTaskError, match="is at epoch 2, the task asks for 1"):
        ownership.admit(ask(1, FIRST, consumer="late"))
    assert isinstance(ownership.admit(ask(3, Version(1, 2, "b"), attempt=10)), Run)


def test_an_older_task_attempt_is_refused_whether_the_newer_one_runs_or_has_finished() -> None:
    ownership = Ownership(SUBTASK, FIRST)
    run = running(ownership, ask(attempt=5))
    with pytest.raises(SupersededTaskError, match="overtaken by attempt 5"):
        ownership.admit(ask(attempt=4))
    assert not run.cancelled.is_set()
    ownership.finish(run, SECOND, {})
    with pytest.raises(SupersededTaskError, match="overtaken by attempt 5"):
        ownership.admit(ask(attempt=4))


def test_another_consumer_waits_and_gets_the_same_output() -> None:
    ownership = Ownership(SUBTASK, FIRST)
    run = running(ownership, ask(consumer="1"))
    other = Asking(ownership, ask(consumer="2"))
    kept = ownership.finish(run, SECOND, {1: b"x"})
    assert other.result() is kept


def test_another_consumer_becomes_the_runner_when_the_run_is_lost() -> None:
    ownership = Ownership(SUBTASK, FIRST)
    run = running(ownership, ask(consumer="1"))
    other = Asking(ownership, ask(consumer="2"))
    ownership.drop(run)
    new = other.result()
    assert isinstance(new, Run) and new.consumer == "2"
    with pytest.raises(SupersededTaskError):
        ownership.finish(run, SECOND, {})  # the lost one comes back too late
    assert ownership.finish(new, SECOND, {}).version == SECOND


def test_a_newer_attempt_of_the_same_consumer_cancels_the_run_and_waits_until_it_has_left() -> None:
    ownership = Ownership(SUBTASK, FIRST)
    run = running(ownership, ask(attempt=1))
    woken = threading.Event()
    run.interrupt = woken.set
    newer = Asking(ownership, ask(attempt=2))
    assert woken.wait(10) and run.cancelled.is_set()
    assert newer.is_alive()  # the old run is still in the user's function
    with pytest.raises(SupersededTaskError):
        ownership.finish(run, SECOND, {})
    ownership.drop(run)
    new = newer.result()
    assert isinstance(new, Run) and new.task_attempt == 2
    assert ownership.version == FIRST


def test_a_cancelled_run_that_does_not_leave_the_function_ends_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.runtime.ownership.LEAVE_TIMEOUT_S", 0.01)
    ownership = Ownership(SUBTASK, FIRST)
    running(ownership, ask(attempt=1))
    with pytest.raises(StateLostError, match="did not leave the user's function"):
        ownership.admit(ask(attempt=2))


def test_a_waiting_attempt_is_itself_overtaken() -> None:
    ownership = Ownership(SUBTASK, FIRST)
    run = running(ownership, ask(attempt=1))
    second = Asking(ownership, ask(attempt=2))
    wait_until(run.cancelled.is_set, pause_s=0.001)
    third = Asking(ownership, ask(attempt=3))
    wait_until(lambda: ownership._newest["end"] == 3, pause_s=0.001)
    ownership.drop(run)
    assert isinstance(second.result(), SupersededTaskError)
    new = third.result()
    assert isinstance(new, Run) and new.task_attempt == 3


@pytest.mark.parametrize(
    ("epoch", "parent"),
    [(1, Version(1, 0, "of another execution")), (2, Version(1, 1, "a")), (1, Version(2, 0, "restored"))],
)
def test_a_parent_that_is_not_held_ends_the_attempt(epoch: int, parent: Version) -> None:
    with pytest.raises(StateLostError, match=r"holds version 1\.0\.restored"):
        Ownership(SUBTASK, FIRST).admit(ask(epoch, parent))


def test_two_executions_of_one_epoch_are_not_mixed_up() -> None:
    with pytest.raises(StateLostError):
        finished().admit(ask(2, Version(1, 1, "another nonce"), attempt=9))


def test_a_subtask_that_could_not_be_rolled_back_is_given_to_nobody() -> None:
    ownership = Ownership(SUBTASK, FIRST)
    running(ownership, ask(consumer="1"))
    waiting = Asking(ownership, ask(consumer="2"))
    ownership.lose("the disk is full")
    assert "could not undo an epoch, or not end one: the disk is full" in str(waiting.result())
    with pytest.raises(StateLostError):
        ownership.admit(ask(attempt=9))
