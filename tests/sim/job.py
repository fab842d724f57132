"""The job that fault schedules run: every kind of keyed state, timers of both clocks, sinks; and its oracle.

Nothing in its results depends on where epochs end or on how often a part is run again: per key the records come in
their order, and each timer's time is used once. So plain Python over all events, once, says what must come out.
"""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.checkpoint.snapshot.manifest import verify_file
from penstock.codec.columns import decode_column
from penstock.common import Types
from penstock.datastream import CheckpointedFunction, KeyedProcessFunction
from penstock.datastream.functions import FunctionInitializationContext, FunctionSnapshotContext
from penstock.graph.callables import CallableKeySelector
from penstock.graph.job_graph import JobGraph
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.graph.stream_graph import KeyBy, Node, OperatorSpec, SinkSpec, SourceSpec, StreamGraph
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.functions import AggregateFunction, RuntimeContext
from penstock.model.time import TimeDomain
from penstock.model.types import TAGGED
from penstock.state.operator.operator_file import read_operator_states
from penstock.testing import Harness, MemorySink
from penstock.testing.clocks import START_MS
from penstock.testing.graphs import FUNCTION_UID, FunctionProgram, function_graph

EVERYTHING, BUCKETS = FUNCTION_UID, "buckets"
ROWS_SINK, BUCKETS_SINK = "rows-out", "buckets-out"
KEYS = ("a", "b", "c", "d", "e")
TAGS = ("x", "y", "z")
MAX_PARALLELISM = 12
LAST_DUE_MS = 1_000_000
"""After so many milliseconds every processing-time timer is due."""


EMPTY: dict[str, Any] = {"total": None, "last": None, "ids": [], "tags": {}, "most": None, "mean": None, "fired": {}}
"""The states of a key that nothing has happened to."""


class Event(NamedTuple):
    """One record. `at` and `due` are unique: the times of an event-time and of a processing-time timer.

    An amount of 0 only clears one state: a snapshot may have nothing to say but that a table is empty now.
    """

    id: int
    key: str
    tag: str
    amount: int
    at: int
    due: int


def make_events(chance: random.Random, count: int) -> list[Event]:
    """Events with keys, amounts and times by chance."""
    keys = KEYS[: chance.choice((1, 2, len(KEYS)))]
    times = chance.sample(range(10, 10 + 5 * count), count)
    dues = chance.sample(range(START_MS + 1, START_MS + 1 + 50 * count), count)
    return [
        Event(n, chance.choice(keys), chance.choice(TAGS), chance.choice((0, chance.randrange(40))), times[n], dues[n])
        for n in range(count)
    ]


class Mean(AggregateFunction):
    """Keeps (sum, count)."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Everything(KeyedProcessFunction, CheckpointedFunction):
    """All five kinds of keyed state, with values that change, grow, shrink and go away, and two timers per event.

    Besides, the ids of all events: kept by the function itself and saved as operator list, raw and union list state,
    and added to another list as they come.
    """

    def __init__(self, *, union: bool = False) -> None:
        self.with_union = union

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.saved = store.get_list_state(ListStateDescriptor("kept", Types.LONG()))
        self.kept = list(self.saved.get())
        self.direct = store.get_list_state(ListStateDescriptor("live"))
        raw = [int(part) for part in context.get_raw_state().get_partitions()]
        assert raw == self.kept, f"raw state has {raw}, the list {self.kept}"
        assert not self.kept or context.is_restored()
        if self.with_union:
            self.union = store.get_union_list_state(ListStateDescriptor("union", Types.LONG()))
            self.everywhere = list(self.union.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.saved.update(self.kept)
        raw = context.get_raw_state()
        for number in self.kept:
            raw.start_new_partition()
            raw.write(str(number).encode())
        if self.with_union:
            self.union.update(self.share)

    def open(self, ctx: RuntimeContext) -> None:
        if self.with_union:
            index, count = ctx.get_index_of_this_subtask(), ctx.get_number_of_parallel_subtasks()
            self.share = [number for number in self.everywhere if number % count == index]
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.last = ctx.get_state(ValueStateDescriptor("last"))
        self.ids = ctx.get_list_state(ListStateDescriptor("ids", Types.LONG()))
        self.tags = ctx.get_map_state(MapStateDescriptor("tags", Types.STRING(), Types.LONG()))
        self.most = ctx.get_reducing_state(ReducingStateDescriptor("most", max, Types.LONG()))
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.mean = ctx.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), pair))
        self.fired = ctx.get_map_state(MapStateDescriptor("fired", None, Types.LONG()))

    def process_element(self, event: Event, ctx: Any) -> Iterable[Any]:
        self.kept.append(event.id)
        self.direct.add(event.id)
        if self.with_union:
            self.share.append(event.id)
        if event.amount == 0:
            self.last.clear()
            yield "cleared", event.id, event.key
            return
        total = (self.total.value() or 0) + event.amount
        self.total.update(total)
        if event.amount % 5:
            self.last.update([event.id, event.tag])
        else:
            self.last.clear()
        if event.amount % 7 == 0:
            self.ids.update([event.id])
        else:
            self.ids.add(event.id)
        if event.amount % 11 == 0:
            self.tags.clear()
        self.tags.put(event.tag, (self.tags.get(event.tag) or 0) + 1)
        if event.amount % 3 == 0:
            self.tags.remove(event.tag)
        self.most.add(event.amount)
        self.mean.add(event.amount)
        timers = ctx.timer_service()
        timers.register_event_time_timer(event.at)
        timers.register_processing_time_timer(event.due)
        timers.register_event_time_timer(-event.id)
        timers.delete_event_time_timer(-event.id)
        yield "row", event.id, event.key, total, len(list(self.ids.get())), self.mean.get()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        name = (ctx.time_domain().name, timestamp)
        self.fired.put(name, (self.fired.get(name) or 0) + 1)
        yield "timer", timestamp, ctx.get_current_key(), ctx.time_domain().name


class CountBuckets(KeyedProcessFunction):
    """How many rows of the first function each bucket has had."""

    def open(self, ctx: RuntimeContext) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterable[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield "bucket", ctx.get_current_key(), count


def bucket_of(row: Any) -> int:
    """The key of the second exchange."""
    return int(row[1]) % 4


@dataclass(frozen=True)
class Sinks:
    """Where the job writes; the objects outlive every harness."""

    rows: MemorySink = field(default_factory=MemorySink)
    buckets: MemorySink = field(default_factory=MemorySink)


def small_graph(parallelism: int, sinks: Sinks, *, union: bool = False) -> JobGraph:
    """source → key_by → Everything → sink: one stage."""
    program = FunctionProgram(
        Everything(union=union), lambda event: event.key, parallelism, MAX_PARALLELISM, sink=sinks.rows
    )
    return function_graph(program)


def large_graph(parallelism: int, sinks: Sinks, *, union: bool = False) -> JobGraph:
    """source → key_by(function) → Everything (→ sink) → key_by(function) → CountBuckets → sink: three stages."""
    graph = StreamGraph()
    source = graph.add("source", "events", (), SourceSpec("collection", None, TAGGED, None, True), TAGGED)
    everything = add_keyed(graph, source, lambda event: event.key, Everything(union=union), EVERYTHING)
    add_sink(graph, everything, sinks.rows, ROWS_SINK)
    buckets = add_keyed(graph, everything, bucket_of, CountBuckets(), BUCKETS)
    add_sink(graph, buckets, sinks.buckets, BUCKETS_SINK)
    return build_job_graph(graph, GraphSettings(parallelism, MAX_PARALLELISM))


def add_keyed(graph: StreamGraph, node: Node, key: Any, function: Any, uid: str) -> Node:
    """A function behind an exchange by key."""
    key_by = graph.add("key_by", "Key By", [node.id], KeyBy(None, CallableKeySelector(key), (TAGGED,)), TAGGED)
    made = graph.add("operator", uid, [key_by.id], OperatorSpec("keyed_process", function), TAGGED)
    made.uid = uid
    return made


def add_sink(graph: StreamGraph, node: Node, sink: MemorySink, uid: str) -> None:
    """A sink behind a node."""
    graph.add("sink", uid, [node.id], SinkSpec("sink", sink), TAGGED).uid = uid


@dataclass
class Results:
    """What is in state and in the sinks at the end."""

    states: dict[str, dict[str, Any]]
    """Key -> state name -> value."""
    buckets: dict[int, int]
    rows: Counter[Any]
    bucket_rows: Counter[Any]
    operator_states: Counter[Any]
    """(state name, event id)."""


def expected(events: Sequence[Event], *, large: bool, union: bool = False) -> Results:
    """The oracle: each event once, each timer once; `large`: with the second function."""
    states: dict[str, dict[str, Any]] = {}
    amounts: dict[str, list[int]] = {}
    rows: Counter[Any] = Counter()
    for event in events:
        state = states.setdefault(event.key, dict(EMPTY, ids=[], tags={}, fired={}))
        known = amounts.setdefault(event.key, [])
        if event.amount == 0:
            state["last"] = None
            rows["cleared", event.id, event.key] += 1
            continue
        known.append(event.amount)
        state["total"] = (state["total"] or 0) + event.amount
        state["last"] = [event.id, event.tag] if event.amount % 5 else None
        state["ids"] = [*([] if event.amount % 7 == 0 else state["ids"]), event.id]
        tags = {} if event.amount % 11 == 0 else state["tags"]
        tags[event.tag] = tags.get(event.tag, 0) + 1
        if event.amount % 3 == 0:
            del tags[event.tag]
        mean = sum(known) / len(known)
        state |= {"tags": tags, "most": max(known), "mean": mean}
        rows["row", event.id, event.key, state["total"], len(state["ids"]), mean] += 1
        for domain, time in ((TimeDomain.EVENT_TIME, event.at), (TimeDomain.PROCESSING_TIME, event.due)):
            state["fired"][domain.name, time] = 1
            rows["timer", time, event.key, domain.name] += 1
    buckets = Counter(bucket_of(row) for row in rows) if large else Counter()
    bucket_rows = Counter(("bucket", key, n) for key, count in buckets.items() for n in range(1, count + 1))
    states = {key: state for key, state in states.items() if state != EMPTY}
    names = ("live", "kept", "union") if union else ("live", "kept")
    operator_states = Counter((name, event.id) for name in names for event in events)
    return Results(states, dict(buckets), rows, bucket_rows, operator_states)


def found(harness: Harness, sinks: Sinks) -> Results:
    """What the harness and its sinks hold; keys without any state are left out."""
    states = {key: {name: harness.state(name, key, EVERYTHING) for name in EMPTY} for key in KEYS}
    counts = {bucket: harness.state("count", bucket, BUCKETS) for bucket in range(4)}
    return Results(
        {key: state for key, state in states.items() if state != EMPTY},
        {bucket: count for bucket, count in counts.items() if count is not None},
        Counter(sinks.rows.rows),
        Counter(sinks.buckets.rows),
        _saved_operator_states(harness),
    )


def _saved_operator_states(harness: Harness) -> Counter[Any]:
    """What the last checkpoint holds of the list states; right after a restore every subtask has the whole union."""
    saved: Counter[Any] = Counter()
    assert harness.manifest is not None
    for snapshot in harness.manifest.subtasks:
        if snapshot.operator_file is not None:
            tables = read_operator_states(verify_file(harness.storage, snapshot.operator_file))
            for (_, mode, name), table in tables.items():
                if mode != "raw":
                    values = decode_column(table["value"], TAGGED if name == "live" else Types.LONG())
                    saved.update((name, number) for number in values)
    return saved


def difference(found: Results, expected: Results) -> list[str]:
    """What is not as it must be, in words; nothing if all is well."""
    lines = []
    for key in sorted({*found.states, *expected.states}):
        ours, theirs = found.states.get(key, {}), expected.states.get(key, {})
        for name in sorted({*ours, *theirs}):
            if ours.get(name) != theirs.get(name):
                lines.append(f"state {name!r} of key {key!r} is {ours.get(name)!r}, expected {theirs.get(name)!r}")
    if found.buckets != expected.buckets:
        lines.append(f"buckets are {found.buckets}, expected {expected.buckets}")
    for name in ("rows", "bucket_rows", "operator_states"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        lines += [f"{name}: {row} is lost" for row in theirs - ours]
        lines += [f"{name}: {row} is there {ours[row]} times, expected {theirs[row]}" for row in ours - theirs]
    return lines
