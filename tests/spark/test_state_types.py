"""All kinds of keyed state and event-time timers on real Spark, held against plain Python (rows B1 to B5)."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.common import Duration, Types, WatermarkStrategy
from penstock.datastream import AggregateFunction, KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tests.spark.jobs import Jobs, collect

EVENTS = "key string, number bigint, at_ms bigint"
RESULTS = "key string, what string, total bigint, items bigint, same_parity bigint, least bigint, mean double"
DELAY_MS = 1_000


def some_events(count: int) -> list[tuple[str, int, int]]:
    chance = random.Random(7)
    return [
        (f"key-{chance.randrange(12)}", chance.randrange(-100, 100), n * 50 + chance.randrange(200))
        for n in range(count)
    ]


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


class EveryState(KeyedProcessFunction):
    """Uses all five states for each record, and registers a timer behind it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        ctx = runtime_context
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.items = ctx.get_list_state(ListStateDescriptor("items", Types.LONG()))
        self.parities = ctx.get_map_state(MapStateDescriptor("parities", Types.STRING(), Types.LONG()))
        self.least = ctx.get_reducing_state(ReducingStateDescriptor("least", min, Types.LONG()))
        mean_type = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.mean = ctx.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), mean_type))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        total = (self.total.value() or 0) + value.number
        self.total.update(total)
        self.items.add(value.number)
        parity = "odd" if value.number % 2 else "even"
        self.parities.put(parity, (self.parities.get(parity) or 0) + 1)
        self.least.add(value.number)
        self.mean.add(value.number)
        ctx.timer_service().register_event_time_timer(value.at_ms + DELAY_MS)
        items = list(self.items.get() or ())
        assert ctx.get_current_key() == value.key and ctx.timestamp() == value.at_ms
        yield value.key, "row", total, sum(items), self.parities.get(parity), self.least.get(), self.mean.get()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        assert timestamp <= ctx.timer_service().current_watermark()
        yield ctx.get_current_key(), "timer", timestamp, 0, 0, 0, 0.0


@dataclass
class Oracle:
    """What the function must give for one key, in plain Python."""

    numbers: list[int] = field(default_factory=list)
    timers: set[int] = field(default_factory=set)

    def take(self, key: str, number: int, at_ms: int) -> tuple[Any, ...]:
        self.numbers.append(number)
        self.timers.add(at_ms + DELAY_MS)
        total = sum(self.numbers)
        same_parity = sum(other % 2 == number % 2 for other in self.numbers)
        return key, "row", total, total, same_parity, min(self.numbers), total / len(self.numbers)


def expected_results(events: list[tuple[str, int, int]]) -> "Counter[Any]":
    oracles: dict[str, Oracle] = {}
    rows: Counter[Any] = Counter(oracles.setdefault(event[0], Oracle()).take(*event) for event in events)
    timers = [(key, "timer", at_ms, 0, 0, 0, 0.0) for key, oracle in oracles.items() for at_ms in oracle.timers]
    return rows + Counter(timers)


@pytest.mark.parametrize(
    ("parallelism", "settings"),
    [
        (2, {}),
        (3, {"execution.checkpointing.interval": "1s"}),
        (2, {"execution.checkpointing.interval": "500ms", "state.backend.type": "rocksdb"}),
    ],
    ids=["2 subtasks", "3 subtasks and checkpoints", "RocksDB"],
)
@pytest.mark.smoke
def test_b1_to_b5_every_state_and_timer_gives_what_plain_python_gives(
    jobs: Jobs, parallelism: int, settings: dict[str, str]
) -> None:
    """Several epochs; timers that no watermark has reached fire at the end of the bounded input."""
    events = some_events(240)
    env = jobs.environment(parallelism, {"penstock.epoch.max-rows": "80", **settings})
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(200)).with_timestamp_assigner(
        lambda event, _: event.at_ms
    )
    stream = env.from_collection(events, EVENTS).assign_timestamps_and_watermarks(strategy)
    found = collect(stream.key_by("key").process(EveryState(), output_type=RESULTS).uid("every-state"))
    assert found == expected_results(events)
    record = jobs.record()
    assert (record.status, record.rows, record.parallelism) == ("FINISHED", 240, parallelism)
    subtasks = [subtask for process in record.processes for subtask in process.subtasks]
    assert sorted(subtasks) == [f"s{stage}/{index}" for stage in range(2) for index in range(parallelism)]
