"""Random streams through every kind of window, with crashes, rescaling and a change of backend in between."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.datastream import AggregateFunction, OutputTag, ProcessWindowFunction, ReduceFunction
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
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
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.testing import CHECKPOINT, CRASH, Advance, Harness, ManualClock, Watermark
from tests.testing.window_oracle import BEFORE, NEVER, Case, Clock, Event, WindowOracle, gap_of

LATE = OutputTag("late")
TIMES = ["tumbling", "sliding", "session", "dynamic session"]
COUNTS = ["count", "sliding count", "global"]


class Contents(ProcessWindowFunction[Any, Any, Any, Any]):
    """A window that fires, and its elements."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        window = context.window()
        if isinstance(window, TimeWindow):
            yield key, window.start, window.end, tuple(sorted(elements))
        else:
            yield key, window.id if isinstance(window, CountWindow) else 0, NEVER, tuple(sorted(elements))


class Together(AggregateFunction):
    """All elements, as one accumulator."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        return [*accumulator, value]

    def get_result(self, accumulator: Any) -> Any:
        return tuple(sorted(accumulator))

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Sum(ReduceFunction):
    """The numbers added up."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1[0], 0, value1[2] + value2[2]


class Only(ProcessWindowFunction[Any, Any, Any, Any]):
    """A window that fires, and the one element that its contents were reduced to."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        (found,) = elements
        for name, start, end, _ in Contents().process(key, context, ()):
            yield name, start, end, found[2] if isinstance(found[0], str) else found


FUNCTIONS: dict[str, dict[str, Any]] = {
    "elements": {"function": Contents()},
    "aggregate": {"function": Together(), "window_function": Only()},
    "reduce": {"function": Sum(), "window_function": Only()},
}


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return gap_of(Event(*element))


def assigner_of(case: Case) -> WindowAssigner[Any, Any]:
    size, slide, offset, event = case.size, case.slide, case.offset, case.is_event_time
    made: WindowAssigner[Any, Any]
    if case.kind == "tumbling":
        made = (TumblingEventTimeWindows if event else TumblingProcessingTimeWindows)(size, offset)
    elif case.kind == "sliding":
        made = (SlidingEventTimeWindows if event else SlidingProcessingTimeWindows)(size, slide, offset)
    elif case.kind == "session":
        made = (EventTimeSessionWindows if event else ProcessingTimeSessionWindows)(size)
    elif case.kind == "dynamic session":
        made = (EventTimeSessionWindows if event else ProcessingTimeSessionWindows).with_dynamic_gap(Gap())
    elif case.kind == "global":
        made = GlobalWindows()
    elif case.kind == "count":
        made = CountTumblingWindowAssigner(size)
    else:
        made = CountSlidingWindowAssigner(size, slide)
    return made


def trigger_of(case: Case) -> Trigger[Any, Any] | None:
    found: Any = None
    if case.trigger == "continuous":
        found = (ContinuousEventTimeTrigger if case.is_event_time else ContinuousProcessingTimeTrigger)(case.every)
    elif case.trigger == "count":
        found = CountTrigger(case.every)
    elif case.purges:
        timed: Any = EventTimeTrigger() if case.is_event_time else ProcessingTimeTrigger()
        found = timed if case.kind in TIMES else CountTrigger(case.size)
    return PurgingTrigger.of(found) if case.purges else found


def cases() -> Iterator[Case]:
    for kind in TIMES:
        for is_event_time in (True, False):
            for trigger in ("default", "continuous", "count"):
                for lateness in (0, 4) if is_event_time else (0,):
                    for purges in (False, True):
                        slide, offset = (3, 1) if kind == "sliding" else (0, -2 if kind == "tumbling" else 0)
                        every = {"default": 0, "continuous": 3, "count": 2}[trigger]
                        yield Case(kind, is_event_time, 7, slide, offset, trigger, every, purges, lateness)
    for kind in COUNTS:
        for purges in (False, True):
            every = 2 if kind == "global" else 0
            yield Case(
                kind, False, 3, 2 if kind == "sliding count" else 0, 0, "count" if every else "default", every, purges
            )


BACKENDS = st.sampled_from(["hashmap", "rocksdb"])
CONTENTS = sorted(FUNCTIONS)
EVENTS = st.builds(Event, st.sampled_from("abc"), st.integers(-5, 40), st.integers(0, 9))


@st.composite
def streams(draw: st.DrawFn, *, is_event_time: bool) -> list[Any]:
    """Events, watermarks, time, idle epochs, checkpoints, crashes, and changes of parallelism or backend."""
    items: list[Any] = []
    base = 0
    for _ in range(draw(st.integers(1, 8))):
        base += draw(st.sampled_from([0, 0, 3, 10, 30]))  # gaps
        events = draw(st.lists(EVENTS, max_size=6))
        items += [event._replace(time=event.time + base) for event in events]
        step = draw(st.sampled_from(["watermark", "advance", "idle", "checkpoint", "crash", "rescale", "savepoint"]))
        if step == "watermark":
            items.append(Watermark(base + draw(st.integers(0, 25))))
        elif step == "idle":
            items.append(step)
        elif step == "advance":
            items.append(Advance(draw(st.integers(1, 12))))
        elif step == "checkpoint" or is_event_time:
            items += (
                [CHECKPOINT, step] if step in ("rescale", "savepoint") else [CRASH if step == "crash" else CHECKPOINT]
            )
        else:  # in processing time a replay sees another time, so nothing is left to replay
            items += [CHECKPOINT, CRASH if step == "crash" else step]
        if not is_event_time:
            items.append(Advance(1))  # two epochs never have the same millisecond
    return items


def run(
    case: Case, items: list[Any], backend: str, parallelism: int, contents: str
) -> tuple[Counter[Any], Counter[Any]]:
    """What the harness emits: results and late records."""
    settings: dict[str, Any] = {
        **FUNCTIONS[contents],
        "key": lambda event: event[0],
        "timestamp": (lambda event: event[1]) if case.is_event_time else None,
        "window": assigner_of(case),
        "trigger": trigger_of(case),
        "allowed_lateness": case.lateness,
        "late_data": LATE if case.is_event_time else None,
        "max_parallelism": 8,
    }
    harness = Harness.keyed(parallelism=parallelism, backend=backend, **settings)
    results: Counter[Any] = Counter()
    late: Counter[Any] = Counter()

    def collect() -> None:
        results.update(harness.output)
        late.update(harness.side_output(LATE) if case.is_event_time else [])

    waiting: list[Any] = []
    for item in items:
        if item not in ("idle", "rescale", "savepoint"):
            waiting.append(tuple(item) if isinstance(item, Event) else item)
            continue
        harness.feed(waiting)
        waiting = []
        if item == "idle":
            harness.run_empty_epochs(2)
        elif item == "rescale":
            parallelism = parallelism % 3 + 1
            harness.rescale(parallelism)
        else:
            backend = {"hashmap": "rocksdb", "rocksdb": "hashmap"}[backend]
            parallelism = parallelism % 3 + 1
            with tempfile.TemporaryDirectory() as folder:
                path = harness.savepoint(folder, then="stop")
                collect()
                clock = harness.clock
                harness = Harness.keyed(
                    parallelism=parallelism,
                    backend=backend,
                    clock=clock,
                    start=StartOptions(path),
                    **settings,
                )
                harness.feed([CHECKPOINT])
    harness.feed(waiting).finish()
    collect()
    return results, late


def expected(case: Case, items: list[Any], now: int) -> WindowOracle:
    """The same by the oracle."""
    events: list[Any] = []
    for item in items:
        if isinstance(item, Event):
            events.append(item)
        elif isinstance(item, Watermark):
            events.append(Clock(item.timestamp, is_event_time=True))
        elif isinstance(item, Advance):
            now += item.milliseconds
            events.append(Clock(now, is_event_time=False))
        elif item != CRASH:  # an epoch ends, and overdue timers fire
            events.append(Clock(BEFORE, is_event_time=True))
    oracle = WindowOracle(case)
    oracle.now = now - sum(item.milliseconds for item in items if isinstance(item, Advance))
    return oracle.run(events).end()


def check(case: Case, items: list[Any], backend: str, parallelism: int, contents: str) -> None:
    oracle = expected(case, items, ManualClock().now_ms())
    results, late = run(case, items, backend, parallelism, contents)
    if contents == "reduce":
        sums = [(*window, sum(event.number for event in events)) for *window, events in oracle.results]
        assert results == Counter(sums)
    else:
        assert results == Counter(oracle.results)
    assert late == Counter(oracle.late)


CASES = list(cases())


@pytest.mark.parametrize("is_event_time", [True, False], ids=["event-time", "processing-time"])
@given(st.data())
def test_a_random_stream_gives_what_the_oracle_gives(is_event_time: bool, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([case for case in CASES if case.is_event_time == is_event_time]))
    items = data.draw(streams(is_event_time=is_event_time))
    check(case, items, data.draw(BACKENDS), data.draw(st.integers(1, 3)), data.draw(st.sampled_from(CONTENTS)))


@pytest.mark.full
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_kind_of_window_gives_what_the_oracle_gives(case: Case) -> None:
    @settings(max_examples=2000 // len(CASES) + 1)
    @given(st.data())
    def many(data: st.DataObject) -> None:
        items = data.draw(streams(is_event_time=case.is_event_time))
        check(case, items, data.draw(BACKENDS), data.draw(st.integers(1, 3)), data.draw(st.sampled_from(CONTENTS)))

    many()
