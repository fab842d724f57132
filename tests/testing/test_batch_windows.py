"""Windows in batch mode: they fire at the end of their key, with all of its records (features W3, W4)."""

import random
from typing import Any

import pytest

from penstock.common import Time, WatermarkStrategy
from penstock.datastream import (
    AggregateFunction,
    OutputTag,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.model.time import MAX_WATERMARK
from penstock.testing import CRASH, Harness

BATCH = RuntimeExecutionMode.BATCH
LATE = OutputTag("late")
Event = tuple[str, int, int]


def ms(number: int) -> Time:
    return Time.milliseconds(number)


class Sum(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Event, accumulator: Any) -> Any:
        return accumulator[0] + 1, accumulator[1] + value[2]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Larger(ReduceFunction):
    def reduce(self, value1: Event, value2: Event) -> Event:
        return max(value1, value2, key=lambda value: value[2])


class Contents(ProcessWindowFunction):
    def process(self, key: str, context: ProcessWindowFunction.Context, elements: Any) -> Any:
        yield key, str(context.window()), sorted(element[2] for element in elements)


def key_of(event: Event) -> str:
    return event[0]


def time_of(event: Event) -> int:
    return event[1]


def events(seed: int, count: int = 200) -> list[Event]:
    chance = random.Random(seed)
    return [(chance.choice("abcdefgh"), chance.randrange(200), number) for number in range(count)]


ASSIGNERS = {
    "tumbling": TumblingEventTimeWindows.of(ms(10)),
    "sliding": SlidingEventTimeWindows.of(ms(20), ms(10)),
    "session": EventTimeSessionWindows.with_gap(ms(4)),
}


@pytest.mark.parametrize("function", [Sum(), Larger(), Contents()], ids=["sum", "larger", "contents"])
@pytest.mark.parametrize("name", ASSIGNERS)
def test_w3_w4_windows_give_what_streaming_gives_without_late_records(name: str, function: Any) -> None:
    settings: dict[str, Any] = {"timestamp": time_of, "window": ASSIGNERS[name], "parallelism": 2}
    batch = Harness.keyed(function, key_of, **settings, runtime_mode=BATCH).feed(events(1)).finish()
    streaming = Harness.keyed(function, key_of, **settings).feed(events(1)).finish()
    assert batch.output and sorted(batch.output) == sorted(streaming.output)


def test_w4_no_record_is_late_in_batch_mode() -> None:
    settings = {"window": ASSIGNERS["tumbling"], "late_data": LATE, "side_outputs": (LATE,), "runtime_mode": BATCH}
    harness = Harness.keyed(Sum(), key=key_of, timestamp=time_of, **settings)
    harness.feed([("a", 95, 1), ("a", 1, 2), ("b", 3, 3)]).finish()
    assert harness.output == [(1, 2), (1, 1), (1, 3)] and harness.side_output(LATE) == []


def test_w4_windows_of_a_key_fire_before_the_next_key() -> None:
    harness = Harness.keyed(
        Contents(), key=key_of, timestamp=time_of, window=ASSIGNERS["tumbling"], runtime_mode=BATCH
    ).feed([("b", 25, 1), ("a", 5, 2), ("b", 5, 3), ("a", 15, 4)])
    assert [line[0::2] for line in harness.finish().output] == [("a", [2]), ("a", [4]), ("b", [3]), ("b", [1])]


def test_w4_processing_time_windows_fire_at_the_end_of_their_key() -> None:
    window = TumblingProcessingTimeWindows.of(ms(10))
    harness = Harness.keyed(Sum(), key=key_of, window=window, runtime_mode=BATCH)
    assert harness.feed([("b", 0, 1), ("a", 0, 2), ("b", 0, 3)]).finish().output == [(1, 2), (2, 4)]


def test_w4_a_trigger_that_goes_on_for_ever_ends_with_its_key() -> None:
    trigger = ContinuousEventTimeTrigger.of(ms(3))
    settings = {"window": TumblingEventTimeWindows.of(ms(100)), "trigger": trigger, "runtime_mode": BATCH}
    harness = Harness.keyed(Sum(), key=key_of, timestamp=time_of, **settings)
    assert set(harness.feed([("a", 1, 1), ("a", 50, 2)]).finish().output) == {(2, 3)}


def test_w3_count_windows_of_a_key_are_complete_or_dropped() -> None:
    settings = {"window": CountTumblingWindowAssigner.of(2), "trigger": PurgingTrigger.of(CountTrigger.of(2))}
    harness = Harness.keyed(Sum(), key=key_of, runtime_mode=BATCH, **settings)
    harness.feed([("a", 0, 1), ("b", 0, 2), ("a", 0, 3), ("a", 0, 4), CRASH, ("b", 0, 5)])
    assert sorted(harness.finish().output) == [(2, 4), (2, 7)]


def final_values(window: Any, function: Any) -> list[Any]:
    """What windows behind a reduce in batch mode give, whose results have the last timestamp."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(BATCH)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda event, before: event[1])
    timed = env.from_collection([("a", 1, 1)]).assign_timestamps_and_watermarks(strategy)
    largest = timed.key_by(key_of).reduce(Larger())
    windowed = largest.key_by(lambda event: "all").window(window)
    results = windowed.process(function) if isinstance(function, Contents) else windowed.aggregate(function)
    results.to_spark(lambda df, epoch: None)
    harness = Harness(build_job_graph(env._graph, GraphSettings(1, mode=BATCH)))
    return harness.feed([("a", 1, 1), ("b", 20, 2), ("a", 5, 3)]).finish().output


@pytest.mark.parametrize("name", ["tumbling", "session"])
def test_w3_w4_final_values_of_a_reduce_are_in_the_last_window(name: str) -> None:
    assert final_values(ASSIGNERS[name], Sum()) == [(2, 5)]
    ((key, window, numbers),) = final_values(ASSIGNERS[name], Contents())
    assert key == "all" and numbers == [2, 3] and window.endswith(f"end={MAX_WATERMARK})")


def test_w4_windows_at_the_end_of_time_fire_in_either_mode() -> None:
    settings: dict[str, Any] = {"timestamp": lambda event: MAX_WATERMARK, "allowed_lateness": 5}
    trigger = ContinuousEventTimeTrigger.of(ms(3))
    for mode in (BATCH, RuntimeExecutionMode.STREAMING):
        for window in ASSIGNERS.values():
            for more in ({}, {"trigger": trigger}):
                harness = Harness.keyed(Sum(), key_of, **settings, window=window, runtime_mode=mode, **more)
                output = harness.feed([("a", 0, 1), ("a", 0, 2), ("b", 0, 4)]).finish().output
                assert set(output) == {(2, 3), (1, 4)}
