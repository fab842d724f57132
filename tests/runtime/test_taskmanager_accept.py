"""A TaskManager that can take no more tasks ends: one that only no longer listened would be waited for without end."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.runtime import taskmanager
from penstock.runtime.taskmanager import HAND_OVER_LIMIT_S, TaskManager
from penstock.testing import ManualClock


class Ended(BaseException):
    """In place of the end of the process."""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()):
        yield listening


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> TaskManager:
    """One whose process cannot start another thread."""

    def end(reason: str) -> None:
        raise Ended(reason)

    def no_thread(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(taskmanager, "exit_now", end)
    monkeypatch.setattr(TaskManager, "_start", no_thread)
    manager = TaskManager.__new__(TaskManager)
    manager._done = threading.Event()
    manager._clock = ManualClock()  # type: ignore[assignment]
    manager._handing_over = {}
    return manager


def test_f24_one_that_cannot_start_a_thread_for_a_task_ends(deaf: TaskManager, listener: socket.socket) -> None:
    with pytest.raises(Ended, match="tasks cannot be served any more: can't start new thread"):
        deaf._accept(listener)


def test_one_that_was_told_to_stop_just_stops_listening(deaf: TaskManager, listener: socket.socket) -> None:
    deaf._done.set()
    deaf._accept(listener)


def test_f24_one_whose_thread_for_a_task_never_runs_ends(
    deaf: TaskManager, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    deaf._clock = clock  # type: ignore[assignment]

    def without_end(*_: Any) -> None:
        deaf._require_hearing()  # what the heartbeat sees at once
        clock.advance(round(1000 * HAND_OVER_LIMIT_S) + 1)
        deaf._require_hearing()  # and after a while

    monkeypatch.setattr(TaskManager, "_start", without_end)
    with pytest.raises(Ended, match="a thread did not start"):
        deaf._accept(listener)


def test_one_that_serves_is_not_taken_for_deaf(
    deaf: TaskManager, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    deaf._clock = clock  # type: ignore[assignment]
    monkeypatch.setattr(TaskManager, "_start", lambda *_: None)
    connection, _ = listener.accept()
    with connection:
        deaf._serve(connection)
        clock.advance(10**6)
        deaf._require_hearing()
