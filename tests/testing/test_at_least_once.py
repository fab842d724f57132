"""AT_LEAST_ONCE: each epoch's output is released at once; after a failure some comes twice, none is lost (L6)."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import failpoint
from penstock.common import Types
from penstock.datastream import CheckpointingMode, KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.failpoint import Failpoint
from penstock.testing import CHECKPOINT, CRASH, Harness
from penstock.testing.memory_sink import MemorySink

PLACES = [f"C{n}.{side}" for n in (9, 10, 12, 16, 17, 18, 19, 20, 21, 22) for side in ("before", "after")]
ALO = CheckpointingMode.AT_LEAST_ONCE


class Count(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value


@pytest.fixture(autouse=True)
def _no_failpoints() -> Iterator[None]:
    yield
    failpoint.disarm()


def harness(sink: MemorySink, **settings: Any) -> Harness:
    return Harness.keyed(Count(), key=lambda row: row[0], sink=sink, mode=ALO, **settings)


def rows(count: int, start: int = 0) -> list[tuple[str, int]]:
    return [("abc"[number % 3], number) for number in range(start, start + count)]


def require(job: Harness, sink: MemorySink, fed: list[tuple[str, int]]) -> None:
    """Nothing is lost, and the state has counted each row once."""
    found = Counter(map(tuple, sink.rows))
    assert set(found) == set(fed) and min(found.values()) >= 1
    for key, count in Counter(key for key, _ in fed).items():
        assert job.state("count", key) == count


def test_k2_output_is_released_with_its_epoch_not_with_a_checkpoint() -> None:
    sink = MemorySink()
    job = harness(sink)
    job.feed(rows(3))
    assert sorted(map(tuple, sink.rows)) == sorted(rows(3))
    exact = MemorySink()
    Harness.keyed(Count(), key=lambda row: row[0], sink=exact).feed(rows(3))
    assert exact.rows == []


def test_l6_after_a_crash_output_comes_twice_and_state_is_exact() -> None:
    sink = MemorySink()
    job = harness(sink, parallelism=2)
    job.feed([*rows(6), CHECKPOINT, *rows(6, 6), CRASH])
    require(job, sink, rows(12))
    assert Counter(map(tuple, sink.rows)) == Counter(rows(12)) + Counter(rows(6, 6))


def test_l6_without_a_crash_nothing_comes_twice() -> None:
    sink = MemorySink()
    job = harness(sink)
    job.feed([*rows(6), CHECKPOINT, *rows(6, 6), CHECKPOINT]).finish()
    assert Counter(map(tuple, sink.rows)) == Counter(rows(12))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("hit", [1, 2, 3, 4])
def test_l6_nothing_is_lost_wherever_it_crashes(place: str, hit: int) -> None:
    sink = MemorySink()
    job = harness(sink, parallelism=2)
    failpoint.arm(Failpoint(place, "raise", hit=hit))
    job.feed([*rows(4), CHECKPOINT, *rows(4, 4), *rows(3, 8), CHECKPOINT, *rows(2, 11)])
    require(job, sink, rows(13))
    job.finish()
    assert set(map(tuple, sink.rows)) == set(rows(13))


def test_l6_a_checkpoint_has_nothing_left_to_commit() -> None:
    sink = MemorySink()
    job = harness(sink)
    job.feed([*rows(3), CHECKPOINT])
    assert job.manifest is not None and job.manifest.committables == []
    assert sink.store.repeated_commit_count == 0
