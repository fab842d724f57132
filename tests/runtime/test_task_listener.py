"""A TaskManager that cannot serve tasks any more ends: Spark would wait forever for one that only stopped listening."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.runtime.process import task_listener
from penstock.runtime.process.task_listener import START_LIMIT_S, TaskListener
from penstock.testing import ManualClock


class Ended(BaseException):
    """Raised in place of the end of the process."""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()):
        yield listening


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> TaskListener:
    """One whose process cannot start another thread."""

    def end(reason: str) -> None:
        raise Ended(reason)

    def no_thread(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(task_listener, "exit_now", end)
    monkeypatch.setattr(TaskListener, "_start_thread", no_thread)
    tasks = TaskListener.__new__(TaskListener)
    tasks._closed = threading.Event()
    tasks._clock = ManualClock()
    tasks._starting = {}
    tasks._serve_connection = lambda connection: None
    return tasks


def test_f24_one_that_cannot_start_a_thread_for_a_task_ends(deaf: TaskListener, listener: socket.socket) -> None:
    with pytest.raises(Ended, match="tasks cannot be served any more: can't start new thread"):
        deaf._accept(listener)


def test_one_that_was_told_to_stop_just_stops_listening(deaf: TaskListener, listener: socket.socket) -> None:
    deaf._closed.set()
    deaf._accept(listener)


def test_f24_one_whose_thread_for_a_task_never_runs_ends(
    deaf: TaskListener, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    deaf._clock = clock

    def without_end(*_: Any) -> None:
        deaf.require_responsive()  # what the heartbeat sees at once
        clock.advance(round(1000 * START_LIMIT_S) + 1)
        deaf.require_responsive()  # and after a while

    monkeypatch.setattr(TaskListener, "_start_thread", without_end)
    with pytest.raises(Ended, match="a thread did not start"):
        deaf._accept(listener)


def test_one_that_serves_is_not_taken_for_deaf(
    deaf: TaskListener, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    deaf._clock = clock
    monkeypatch.setattr(TaskListener, "_start_thread", lambda *_: None)
    connection, _ = listener.accept()
    with connection:
        deaf._hand_over(connection)
        clock.advance(10**6)
        deaf.require_responsive()
