"""Joins of random streams equal a brute-force oracle, with crashes, rescaling and a change of backend in between."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Time
from penstock.datastream import CoGroupFunction, FlatJoinFunction, JoinFunction, OutputTag, ProcessJoinFunction
from penstock.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.testing import CHECKPOINT, CRASH, Harness, Second, Watermark

LATE = OutputTag("late")
BACKENDS = st.sampled_from(["hashmap", "rocksdb"])
NEVER = -(2**63)


class Event(NamedTuple):
    side: int
    key: str
    time: int
    id: int


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left, right, ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    """Events out of order, late and with equal timestamps; watermarks, crashes, and changes of the job."""
    items: list[Any] = []
    base = number = 0
    for _ in range(draw(st.integers(1, 7))):
        base += draw(st.sampled_from([0, 0, 2, 9, 40]))
        for _ in range(draw(st.integers(0, 6))):
            number += 1
            key, time = draw(st.sampled_from("ab")), base + draw(st.integers(-8, 8))
            items.append(Event(draw(st.integers(1, 2)), key, time, number))
        step = draw(st.sampled_from(["watermark", "watermark", "checkpoint", "crash", "rescale", "savepoint"]))
        if step == "watermark":
            items.append(Watermark(base + draw(st.integers(-5, 9))))
        else:
            items += [CRASH] if step == "crash" else [CHECKPOINT, *([] if step == "checkpoint" else [step])]
    return items


def mark_second(event: Event) -> Any:
    """The record as the harness takes it."""
    return tuple(event) if event.side == 1 else Second(tuple(event))


def run(make: Callable[..., Harness], items: list[Any], backend: str) -> Counter[Any]:
    """What the harness emits, late records marked as such."""
    parallelism = 2
    harness = make(parallelism=parallelism, backend=backend)
    results: Counter[Any] = Counter()

    def collect() -> None:
        results.update(harness.output)
        results.update(("late", record) for record in harness.side_output(LATE))

    for item in items:
        if item == "rescale":
            parallelism = parallelism % 3 + 1
            harness.rescale(parallelism)
        elif item == "savepoint":
            backend = {"hashmap": "rocksdb", "rocksdb": "hashmap"}[backend]
            parallelism = parallelism % 3 + 1
            with tempfile.TemporaryDirectory() as folder:
                path = harness.savepoint(folder, then="stop")
                collect()
                harness = make(parallelism=parallelism, backend=backend, start=StartOptions(path))
                harness.feed([CHECKPOINT])
        else:
            harness.feed([mark_second(item) if isinstance(item, Event) else item])
    harness.finish()
    collect()
    return results


def interval_join(bounds: tuple[int, int]) -> Callable[..., Harness]:
    def make(**settings: Any) -> Harness:
        return Harness.keyed(
            Pairs(),
            key=lambda event: event[1],
            timestamp=lambda event: event[2],
            between=bounds,
            late_data=LATE,
            max_parallelism=8,
            **settings,
        )

    return make


def joined_pairs(items: list[Any], lower: int, upper: int) -> Counter[Any]:
    """By brute force: every record with every earlier one of the other stream that is still there."""
    watermark, seen = NEVER, list[Event]()
    found: Counter[Any] = Counter()
    for item in items:
        if isinstance(item, Watermark):
            watermark = max(watermark, item.timestamp)
        if not isinstance(item, Event):
            continue
        if item.time < watermark:
            found["late", tuple(item)] += 1
            continue
        for other in seen:
            kept = max(upper, 0) if other.side == 1 else max(-lower, 0)
            if other.key != item.key or other.side == item.side or other.time + kept <= watermark:
                continue
            left, right = (item, other) if item.side == 1 else (other, item)
            if left.time + lower <= right.time <= left.time + upper:
                found[tuple(left), tuple(right), left.time, right.time, max(left.time, right.time)] += 1
        seen.append(item)
    return found


EXAMPLES = settings().max_examples
BOUNDS = [(-3, 3), (0, 0), (0, 7), (-7, 0), (2, 6), (-6, -2)]


def check_interval_join(bounds: tuple[int, int], items: list[Any], backend: str) -> None:
    found = run(interval_join(bounds), items, backend)
    assert found == joined_pairs(items, *bounds)


@settings(max_examples=EXAMPLES // 2)
@given(bounds=st.sampled_from(BOUNDS), items=histories(), backend=BACKENDS)
def test_an_interval_join_gives_what_the_oracle_gives(bounds: Any, items: list[Any], backend: str) -> None:
    check_interval_join(bounds, items, backend)


@pytest.mark.full
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.timeout(1800)
@settings(max_examples=334)
@given(items=histories(), backend=BACKENDS)
def test_every_interval_join_gives_what_the_oracle_gives(bounds: Any, items: list[Any], backend: str) -> None:
    check_interval_join(bounds, items, backend)


class Both(CoGroupFunction):
    def co_group(self, first: Sequence[Any], second: Sequence[Any]) -> Iterator[Any]:
        yield tuple(sorted(first)), tuple(sorted(second))


class Pair(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first, second


class Older(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return [first, second] if first < second else None


Sides = tuple[list[Any], list[Any]]
"""The records of both streams that meet in a window."""


def grouped(items: list[Any], size: int, slide: int) -> list[Sides]:
    """By brute force: the records of both streams in each key and window that were not late for it."""
    watermark, groups = NEVER, dict[tuple[str, int], Sides]()
    for item in items:
        if isinstance(item, Watermark):
            watermark = max(watermark, item.timestamp)
        elif isinstance(item, Event):
            for start in range(item.time - item.time % slide - size, item.time + 1):
                is_window = start % slide == 0 and start <= item.time < start + size
                if is_window and start + size - 1 > watermark:
                    groups.setdefault((item.key, start), ([], []))[item.side - 1].append(tuple(item))
    return list(groups.values())


class Session(NamedTuple):
    """A window that grows with each record."""

    key: str
    start: int
    end: int
    sides: Sides


def grouped_by_session(items: list[Any], gap: int) -> list[Sides]:
    """The same for sessions: a record that is late for all of them, and for one of its own, is in none."""
    watermark, growing, over = NEVER, list[Session](), list[Session]()
    for item in items:
        if isinstance(item, Watermark):
            watermark = max(watermark, item.timestamp)
            over += [session for session in growing if session.end - 1 <= watermark]
            growing = [session for session in growing if session.end - 1 > watermark]
        elif isinstance(item, Event):
            start, end = item.time, item.time + gap
            near = [s for s in growing if s.key == item.key and s.start <= end and s.end >= start]
            if not near and end - 1 <= watermark:
                continue
            sides: Sides = ([], [])
            sides[item.side - 1].append(tuple(item))
            for session in near:
                start, end = min(start, session.start), max(end, session.end)
                for side, records in zip(sides, session.sides, strict=True):
                    side.extend(records)
                growing.remove(session)
            growing.append(Session(item.key, start, end, sides))
    return [session.sides for session in over + growing]


WINDOWS: dict[str, tuple[Any, Callable[[list[Any]], list[Sides]]]] = {
    "tumbling": (TumblingEventTimeWindows.of(Time.milliseconds(10)), lambda items: grouped(items, 10, 10)),
    "sliding": (
        SlidingEventTimeWindows.of(Time.milliseconds(12), Time.milliseconds(5)),
        lambda items: grouped(items, 12, 5),
    ),
    "session": (EventTimeSessionWindows.with_gap(Time.milliseconds(6)), lambda items: grouped_by_session(items, 6)),
}


def expected(function: Any, groups: list[Sides]) -> Counter[Any]:
    if isinstance(function, CoGroupFunction):
        return Counter(result for first, second in groups for result in function.co_group(first, second))
    pairs = [(a, b) for first, second in groups for a in first for b in second]
    if isinstance(function, JoinFunction):
        return Counter(function.join(a, b) for a, b in pairs)
    return Counter(result for a, b in pairs for result in function.join(a, b) or ())


def check_window_join(function: Any, windows: str, items: list[Any], backend: str) -> None:
    assigner, groups_of = WINDOWS[windows]

    def make(**settings: Any) -> Harness:
        return Harness.keyed(
            function,
            key=lambda event: event[1],
            timestamp=lambda event: event[2],
            window=assigner,
            side_outputs=[LATE],
            max_parallelism=8,
            **settings,
        )

    found = run(make, items, backend)
    assert found == expected(function, groups_of(items))


FUNCTIONS = [Both(), Pair(), Older()]


@settings(max_examples=EXAMPLES // 2)
@given(
    function=st.sampled_from(FUNCTIONS), windows=st.sampled_from(sorted(WINDOWS)), items=histories(), backend=BACKENDS
)
def test_a_join_by_window_gives_what_the_oracle_gives(
    function: Any, windows: str, items: list[Any], backend: str
) -> None:
    check_window_join(function, windows, items, backend)


@pytest.mark.full
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: type(function).__name__)
@pytest.mark.timeout(1800)
@settings(max_examples=334)
@given(items=histories(), backend=BACKENDS)
def test_every_join_by_window_gives_what_the_oracle_gives(
    function: Any, windows: str, items: list[Any], backend: str
) -> None:
    check_window_join(function, windows, items, backend)
