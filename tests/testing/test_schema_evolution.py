"""A job goes on with a program that declares its states otherwise: crashes and rescaling too (features O11, O12)."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import IncompatibleStateError, UserFunctionError
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.model.functions import KeyedProcessFunction, ProcessFunction
from penstock.model.operator_state import CheckpointedFunction
from penstock.model.row import Row
from penstock.model.types import Types
from penstock.testing import CHECKPOINT, CRASH, Harness

on_every_backend = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
V1, V2 = "n int, seen array<int>", "country string, seen array<bigint>, n bigint"


class Count(KeyedProcessFunction):
    """Counts per key in a row; `late` keys ask for the state only when they come."""

    def __init__(self, type_info: Any, *, late: bool = False, migrate: Callable[[Any], Any] | None = None) -> None:
        self.type_info = type_info
        self.late = late
        self.migrate = migrate

    def open(self, ctx: Any) -> None:
        self.ctx = ctx
        self.total = None if self.late else self.ask()

    def ask(self) -> Any:
        descriptor = ValueStateDescriptor("total", self.type_info)
        if self.migrate is not None:
            descriptor.migrate(self.migrate)
        return self.ctx.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        key, number = value
        if self.total is None:
            self.total = self.ask()
        old = self.total.value()
        row: dict[str, Any] = old.as_dict() if old is not None else {"n": 0, "seen": []}
        row.update(n=row["n"] + number, seen=[*row["seen"], number])
        if "country" in str(self.type_info):
            row["country"] = row.get("country") or "fr"
        self.total.update(row)
        yield key, row["n"]


def harness(function: Any, **settings: Any) -> Harness:
    return Harness.keyed(function, key=lambda record: record[0], key_type=Types.STRING(), **settings)


def again(old: Harness, function: Any, **settings: Any) -> Harness:
    """The job with another program, from its newest checkpoint."""
    old._lose_processes()
    return harness(function, storage=old.storage, clock=old.clock, **settings)


@on_every_backend
@pytest.mark.parametrize("other", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_o11_a_job_goes_on_with_another_schema(backend: str, other: str, parallelism: int) -> None:
    keys = [f"k{n}" for n in range(20)]
    old = harness(Count(V1), backend=backend, parallelism=2)
    old.feed([(key, 1) for key in keys]).feed([CHECKPOINT, ("k0", 1), CHECKPOINT])
    new = again(old, Count(V2), backend=other, parallelism=parallelism)
    assert new.state("total", "k0") == Row(country=None, seen=[1, 1], n=2)
    new._input._items = list(old._input._items)
    new.feed([("k1", 1 << 40), CHECKPOINT, ("k1", 1), CRASH, ("k2", 5), CHECKPOINT, CRASH, ("k2", 1)])
    assert new.state("total", "k1") == Row(country="fr", seen=[1, 1 << 40, 1], n=2 + (1 << 40))
    assert new.state("total", "k2") == Row(country="fr", seen=[1, 5, 1], n=7)
    assert new.state("total", "k3") == Row(country=None, seen=[1], n=1)
    new.rescale(4)
    assert new.state("total", "k2") == Row(country="fr", seen=[1, 5, 1], n=7)
    assert _types(new) == {'ROW<"country" STRING, "seen" LIST<LONG>, "n" LONG>'}


@on_every_backend
@pytest.mark.parametrize("kind", ["canonical", "native"])
@pytest.mark.parametrize("parallelism", [2, 3])
def test_o11_a_savepoint_is_restored_with_another_schema(
    backend: str, kind: str, parallelism: int, tmp_path: Path
) -> None:
    old = harness(Count(V1), backend=backend, parallelism=2)
    old.feed([*((f"k{n}", n) for n in range(20)), CHECKPOINT, ("k0", 1)])
    start = StartOptions(old.savepoint(tmp_path, format=kind))
    new = harness(Count(V2), backend=backend, parallelism=parallelism, start=start)
    assert new.state("total", "k0") == Row(country=None, seen=[0, 1], n=1)
    new.feed([("k1", 1), CHECKPOINT, CRASH, ("k1", 1)])
    assert new.state("total", "k1") == Row(country="fr", seen=[1, 1, 1], n=3)
    assert new.state("total", "k19") == Row(country=None, seen=[19], n=19)
    migrated = Count("string", migrate=lambda row: str(row.n))
    assert harness(migrated, backend=backend, start=start).state("total", "k19") == "19"
    with pytest.raises(IncompatibleStateError, match="INCOMPATIBLE_STATE name='total'"):
        harness(Count("string"), backend=backend, start=start)


@on_every_backend
def test_o11_subtasks_that_ask_late_meet_after_a_rescale(backend: str) -> None:
    keys = [f"k{n}" for n in range(20)]
    old = harness(Count(V1), backend=backend, parallelism=4)
    old.feed([*((key, 1) for key in keys), CHECKPOINT])
    new = again(old, Count(V2, late=True), backend=backend, parallelism=4)
    new._input._items = list(old._input._items)
    new.feed([("k0", 1), CHECKPOINT])  # one subtask has the new type now, three the old one
    assert len(_types(new)) == 2
    new.rescale(1)
    new.feed([CHECKPOINT, ("k0", 1), CHECKPOINT, CRASH, ("k1", 1)])
    assert new.state("total", "k0") == Row(country="fr", seen=[1, 1, 1], n=3)
    assert new.state("total", "k5") == Row(country=None, seen=[1], n=1)


def _types(job: Harness) -> set[str]:
    assert job.manifest is not None
    return {info.value_type for subtask in job.manifest.subtasks for info in subtask.tables if info.kind == "value"}


@on_every_backend
def test_o12_a_type_that_does_not_fit_ends_the_start_with_both_schemas(backend: str) -> None:
    old = harness(Count(V1), backend=backend).feed([("a", 1), CHECKPOINT])
    with pytest.raises(
        IncompatibleStateError, match="INCOMPATIBLE_STATE name='total' was=.* now='value state of STRING"
    ):
        again(old, Count("string"), backend=backend)
    assert again(old, Count(V1), backend=backend).state("total", "a") == Row(n=1, seen=[1])


@on_every_backend
def test_o12_a_function_that_asks_late_is_refused_then_and_the_state_stays(backend: str) -> None:
    old = harness(Count(V1), backend=backend).feed([("a", 1), CHECKPOINT])
    new = again(old, Count("string", late=True), backend=backend)
    new._input._items = list(old._input._items)
    with pytest.raises(IncompatibleStateError, match="INCOMPATIBLE_STATE name='total'"):
        new.feed([("a", 1)])
    assert again(new, Count(V1), backend=backend).state("total", "a") == Row(n=1, seen=[1])


@on_every_backend
def test_o11_a_users_function_changes_the_rest_once(backend: str) -> None:
    old = harness(Count(V1), backend=backend, parallelism=2).feed([("a", 1), ("b", 2), CHECKPOINT])
    new = again(old, Count("string", migrate=lambda row: f"{row.n} of {row.seen}"), backend=backend)
    assert new.state("total", "b") == "2 of [2]"
    with pytest.raises(UserFunctionError, match="in the migrate function of state 'total' at '[ab]'"):
        again(old, Count("string", migrate=lambda row: row.nothing), backend=backend)


class Buffer(ProcessFunction, CheckpointedFunction):
    """Keeps what it sees in every kind of operator state."""

    def __init__(self, type_info: Any, migrate: Callable[[Any], Any] | None = None) -> None:
        self.type_info = type_info
        self.migrate = migrate

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.split = store.get_list_state(self._declared(ListStateDescriptor("split", self.type_info)))
        self.union = store.get_union_list_state(self._declared(ListStateDescriptor("union", self.type_info)))
        rules = MapStateDescriptor("rules", Types.STRING(), self.type_info)
        self.rules = store.get_broadcast_state(self._declared(rules))
        self.own = list(self.union.get()) if context.is_restored() else []

    def _declared(self, descriptor: Any) -> Any:
        if self.migrate is not None:
            descriptor.migrate(self.migrate)
        return descriptor

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.split.add(value)
        self.own.append(value)
        self.rules.put("newest", value)
        return ()

    def snapshot_state(self, context: Any) -> None:
        self.union.update(self.own)


def test_o11_operator_state_evolves() -> None:
    old = Harness.non_keyed(Buffer("n int, gone int"), parallelism=1)
    old.feed([Row(n=1, gone=0), Row(n=2, gone=0), CHECKPOINT])
    old._lose_processes()
    new = Harness.non_keyed(Buffer("country string, n bigint"), storage=old.storage, clock=old.clock, parallelism=2)
    (first, second), unions = new.operator_state("split"), new.operator_state("union")
    assert first == [Row(country=None, n=1)] and second == [Row(country=None, n=2)]
    assert unions == [[*first, *second]] * 2
    assert new.operator_state("rules", broadcast=True) == [{"newest": Row(country=None, n=2)}] * 2
    new._input._items = list(old._input._items)
    new.feed([Row(country="fr", n=1 << 40), CHECKPOINT, CRASH])
    assert sorted(row.n for rows in new.operator_state("split") for row in rows) == [1, 2, 1 << 40]
    assert new.manifest is not None
    infos = [info for subtask in new.manifest.subtasks for info in subtask.operator_states]
    assert {info.value_type for info in infos} == {'ROW<"country" STRING, "n" LONG>'}


def test_o11_operator_state_is_migrated_and_dropped() -> None:
    old = Harness.non_keyed(Buffer("int")).feed([1, 2, 3, CHECKPOINT])
    old._lose_processes()
    change = Buffer("string", migrate=lambda n: None if n == 2 else str(n))
    new = Harness.non_keyed(change, storage=old.storage, clock=old.clock)
    assert (new.operator_state("split"), new.operator_state("union")) == ([["1", "3"]], [["1", "3"]])
    assert new.operator_state("rules", broadcast=True) == [{"newest": "3"}]


def test_o12_operator_state_of_another_type_is_refused() -> None:
    old = Harness.non_keyed(Buffer("int")).feed([1, CHECKPOINT])
    old._lose_processes()
    with pytest.raises(IncompatibleStateError, match="was='list state of INT' now='list state of STRING'"):
        Harness.non_keyed(Buffer("string"), storage=old.storage, clock=old.clock)
