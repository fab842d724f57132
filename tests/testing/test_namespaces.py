"""Namespaces through a whole job: windows made by hand, with crashes, rescaling and savepoints of both formats."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.checkpoint.snapshot.readable_state import readable
from penstock.checkpoint.snapshot.stored_snapshot import open_stored
from penstock.cli.state_commands import rows_text
from penstock.control.inspect.state_diff import diff_snapshots
from penstock.control.inspect.state_rows import RowSelection, summarise
from penstock.control.inspect.state_sql import query_snapshot
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.model.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.functions import FlatMapFunction, RuntimeContext
from penstock.model.snapshot import TableFile
from penstock.model.time import TimeDomain
from penstock.model.types import Types
from penstock.runtime.operators.function_context import OperatorContext
from penstock.state.backend.namespace_merging import merge_namespaces
from penstock.state.timers import Timers
from penstock.testing import CHECKPOINT, CRASH, Harness

WINDOW = Types.TUPLE([Types.LONG(), Types.LONG()])
BACKENDS = ("hashmap", "rocksdb")


class Windows(FlatMapFunction):
    """Windows of ten milliseconds by hand: (key, time) is counted, ("fire", time) fires the timers up to then."""

    def open(self, runtime_context: RuntimeContext) -> None:
        assert isinstance(runtime_context, OperatorContext)
        self.backend = backend = runtime_context.backend()
        self.count = backend.table(ReducingStateDescriptor("count", lambda a, b: a + b, Types.LONG()), WINDOW)
        self.times = backend.table(ListStateDescriptor("times", Types.LONG()), WINDOW)
        self.parity = backend.table(MapStateDescriptor("parity", Types.STRING(), Types.LONG()), WINDOW)
        self.overall = backend.table(ValueStateDescriptor("overall", Types.LONG()))
        self.timers = Timers(backend, TimeDomain.EVENT_TIME, WINDOW)

    def flat_map(self, value: tuple[str, int]) -> Iterable[Any]:
        key, time = value
        if key == "fire":
            for timestamp, address in self.timers.due(time):
                self.backend.enter(address)
                yield (*address, timestamp, self.count.get(), self.times.get(), dict(self.parity.items()))
                for state in (self.count, self.times, self.parity):
                    state.clear()
            return
        start = time // 10 * 10
        self.backend.set_current_namespace((start, start + 10))
        self.count.add(1)
        self.times.add(time)
        self.parity.put("odd" if time % 2 else "even", time)
        self.overall.update((self.overall.value() or 0) + 1)
        self.timers.register(start + 10)


RECORDS = [("a", 1), ("b", 2), ("a", 11), ("a", 12), ("b", 3), ("a", 4), ("b", 27)]
FIRED = [
    ("a", (0, 10), 10, 2, [1, 4], {"odd": 1, "even": 4}),
    ("b", (0, 10), 10, 2, [2, 3], {"even": 2, "odd": 3}),
    ("a", (10, 20), 20, 2, [11, 12], {"odd": 11, "even": 12}),
    ("b", (20, 30), 30, 1, [27], {"odd": 27}),
]


def windows(backend: str = "hashmap", **settings: Any) -> Harness:
    """All records have one key group's subtask, or several; a record ("fire", …) reaches the subtask of its key."""
    options: Any = {"key": lambda record: record[0], "key_type": Types.STRING(), "parallelism": 1, **settings}
    return Harness.keyed(Windows(), backend=backend, **options)


@pytest.mark.parametrize("backend", BACKENDS)
def test_windows_by_hand_survive_a_crash(backend: str) -> None:
    harness = windows(backend).feed([*RECORDS[:4], CHECKPOINT, *RECORDS[4:6], CRASH, *RECORDS[6:], CHECKPOINT])
    harness.feed([("fire", 15), CHECKPOINT, CRASH, ("fire", 99)])
    assert harness.crashes == 2 and sorted(harness.output) == sorted(FIRED)
    assert harness.state("count", "a", namespace=(0, 10)) is None and harness.state("overall", "a") == 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_windows_are_split_over_more_subtasks(backend: str) -> None:
    harness = windows(backend).feed([*RECORDS[:5], CHECKPOINT]).rescale(3, 16).feed([*RECORDS[5:], CHECKPOINT])
    for key, window, _, count, times, parity in FIRED:
        assert harness.state("count", key, namespace=window) == count
        assert harness.state("times", key, namespace=window) == times
        assert harness.state("parity", key, namespace=window) == parity
    harness.rescale(1).feed([("fire", 99)])
    assert sorted(harness.output) == sorted(FIRED)


@pytest.mark.parametrize("kind", ["canonical", "native"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_savepoint_of_windows_is_restored_by_every_backend(backend: str, kind: str, tmp_path: Path) -> None:
    path = windows(backend, parallelism=2).feed(RECORDS).savepoint(tmp_path, format=kind)
    for other in BACKENDS:
        harness = windows(other, start=StartOptions(path)).feed([("fire", 99)])
        assert sorted(harness.output) == sorted(FIRED)


def test_both_backends_write_the_same_tables_with_a_namespace_column(tmp_path: Path) -> None:
    tables: dict[Any, bytes] = {}
    for backend in BACKENDS:
        stored = open_stored(windows(backend, parallelism=2).feed(RECORDS).savepoint(tmp_path / backend))
        for part in stored.manifest.subtasks:
            for file in part.files:
                assert isinstance(file.format, TableFile)
                data = stored.storage.read(file.path)
                assert tables.setdefault((part.subtask, file.format), data) == data
    assert len(tables) == 10
    times, plain = (
        pa.concat_tables(pq.read_table(path) for path in (tmp_path / "hashmap").rglob(f"{name}/*.parquet"))
        for name in ("times", "overall")
    )
    assert times.schema.names == ["key_group", "key_hash", "key", "namespace", "value"]
    assert times["namespace"].to_pylist().count({"f0": 0, "f1": 10}) == 2
    assert plain.schema.names == ["key_group", "key_hash", "key", "value"]


@pytest.mark.parametrize("kind", ["canonical", "native"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_commands_show_a_namespace_where_there_is_one(backend: str, kind: str, tmp_path: Path) -> None:
    before = open_stored(windows(backend).feed(RECORDS[:4]).savepoint(tmp_path / "a", format=kind))
    after = open_stored(windows(backend).feed(RECORDS).savepoint(tmp_path / "b", format=kind))
    types = {state.state: state.namespace or None for state in summarise(after).states}
    assert types == {
        "count": "TUPLE<LONG, LONG>",
        "times": "TUPLE<LONG, LONG>",
        "parity": "TUPLE<LONG, LONG>",
        "overall": None,
        "_timers_event": "TUPLE<LONG, LONG>",
    }
    selection = RowSelection.of(after, after.state("function", "count"), "a")
    (table,) = selection.tables()
    assert "namespace" in rows_text(table, selection.readable).splitlines()[0].lower()
    assert "namespace" not in readable(after.state("function", "overall")).schema.names
    names, batches = query_snapshot(after, 'SELECT key, namespace.f0, value FROM "function"."count" ORDER BY ALL')
    assert [row for batch in batches for row in batch] == [("a", 0, 2), ("a", 10, 2), ("b", 0, 2), ("b", 20, 1)]
    diff = {state.state: state for state in diff_snapshots(before, after).states}
    assert (diff["count"].rows_added, diff["count"].rows_changed) == (1, 2)
    assert (diff["_timers_event"].rows_added, diff["_timers_event"].rows_changed) == (1, 0)


class Sessions(FlatMapFunction):
    """Sessions with a gap of ten: the sessions of a key are the namespaces of its state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        assert isinstance(runtime_context, OperatorContext)
        self.backend = backend = runtime_context.backend()
        self.times = backend.table(ListStateDescriptor("times", Types.LONG()), WINDOW)

    def flat_map(self, value: tuple[str, int]) -> Iterable[Any]:
        time = value[1]
        near = [it for it in sorted(self.backend.namespaces_with("times")) if it[0] - 10 <= time <= it[1]]
        merged = min([time, *(start for start, _ in near)]), max([time + 10, *(end for _, end in near)])
        merge_namespaces(self.backend, self.times, merged, near)
        self.times.add(time)
        yield value[0], merged, self.times.get()


@pytest.mark.parametrize("backend", BACKENDS)
def test_sessions_grow_together(backend: str) -> None:
    harness = Harness.keyed(Sessions(), key=lambda record: record[0], key_type=Types.STRING(), backend=backend)
    harness.feed([("a", 0), ("a", 25), ("b", 12), CHECKPOINT, ("a", 12), CRASH, ("a", 100)])
    assert harness.output == [
        ("a", (0, 10), [0]),
        ("a", (25, 35), [25]),
        ("b", (12, 22), [12]),
        ("a", (12, 22), [12]),
        ("a", (100, 110), [100]),
    ]
    harness.feed([("a", 10), ("a", 20)])
    assert harness.output[-2:] == [("a", (0, 22), [0, 12, 10]), ("a", (0, 35), [0, 12, 10, 25, 20])]
