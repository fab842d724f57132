"""The job of the simulator: little state, and at every position of the input its state and its output are known.

Each event's amount is a bit of its own, so that a sum says which events are in it and how often. Event time is a
function of the position, so the timers that have fired are too. Plain Python over the input is the oracle.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.graph.job_graph import JobGraph
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.graph.stream_graph import SourceSpec, StreamGraph
from penstock.model.descriptors import MapStateDescriptor, ValueStateDescriptor
from penstock.model.functions import RuntimeContext
from penstock.model.types import TAGGED
from penstock.runtime.process.subtask_host import SubtaskHost
from penstock.testing import MemorySink
from penstock.testing.graphs import FUNCTION_UID, FunctionProgram, function_graph
from penstock.testing.state_reader import owns, read_state
from tests.sim.job import BUCKETS, BUCKETS_SINK, ROWS_SINK, CountBuckets, add_keyed, add_sink, bucket_of

KEYS = ("a", "b", "c", "d")
MAX_PARALLELISM = 6


Record: TypeAlias = tuple[int, str, int]
"""One event: its place in the input, its key, and the time of an event-time timer, unique."""


class SumUp(KeyedProcessFunction):
    """The bits of a key's events, and its timers that have fired."""

    def open(self, ctx: RuntimeContext) -> None:
        self.bits = ctx.get_state(ValueStateDescriptor("bits", Types.LONG()))
        self.fired = ctx.get_map_state(MapStateDescriptor("fired", Types.LONG(), Types.LONG()))

    def process_element(self, record: Record, ctx: Any) -> Iterable[Any]:
        number, key, at = record
        bits = (self.bits.value() or 0) + (1 << number)
        self.bits.update(bits)
        ctx.timer_service().register_event_time_timer(at)
        yield "row", number, key, bits

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        self.fired.put(timestamp, (self.fired.get(timestamp) or 0) + 1)
        yield "timer", timestamp, ctx.get_current_key()


@dataclass(frozen=True)
class Truth:
    """What must be there once so many events are in the state and their output is committed."""

    states: dict[str, tuple[int | None, dict[int, int]]]
    """Key -> bits, and fired timers."""
    buckets: dict[int, int]
    rows: Counter[Any]
    bucket_rows: Counter[Any]


@dataclass(frozen=True)
class LightJob:
    """The input, the shape and the sinks of one job; they outlive every process."""

    records: list[Record]
    watermarks: list[int]
    """Event time once so many events have been read; it never goes back."""
    has_buckets: bool
    """Three stages instead of one."""
    rows: MemorySink = field(default_factory=MemorySink)
    buckets: MemorySink = field(default_factory=MemorySink)

    @property
    def sinks(self) -> list[MemorySink]:
        return [self.rows, self.buckets]

    def graph(self, parallelism: int) -> JobGraph:
        """The job at this parallelism."""
        if not self.has_buckets:
            program = FunctionProgram(SumUp(), key_of, parallelism, MAX_PARALLELISM, sink=self.rows)
            return function_graph(program)
        graph = StreamGraph()
        source = graph.add("source", "records", (), SourceSpec("collection", None, TAGGED, None, True), TAGGED)
        sums = add_keyed(graph, source, key_of, SumUp(), FUNCTION_UID)
        add_sink(graph, sums, self.rows, ROWS_SINK)
        buckets = add_keyed(graph, sums, bucket_of, CountBuckets(), BUCKETS)
        add_sink(graph, buckets, self.buckets, BUCKETS_SINK)
        return build_job_graph(graph, GraphSettings(parallelism, MAX_PARALLELISM))

    def truth(self, position: int, *, ended: bool) -> Truth:
        """The oracle; `ended`: event time has come to its end."""
        states: dict[str, tuple[int | None, dict[int, int]]] = {}
        rows: Counter[Any] = Counter()
        for number, key, at in self.records[:position]:
            bits, fired = states.get(key, (None, {}))
            bits = (bits or 0) + (1 << number)
            rows["row", number, key, bits] += 1
            if ended or at <= self.watermarks[position]:
                fired = {**fired, at: 1}
                rows["timer", at, key] += 1
            states[key] = (bits, fired)
        buckets = Counter(bucket_of(row) for row in rows) if self.has_buckets else Counter[int]()
        bucket_rows = Counter(("bucket", key, n) for key, count in buckets.items() for n in range(1, count + 1))
        return Truth(states, dict(buckets), rows, bucket_rows)

    def wrong_state(self, host: SubtaskHost, truth: Truth) -> Iterator[str]:
        """What the subtasks hold that they should not, or do not hold that they should."""
        for subtask in host.subtasks():
            for uid, backend in subtask.backends.items():
                if uid == BUCKETS:
                    keys, names = list(range(4)), ("count",)
                    wanted: dict[Any, tuple[Any, ...]] = {key: (truth.buckets.get(key),) for key in keys}
                else:
                    names = ("bits", "fired")  # type: ignore[assignment]
                    wanted = {key: truth.states.get(key, (None, {})) for key in KEYS}
                for key, value in wanted.items():
                    if owns(backend, key):
                        found = tuple(read_state(backend, name, key) for name in names)
                        if found != value:
                            yield f"{names} of key {key!r} in subtask {subtask.place.id} are {found}, expected {value}"

    def counted(self, host: SubtaskHost) -> int:
        """How many events are in the state."""
        bits = (
            read_state(backend, "bits", key) or 0
            for subtask in host.subtasks()
            for uid, backend in subtask.backends.items()
            for key in KEYS
            if uid == FUNCTION_UID and owns(backend, key)
        )
        return sum(found.bit_count() for found in bits)

    def wrong_output(self, truth: Truth, *, in_flight: bool = False) -> Iterator[str]:
        """Committed rows that are lost, there twice, too early or out of order; if `in_flight` some may be missing."""
        for sink, wanted in ((self.rows, truth.rows), (self.buckets, truth.bucket_rows)):
            found = Counter(sink.rows)
            yield from (f"{row} is lost" for row in wanted - found if not in_flight)
            yield from (f"{row} is committed {found[row]} times, expected {wanted[row]}" for row in found - wanted)
        for key in KEYS:
            numbers = [row[1] for row in self.rows.rows if row[0] == "row" and row[2] == key]
            if numbers != sorted(numbers):
                yield f"the rows of key {key!r} are committed in the order {numbers}"


def make_job(chance: random.Random, count: int) -> LightJob:
    """A job with so many events."""
    keys = KEYS[: chance.choice((1, 2, 4, 4))]
    times = chance.sample(range(1, 4 * count + 1), count)
    records = [(number, chance.choice(keys), times[number]) for number in range(count)]
    reached = 0
    watermarks = [0]
    for _ in records:
        reached = max(reached, chance.randrange(4 * count) if chance.random() < 0.3 else 0)
        watermarks.append(reached)
    return LightJob(records, watermarks, has_buckets=chance.random() < 0.2)


def key_of(record: Record) -> str:
    """The key of a record."""
    return record[1]
