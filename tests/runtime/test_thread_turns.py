"""Turns of threads are short while queries come, and as Python has them otherwise."""

import sys
from collections.abc import Iterator

import pytest

from penstock.runtime.process.thread_turns import SHORT_S, ThreadTurns

LONG_S = 0.004


@pytest.fixture(autouse=True)
def switch_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(LONG_S)
    yield
    sys.setswitchinterval(before)


def test_turns_are_short_from_the_first_query_to_a_second_without_one() -> None:
    turns = ThreadTurns()
    turns.note_heartbeat()
    assert sys.getswitchinterval() == pytest.approx(LONG_S)
    for _ in range(3):
        turns.note_query()
        assert sys.getswitchinterval() == pytest.approx(SHORT_S)
    turns.note_heartbeat()  # there were queries since the last one
    assert sys.getswitchinterval() == pytest.approx(SHORT_S)
    turns.note_heartbeat()
    assert sys.getswitchinterval() == pytest.approx(LONG_S)
    turns.note_query()
    assert sys.getswitchinterval() == pytest.approx(SHORT_S)
