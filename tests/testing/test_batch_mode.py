"""Batch mode on the harness: one key after the other, timers at its end, one final result (features W1 to W5)."""

import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from penstock.common import Types
from penstock.datastream import (
    AsyncFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ReduceFunction,
    RuntimeExecutionMode,
)
from penstock.datastream.functions import AsyncFunctionDescriptor
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.errors import UserFunctionError
from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK, TimeDomain
from penstock.testing import CHECKPOINT, CRASH, Broadcast, Harness, MemorySink, Second

BATCH = RuntimeExecutionMode.BATCH
Event = tuple[str, int]


def key_of(event: Event) -> str:
    return event[0]


def time_of(event: Event) -> int:
    return event[1]


class Add(ReduceFunction):
    def reduce(self, value1: Event, value2: Event) -> Event:
        return value1[0], value1[1] + value2[1]


class Trace(KeyedProcessFunction):
    """Says what it sees: records and timers, with the watermark of the moment."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Event, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        service = ctx.timer_service()
        service.register_event_time_timer(value[1] + 1000)
        service.register_processing_time_timer(service.current_processing_time() + 60_000 - value[1])
        yield "record", value[0], value[1], count, service.current_watermark()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        service = ctx.timer_service()
        service.register_event_time_timer(timestamp + 1)
        service.register_processing_time_timer(timestamp + 1)
        name = "event" if ctx.time_domain() is TimeDomain.EVENT_TIME else "processing"
        yield name, ctx.get_current_key(), self.count.value(), service.current_watermark()


def events(seed: int, count: int = 60) -> list[Event]:
    chance = random.Random(seed)
    return [(f"key-{chance.randrange(12)}", chance.randrange(100)) for _ in range(count)]


def test_w3_a_reduce_emits_one_final_value_per_key() -> None:
    harness = Harness.keyed(Add(), key=key_of, runtime_mode=BATCH)
    harness.feed([("b", 1), ("a", 2), ("b", 3), ("c", 4), ("a", 5), ("b", 6)])
    assert harness.output == []
    assert sorted(harness.finish().output) == [("a", 7), ("b", 10), ("c", 4)]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_w3_final_values_are_the_last_ones_of_streaming(seed: int, parallelism: int) -> None:
    batch = Harness.keyed(Add(), key=key_of, runtime_mode=BATCH, parallelism=parallelism).feed(events(seed)).finish()
    streaming = Harness.keyed(Add(), key=key_of, parallelism=parallelism, seed=seed).feed(events(seed)).finish()
    assert len(batch.output) == len(dict(batch.output))
    assert dict(batch.output) == dict(streaming.output)


def test_w4_timers_fire_after_the_last_record_of_their_key() -> None:
    harness = Harness.keyed(Trace(), key=key_of, runtime_mode=BATCH)
    output = harness.feed([("b", 1), ("a", 2), ("b", 3)]).finish().output
    assert output == [
        ("record", "a", 2, 1, MIN_WATERMARK),
        ("event", "a", 1, MAX_WATERMARK),
        ("processing", "a", 1, MAX_WATERMARK),
        ("record", "b", 1, 1, MIN_WATERMARK),
        ("record", "b", 3, 2, MIN_WATERMARK),
        ("event", "b", 2, MAX_WATERMARK),
        ("event", "b", 2, MAX_WATERMARK),
        ("processing", "b", 2, MAX_WATERMARK),
        ("processing", "b", 2, MAX_WATERMARK),
    ]


def test_w4_timers_that_a_timer_registers_are_ignored() -> None:
    output = Harness.keyed(Trace(), key=key_of, runtime_mode=BATCH).feed([("a", 1)]).finish().output
    assert [line[0] for line in output] == ["record", "event", "processing"]


class Collect(KeyedProcessFunction):
    """Emits what it gets, without timers."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Event, ctx: Any) -> Iterator[Any]:
        count = (self.seen.value() or 0) + 1
        self.seen.update(count)
        yield value[0], value[1], count


def test_w5_records_of_a_key_come_together_in_the_order_of_event_time() -> None:
    harness = Harness.keyed(Collect(), key=key_of, runtime_mode=BATCH, timestamp=time_of)
    output = harness.feed([("b", 9), ("a", 5), ("b", 2), ("a", 1), ("b", 4)]).finish().output
    assert output == [("a", 1, 1), ("a", 5, 2), ("b", 2, 1), ("b", 4, 2), ("b", 9, 3)]


@pytest.mark.parametrize("function", [Collect(), Trace()])
def test_w3_state_is_dropped_after_the_last_record_of_a_key(function: Any) -> None:
    harness = Harness.keyed(function, key=key_of, runtime_mode=BATCH).feed(events(1))
    harness.finish()
    name = "seen" if isinstance(function, Collect) else "count"
    assert all(harness.state(name, f"key-{number}") is None for number in range(11))
    (backend,) = [b for subtask in harness._host.subtasks() for b in subtask.backends.values()]
    assert len(backend.keys_with(name)) <= 1


def test_w3_the_configured_backend_is_not_used_in_a_plan_of_batch_mode() -> None:
    harness = Harness.keyed(Collect(), key=key_of, runtime_mode=BATCH, backend="rocksdb").feed([("a", 1)]).finish()
    (backend,) = [b for subtask in harness._host.subtasks() for b in subtask.backends.values()]
    assert type(backend).__name__ == "HashMapBackend"


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class ApplyRules(KeyedBroadcastProcessFunction):
    def process_element(self, value: Event, ctx: Any) -> Iterator[Any]:
        yield value[0], value[1], ctx.get_broadcast_state(RULES).get(value[0])

    def process_broadcast_element(self, value: Event, ctx: Any) -> Iterable[Any]:
        ctx.get_broadcast_state(RULES).put(*value)
        return ()


def test_w5_broadcast_records_come_before_all_others() -> None:
    harness = Harness.keyed(ApplyRules(), key=key_of, runtime_mode=BATCH, broadcast=(RULES,), parallelism=2)
    harness.feed([("a", 1), Broadcast(("a", 10)), ("b", 2), Broadcast(("b", 20)), Broadcast(("a", 11))])
    assert sorted(harness.finish().output) == [("a", 1, 11), ("b", 2, 20)]


class Both(KeyedCoProcessFunction):
    """Says what it sees of two streams, and what it knows of the key."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.STRING()))

    def process_element1(self, value: Event, ctx: Any) -> Iterable[Any]:
        return self.note("first", value, ctx)

    def process_element2(self, value: Event, ctx: Any) -> Iterable[Any]:
        return self.note("second", value, ctx)

    def note(self, name: str, value: Event, ctx: Any) -> Iterable[Any]:
        self.seen.update(f"{self.seen.value() or ''}{name} {value[1]}, ")
        ctx.timer_service().register_event_time_timer(50)
        return ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), self.seen.value()


def test_w5_records_of_a_key_from_two_inputs_come_together_in_the_order_of_event_time() -> None:
    harness = Harness.keyed(Both(), key=key_of, runtime_mode=BATCH, timestamp=time_of)
    harness.feed([("a", 1), ("b", 2), Second(("b", 1)), ("a", 5), Second(("a", 3)), Second(("c", 9))])
    assert harness.finish().output == [
        ("a", "first 1, second 3, first 5, "),
        ("b", "second 1, first 2, "),
        ("c", "second 9, "),
    ]


LARGE = OutputTag("large", Types.LONG())


class Split(KeyedProcessFunction):
    def process_element(self, value: Event, ctx: Any) -> Iterator[Any]:
        yield value
        if value[1] > 50:
            yield LARGE, value[1]


def test_w3_side_outputs_work_in_batch_mode() -> None:
    harness = Harness.keyed(Split(), key=key_of, runtime_mode=BATCH, side_outputs=(LARGE,)).feed(events(4)).finish()
    assert sorted(harness.output) == sorted(events(4))
    assert sorted(harness.side_output(LARGE)) == sorted(amount for _, amount in events(4) if amount > 50)


def test_w2_a_crash_reads_the_whole_input_again_and_output_is_exact() -> None:
    sink = MemorySink()
    harness = Harness.keyed(Add(), key=key_of, runtime_mode=BATCH, sink=sink)
    harness.feed([("a", 1), ("b", 2), CHECKPOINT, ("a", 3), CRASH, ("b", 4), CRASH]).finish()
    assert harness.crashes == 2
    assert sorted(harness.output) == sorted(sink.rows) == [("a", 4), ("b", 6)]


class FailOnce(MapFunction):
    """Fails at a record in the middle of the first attempt."""

    failed = False

    def map(self, value: Event) -> Event:
        if value == ("f", 5) and not FailOnce.failed:
            FailOnce.failed = True
            raise RuntimeError("on the way")
        return value


def test_w2_after_an_error_of_a_function_the_next_attempt_starts_from_nothing() -> None:
    FailOnce.failed = False
    sink = MemorySink()
    harness = Harness.keyed(FailOnce(), key=key_of, runtime_mode=BATCH, sink=sink)
    given = [("abcdefgh"[n % 8], n) for n in range(40)]
    harness.feed(given)
    with pytest.raises(UserFunctionError, match="on the way"):
        harness.finish()
    assert sorted(harness.finish().output) == sorted(sink.rows) == sorted(given)


def test_w2_no_checkpoint_is_taken() -> None:
    harness = Harness.keyed(Collect(), key=key_of, runtime_mode=BATCH).feed([("a", 1), CHECKPOINT, ("a", 2)]).finish()
    assert harness.manifest is None and harness.output == [("a", 1, 1), ("a", 2, 2)]


def test_w3_a_lost_task_is_run_again_from_empty_state() -> None:
    lost = {0: 7}
    harness = Harness.keyed(Collect(), key=key_of, runtime_mode=BATCH, lost_after=lost.get).feed(events(3)).finish()
    assert harness.lost_tasks == 1
    expected = Harness.keyed(Collect(), key=key_of, runtime_mode=BATCH).feed(events(3)).finish()
    assert harness.output == expected.output


class Doubled(AsyncFunction):
    async def async_invoke(self, value: Event) -> list[Event]:
        return [(value[0], 2 * value[1])]


def test_w2_requests_in_flight_are_answered_before_the_job_ends() -> None:
    harness = Harness.non_keyed(AsyncFunctionDescriptor(Doubled(), 60_000), runtime_mode=BATCH, parallelism=2)
    harness.feed([*events(5), CRASH]).finish()
    assert sorted(harness.output) == sorted((key, 2 * amount) for key, amount in events(5))
