"""A TaskManager that can take no more tasks ends: one that only no longer listened would be waited for without end."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.runtime import taskmanager
from penstock.runtime.taskmanager import TaskManager


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
    return manager


def test_f24_one_that_cannot_start_a_thread_for_a_task_ends(deaf: TaskManager, listener: socket.socket) -> None:
    with pytest.raises(Ended, match="tasks cannot be served any more: can't start new thread"):
        deaf._accept(listener)


def test_one_that_was_told_to_stop_just_stops_listening(deaf: TaskManager, listener: socket.socket) -> None:
    deaf._done.set()
    deaf._accept(listener)
