"""Snapshots on disk to look into: made by a harness with every kind of state."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.common import Time, Types
from penstock.datastream import CheckpointedFunction, KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.storage.local import LocalStorage
from penstock.testing import CHECKPOINT, Harness

TTL_MS = 3_600_000
FAR_MS = 9_000_000_000_000


def with_ttl(descriptor: Any) -> Any:
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(TTL_MS)).build())
    return descriptor


class EveryKind(KeyedProcessFunction, CheckpointedFunction):
    """Records are (key, number): every kind of keyed state, timers, and the three kinds of operator state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        ctx = runtime_context
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.DOUBLE()))
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.counts = ctx.get_map_state(MapStateDescriptor("counts", Types.STRING(), Types.LONG()))
        self.least = ctx.get_reducing_state(ReducingStateDescriptor("least", min, Types.LONG()))
        self.untyped = ctx.get_state(ValueStateDescriptor("untyped"))
        self.recent = ctx.get_state(with_ttl(ValueStateDescriptor("recent", Types.LONG())))
        self.trail = ctx.get_list_state(with_ttl(ListStateDescriptor("trail", Types.LONG())))

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        """Its timers only have to be kept."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        key, number = value
        self.records += 1
        self.total.update((self.total.value() or 0.0) + number)
        if number < 0:
            self.total.clear()
        self.seen.add(number)
        self.counts.put("odd" if number % 2 else "even", number)
        self.least.add(number)
        self.untyped.update({"last": (key, number)})
        self.recent.update(number)
        self.trail.add(number)
        ctx.timer_service().register_event_time_timer(1_000_000 + number)
        ctx.timer_service().register_processing_time_timer(FAR_MS + number)
        yield key, self.total.value()

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.handled = store.get_list_state(ListStateDescriptor("handled", Types.LONG()))
        self.everywhere = store.get_union_list_state(ListStateDescriptor("everywhere"))
        self.rules = store.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LONG()))
        self.records = 0

    def snapshot_state(self, context: Any) -> None:
        self.handled.update([self.records])
        self.everywhere.update([("records", self.records)])
        self.rules.put("limit", 7)


RECORDS = [(f"k{n % 50}", n) for n in range(200)]
TOTALS = {f"k{n}": float(sum(m for key, m in RECORDS if key == f"k{n}")) for n in range(50)}


def harness(folder: Path, backend: str = "hashmap", key_type: Any = None, parallelism: int = 2) -> Harness:
    """A harness that has taken a full checkpoint and deltas on top of it."""
    made = Harness.keyed(
        EveryKind(),
        key=lambda record: record[0],
        backend=backend,
        parallelism=parallelism,
        max_parallelism=16,
        key_type=key_type,
        storage=LocalStorage(folder),
    )
    third = len(RECORDS) // 3
    for start in range(0, len(RECORDS), third):
        made.feed([*RECORDS[start : start + third], CHECKPOINT])
    return made


FORMS = ("checkpoint", "canonical", "native")


def snapshot(folder: Path, form: str, backend: str = "hashmap", key_type: Any = None) -> str:
    """The path of a checkpoint, or of a savepoint of either format."""
    if form == "checkpoint":
        return checkpoint(folder, backend, key_type)
    return harness(folder, backend, key_type).savepoint(folder / "savepoints", format=form)


def checkpoint(folder: Path, backend: str = "hashmap", key_type: Any = None) -> str:
    """The path of a checkpoint."""
    manifest = harness(folder, backend, key_type).manifest
    assert manifest is not None
    return str(folder / f"chk-{manifest.checkpoint_id}")
