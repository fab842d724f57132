"""The job of the golden savepoints: every kind of state in one function, and a way to say what each holds.

Savepoints of released versions are of this job, so what it declares never changes: a new kind of state is a new name.
"""

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.model.functions import AggregateFunction, KeyedProcessFunction
from penstock.model.key_groups import key_group_range
from penstock.model.operator_state import CheckpointedFunction
from penstock.model.row import Row
from penstock.model.time import Time
from penstock.model.types import Types
from penstock.testing import Advance, Harness, Watermark
from penstock.testing.graphs import FUNCTION_UID

BACKENDS = ("hashmap", "rocksdb")
KEYS = ["ada", "bob", "Čeněk", "", "a/b %", "key " * 20]
TTL_MS = 60_000
ROW = "id bigint, name string, price decimal(12,2), at timestamp, tags array<string>, size struct<w: int, h: double>"
MAX_PARALLELISM = 64


class Mean(AggregateFunction):
    """Keeps (sum, count)."""

    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: int, accumulator: Any) -> Any:
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator: Any) -> float:
        return float(accumulator[0] / accumulator[1])

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


def _add(first: Any, second: Any) -> Any:
    return first + second


def _row(number: int) -> Row:
    return Row(
        id=number,
        name=None if number % 2 else f"n{number}",
        price=Decimal(number) / 4,
        at=datetime(2026, 1, 1, 0, 0, number % 60, 123456, tzinfo=timezone.utc),
        tags=["x", None, "ž"][: number % 4],
        size=None if number % 3 == 0 else Row(w=number, h=number / 8),
    )


PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
STATES: dict[str, tuple[Callable[[str], StateDescriptor], Callable[[Any, int], None]]] = {
    "value typed": (lambda name: ValueStateDescriptor(name, Types.LONG()), lambda s, n: s.update(-n * 10**15)),
    "value untyped": (
        lambda name: ValueStateDescriptor(name),
        lambda s, n: s.update((n, {"k": [1.5, None, b"\x00"]}, Row(a=n, b="b"), Decimal("1.10"))),
    ),
    "value row": (lambda name: ValueStateDescriptor(name, ROW), lambda s, n: s.update(_row(n))),
    "value pickled": (
        lambda name: ValueStateDescriptor(name, Types.PICKLED_BYTE_ARRAY()),
        lambda s, n: s.update({"set": {n}}),
    ),
    "list typed": (lambda name: ListStateDescriptor(name, Types.STRING()), lambda s, n: s.add(f"e{n}")),
    "list untyped": (lambda name: ListStateDescriptor(name), lambda s, n: s.add([n, (n, True)])),
    "list row": (lambda name: ListStateDescriptor(name, ROW), lambda s, n: s.add(_row(n))),
    "map typed": (
        lambda name: MapStateDescriptor(name, Types.STRING(), Types.DOUBLE()),
        lambda s, n: s.put_all({f"m{n}": n / 8, "none": None}),
    ),
    "map untyped": (
        lambda name: MapStateDescriptor(name),
        lambda s, n: s.put_all({n: "int", f"{n}": "text", (n, None): [n]}),
    ),
    "map row": (
        lambda name: MapStateDescriptor(name, Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]), ROW),
        lambda s, n: s.put(Row(a=n, b="b"), _row(n)),
    ),
    "reducing typed": (lambda name: ReducingStateDescriptor(name, _add, Types.DOUBLE()), lambda s, n: s.add(n / 4)),
    "reducing untyped": (lambda name: ReducingStateDescriptor(name, _add), lambda s, n: s.add(f"{n},")),
    "aggregating typed": (lambda name: AggregatingStateDescriptor(name, Mean(), PAIR), lambda s, n: s.add(n)),
    "aggregating untyped": (lambda name: AggregatingStateDescriptor(name, Mean()), lambda s, n: s.add(n)),
}
"""Name -> its descriptor, and how a record with a number changes it. Each is there with a time to live too."""


def descriptors() -> dict[str, StateDescriptor]:
    """All keyed states by name."""
    found: dict[str, StateDescriptor] = {}
    for name, (make, _) in STATES.items():
        found[name] = make(name)
        expiring = found[f"{name}, ttl"] = make(f"{name}, ttl")
        expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(TTL_MS)).build())
    return found


class Everything(KeyedProcessFunction, CheckpointedFunction):
    """A record is (key, number)."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.split = store.get_list_state(ListStateDescriptor("split", ROW))
        self.union = store.get_union_list_state(ListStateDescriptor("union"))
        self.rules = store.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LONG()))
        self.raw = list(context.get_raw_state().get_partitions())

    def open(self, ctx: Any) -> None:
        subtasks = ctx.get_number_of_parallel_subtasks(), ctx.get_index_of_this_subtask()
        self.key_groups = key_group_range(ctx.get_max_number_of_parallel_subtasks(), *subtasks)
        make: dict[str, Callable[[Any], Any]] = {
            "value": ctx.get_state,
            "list": ctx.get_list_state,
            "map": ctx.get_map_state,
            "reducing": ctx.get_reducing_state,
            "aggregating": ctx.get_aggregating_state,
        }
        self.states = {name: make[descriptor.kind](descriptor) for name, descriptor in descriptors().items()}

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        key, number = value
        for name, state in self.states.items():
            STATES[name.removesuffix(", ttl")][1](state, number)
        timers = ctx.timer_service()
        timers.register_event_time_timer(1000 + number)
        timers.register_processing_time_timer(timers.current_processing_time() + 50_000 + number)
        self.split.add(_row(number))
        self.union.add(f"{key} {number}")
        self.rules.put("limit", 100)
        self.raw.append(f"raw {number}".encode())
        yield "seen", key, number

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield "fired", str(ctx.time_domain()), ctx.get_current_key()

    def snapshot_state(self, context: Any) -> None:
        raw = context.get_raw_state()
        for part in self.raw:
            raw.start_new_partition()
            raw.write(part)
        for group in range(self.key_groups[0], self.key_groups[1] + 1):
            raw.start_new_key_group(group)
            raw.write(f"group {group}".encode())


def harness(**settings: Any) -> Harness:
    """A harness around the job."""
    return Harness.keyed(
        Everything(),
        key=lambda record: record[0],
        key_type=Types.STRING(),
        max_parallelism=MAX_PARALLELISM,
        **settings,
    )


def fill(job: Harness) -> None:
    """What is in every golden savepoint: three rounds, the last of which changes some keys only."""
    for start, keys in ((0, KEYS), (100, KEYS), (200, KEYS[:2])):
        job.feed([*((key, start + number) for number, key in enumerate(keys)), Watermark(start // 100), Advance(5_000)])


def fire(job: Harness) -> list[str]:
    """The timers of both clocks, in an order of our own; and time to live is over then."""
    before = len(job.output)
    job.feed([Watermark(10_000), Advance(2 * TTL_MS)])  # a new clock may lie behind that of the snapshot
    job.run_empty_epochs(1)
    return sorted(map(repr, job.output[before:]))


def shown(value: Any) -> Any:
    """A value as text that is the same in every process."""
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{key!r}: {item!r}' for key, item in value.items()))}}}"
    return repr(value)


def content(job: Harness) -> dict[str, Any]:
    """What all states of the job hold, as JSON can say it; operator states over all subtasks, in any order."""
    keyed = {name: {key: shown(job.state(name, key)) for key in KEYS} for name in descriptors()}
    subtasks = job._host.subtasks()
    raw = [subtask.operator_states[FUNCTION_UID].raw for subtask in subtasks]
    found = {
        "keyed": keyed,
        "split": sorted(shown(row) for rows in job.operator_state("split") for row in rows),
        "union": sorted({element for part in job.operator_state("union") for element in part}),
        "rules": shown(job.operator_state("rules", broadcast=True)[0]),
        "raw": sorted(part.decode() for one in raw for part in one.get_partitions()),
        "raw keyed": {str(group): data.decode() for one in raw for group, data in one.get_key_groups()},
    }
    loaded: dict[str, Any] = json.loads(json.dumps(found))
    return loaded
