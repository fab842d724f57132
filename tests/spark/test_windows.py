"""Windows of every kind on Spark at parallelism 3, with a `kill -9` of a TaskManager while windows are half full."""

from collections import Counter
from datetime import datetime, timezone
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import OutputTag, ProcessAllWindowFunction, ProcessWindowFunction
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    Trigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from tests.spark.jobs import Jobs, collect, read_json
from tests.spark.recoveries import RESTARTS, await_attempt, await_checkpoints, cancel, kill_taskmanager
from tests.testing.window_oracle import NEVER, Case, Event, WindowOracle, gap_of
from tests.waiting import wait_until

START = 1_700_000_000_000
EVENTS = [Event(f"k{n % 4}", START + 7 * (n * 37 % 100), n) for n in range(100)]
END = Event("end", START + 10_000_000, 0)


class Contents(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        window = context.window()
        start, end = 0, NEVER
        if isinstance(window, TimeWindow):
            start, end = window.start, window.end
        elif isinstance(window, CountWindow):
            start = window.id
        yield key, start, end, " ".join(str(number) for number in sorted(row.number for row in elements))


class AllContents(ProcessAllWindowFunction[Any, Any, Any]):
    """What `Contents` says of the windows of a stream without a key."""

    def process(self, context: Any, elements: Any) -> Any:
        rows = list(elements)
        key = "end" if any(row.key == "end" for row in rows) else "all"
        yield from Contents().process(key, context, rows)


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return gap_of(Event(element.key, 0, element.number))


class LongGap(Gap):
    """Long enough to be open when the TaskManager is killed."""

    def extract(self, element: Any) -> int:
        return 200 * super().extract(element)


def case(
    kind: str, size: int, slide: int = 0, *, is_event_time: bool = True, trigger: str = "default", every: int = 0
) -> Case:
    return Case(kind, is_event_time, size, slide, trigger=trigger, every=every, purges=every > 0)


KINDS: dict[str, tuple[WindowAssigner[Any, Any], Trigger[Any, Any] | None, Case]] = {
    "tumbling": (TumblingEventTimeWindows(50, 0), None, case("tumbling", 50)),
    "session": (EventTimeSessionWindows(25), None, case("session", 25)),
    "sliding": (SlidingEventTimeWindows(60, 20, 0), None, case("sliding", 60, 20)),
    "dynamic session": (EventTimeSessionWindows.with_dynamic_gap(Gap()), None, case("dynamic session", 0)),
    "count": (CountTumblingWindowAssigner(6), None, case("count", 6, is_event_time=False)),
    "sliding count": (CountSlidingWindowAssigner(6, 4), None, case("sliding count", 6, 4, is_event_time=False)),
    "global": (
        GlobalWindows(),
        PurgingTrigger(CountTrigger(7)),
        case("global", 0, is_event_time=False, trigger="count", every=7),
    ),
    "all records": (TumblingEventTimeWindows(50, 0), None, case("tumbling", 50)),
    "count of all records": (CountTumblingWindowAssigner(30), None, case("count", 30, is_event_time=False)),
    # Purged, because which firing is the first depends on which record of the window comes first.
    "continuous": (
        TumblingEventTimeWindows(50, 0),
        PurgingTrigger(ContinuousEventTimeTrigger(20)),
        case("tumbling", 50, trigger="continuous", every=20),
    ),
    "tumbling in processing time": (
        TumblingProcessingTimeWindows(300, 0),
        None,
        case("tumbling", 1, is_event_time=False),
    ),
    "sliding in processing time": (
        SlidingProcessingTimeWindows(900, 300, 0),
        None,
        case("sliding", 900, 300, is_event_time=False),
    ),
    "session in processing time": (ProcessingTimeSessionWindows(700), None, case("session", 1, is_event_time=False)),
    "dynamic session in processing time": (
        ProcessingTimeSessionWindows.with_dynamic_gap(LongGap()),
        None,
        case("dynamic session", 0, is_event_time=False),
    ),
    "continuous in processing time": (
        TumblingProcessingTimeWindows(2_000, 0),
        PurgingTrigger(ContinuousProcessingTimeTrigger(300)),
        case("tumbling", 1, is_event_time=False),
    ),
}
EVERY_DAY = {"tumbling", "session"}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in EVERY_DAY else pytest.mark.full) for kind in KINDS]
)
def test_a5_half_filled_windows_survive_a_kill(jobs: Jobs, kind: str) -> None:
    assigner, trigger, expected = KINDS[kind]
    env = jobs.environment(3, RESTARTS)
    frame = jobs.json_stream("key string, at timestamp, number bigint")
    events = env.from_dataframe(frame, event_time="at", max_out_of_orderness="1 hour").uid("events")
    is_keyed = "all records" not in kind
    windows: Any = events.key_by("key").window(assigner) if is_keyed else events.window_all(assigner)
    if trigger is not None:
        windows = windows.trigger(trigger)
    function = Contents() if is_keyed else AllContents()
    results = windows.process(function, "key string, start bigint, stop bigint, numbers string").uid("windows")
    out = jobs.folder / "out"
    results.sink_to(FileSink.for_row_format(str(out), "json").build()).uid("out")
    write(jobs, "1", EVENTS[:25])
    job = env.execute_async("windows")
    await_checkpoints(jobs, 1)
    write(jobs, "2", EVENTS[25:50])
    await_checkpoints(jobs, 2)
    kill_taskmanager(jobs)
    await_attempt(jobs, 2)
    write(jobs, "3", [*EVENTS[50:], *([END] if expected.is_event_time else [])])

    def found() -> "Counter[Any]":
        return Counter((r["key"], r["start"], r["stop"], r["numbers"]) for r in read_json(out) if r["key"] != "end")

    arrived = EVENTS if is_keyed else [event._replace(key="all") for event in EVENTS]
    if "processing" in kind:  # which windows there are depends on the clock, but not in how many each event is
        times = expected.size // expected.slide if expected.slide else 1
        wait_until(lambda: sum(len(numbers.split()) for *_, numbers in found().elements()) >= times * len(EVENTS))
        numbers = [int(number) for *_, numbers in found().elements() for number in numbers.split()]
        assert sorted(numbers) == sorted([*range(len(EVENTS))] * times)
    elif expected.is_event_time:
        wanted = WindowOracle(expected).run(arrived).end()
        wait_until(lambda: found().total() >= len(wanted.results))
        assert found() == Counter(
            (key, start, end, " ".join(str(event.number) for event in sorted(contents, key=lambda event: event.number)))
            for key, start, end, contents in wanted.results
        )
    else:  # the order of records is that of Spark's partitions, so only the sizes of windows are known
        counted = WindowOracle(expected).run(arrived).end()
        sizes = Counter((key, start, len(contents)) for key, start, _, contents in counted.results)
        wait_until(lambda: found().total() >= sizes.total())
        assert Counter((key, start, len(numbers.split())) for key, start, _, numbers in found().elements()) == sizes
    cancel(job)


def write(jobs: Jobs, name: str, events: list[Event]) -> None:
    rows = [
        {"key": e.key, "at": datetime.fromtimestamp(e.time / 1000, timezone.utc).isoformat(), "number": e.number}
        for e in events
    ]
    jobs.write_json(name, rows)


LATE = OutputTag("late", "name string, at bigint")


class Sizes(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, context.window().start, len(list(elements))


def test_windows_of_a_bounded_stream_end_with_it(jobs: Jobs) -> None:
    from penstock.common import WatermarkStrategy
    from penstock.common.watermark_strategy import TimestampAssigner

    class At(TimestampAssigner):
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            return int(value[1])

    env = jobs.environment(3)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    records = env.from_collection([(f"k{n % 3}", n) for n in range(30)], "name string, at bigint")
    timed = records.assign_timestamps_and_watermarks(strategy)
    windows = timed.key_by(lambda row: row.name, Types.STRING()).window(TumblingEventTimeWindows(10, 0))
    sizes = windows.side_output_late_data(LATE).process(Sizes(), "name string, start bigint, size bigint")
    found = collect(sizes.map(tuple))
    counts = Counter((f"k{n % 3}", n // 10 * 10) for n in range(30))
    assert found == Counter((key, start, size) for (key, start), size in counts.items())
