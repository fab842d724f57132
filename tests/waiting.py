"""Waiting for something outside this process, with a limit."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
LIMIT_S = 300.0
"""When a test calls something stuck: far more than anything takes, also on a busy machine."""


def wait_until(ask: Callable[[], Value], *, timeout_s: float = LIMIT_S, pause_s: float = 0.05) -> Value:
    """The first true answer of `ask`; an AssertionError with the last answer when the time is up."""
    end_s = time.monotonic() + timeout_s
    pause = threading.Event()
    while not (answer := ask()):
        assert time.monotonic() < end_s, f"still {answer!r} after {timeout_s} s"
        pause.wait(pause_s)
    return answer


class Stopwatch:
    """How long something has taken."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()

    def seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self._start_s
