"""The backend against plain dictionaries: random programs of state accesses, epochs, seals and restores."""

import copy
from collections import Counter
from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.codec.columns import decode_column, encode_column
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.ids import CheckpointId
from penstock.model.time import TimeDomain
from penstock.model.type_information import TypeInformation
from penstock.model.types import Types
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.sealed_state import SealedFiles, SealedTables
from penstock.state.heap.hashmap_backend import HashMapBackend
from penstock.state.timers import Timers
from penstock.testing.conformance_state.tools import Mean
from tests.state.backends import (
    KINDS,
    MAX_PARALLELISM,
    choose,
    restored,
    seal,
    seal_data,
    stored_entries,
    string_backend,
)

KEYS = ["a", "b", "ü, a longer key"]
OTHER_KEYS = [f"other {number}" for number in range(12)]
"""Filled at the start and never touched again, so that most seals can be deltas."""
NAMESPACED = {"a": ("a", (0, 1)), "b": ("a", (1, 2)), "ü, a longer key": ("b", (0, 1))}
"""What the keys are in states with namespaces: two of them are one key in two namespaces."""
PAIR = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
WINDOW = Types.TUPLE([Types.LONG(), Types.LONG()])
MAP_KEYS = ["x", "y", 1, True, (1, "z")]
Model = dict[str, dict[Any, Any]]

keys = st.sampled_from(KEYS)
numbers = st.integers(-3, 3)
anything = st.none() | numbers | st.text(max_size=3) | st.lists(numbers, max_size=2) | st.tuples(numbers, numbers)

Access = tuple[Any, ...]
taken: Counter[str] = Counter()
"""Steps of each machine."""


def descriptors() -> dict[str, StateDescriptor]:
    return {
        "value": ValueStateDescriptor("value", Types.LONG()),
        "untyped": ValueStateDescriptor("untyped"),
        "columns": ValueStateDescriptor("columns", PAIR),
        "list": ListStateDescriptor("list", Types.LONG()),
        "map": MapStateDescriptor("map", Types.STRING(), Types.LONG()),
        "untyped_map": MapStateDescriptor("untyped_map"),
        "reducing": ReducingStateDescriptor("reducing", lambda a, b: a + b, Types.LONG()),
        "aggregating": AggregatingStateDescriptor("aggregating", Mean()),
    }


timestamps = st.integers(0, 9)
pairs = st.none() | st.tuples(numbers, st.none() | st.sampled_from([0.5, -0.0]))
some_numbers = st.lists(numbers, max_size=3)
map_keys = st.sampled_from(MAP_KEYS)
accesses: st.SearchStrategy[Access] = st.one_of(
    st.tuples(st.just("value_update"), st.none() | numbers),
    st.tuples(st.just("untyped_update"), anything),
    st.tuples(st.just("columns_put"), st.dictionaries(keys, pairs)),
    st.tuples(st.just("columns_update"), pairs),
    st.tuples(st.just("clear"), st.sampled_from(list(descriptors()))),
    st.tuples(st.sampled_from(["list_add", "list_add_all", "list_update"]), some_numbers),
    st.tuples(st.just("map_put"), map_keys, anything),
    st.tuples(st.just("map_put_all"), st.dictionaries(map_keys, anything, max_size=3)),
    st.tuples(st.sampled_from(["map_remove", "map_remove_by_iterator"]), map_keys),
    st.tuples(st.sampled_from(["reduce", "aggregate"]), st.none() | numbers),
    st.tuples(st.sampled_from(["register", "delete"]), timestamps),
    st.tuples(st.just("fire"), timestamps, st.integers(0, 3)),
)


numbers_of_seals = st.sampled_from([0, 0, 1, 1, 2, 3, 5])
kinds = st.sampled_from(["hashmap"] * 4 + list(KINDS))
"""RocksDB seldom: to open one takes longer than a hundred steps."""
recoveries = st.tuples(numbers_of_seals, st.integers(1, 3), st.booleans(), st.booleans(), kinds, kinds)


def empty_model() -> Model:
    return {name: {} for name in (*descriptors(), "timers")}


def map_key_id(key: Any) -> tuple[str, Any]:
    """A dictionary key that tells True from 1."""
    return type(key).__name__, key


@dataclass
class Sealed:
    """A seal, what it must hold, and its file once it was encoded."""

    checkpoint_id: int
    tables: SealedTables | SealedFiles
    model: Model
    file: bytes | None = None

    @property
    def base(self) -> int | None:
        """Whose files must be read before this one's."""
        return self.tables.base if isinstance(self.tables, SealedTables) else None


class BackendMachine(RuleBasedStateMachine):
    kind = "hashmap"
    """The first backend; a recovery may continue with another one."""
    namespace_type: TypeInformation | None = None
    """Of all states and timers."""

    def __init__(self) -> None:
        super().__init__()
        self.model = empty_model()
        self.seals: dict[int, Sealed] = {}
        self.next_checkpoint = 1
        self.key: Any = KEYS[0]
        self.is_running = False
        choose(self.kind)
        self.use(string_backend())
        self.fill()

    def fill(self) -> None:
        self.backend.begin_epoch()
        for key in OTHER_KEYS:
            self.go_to(self.address(key))
            self.value_update(1)
            self.untyped_update([1])
            self.columns_update((1, None))
            self.list_add([1, 2])
            self.map_put("x", 1)
            self.reduce(1)
            self.aggregate(1)
            self.register(100)
        self.backend.finish_epoch()

    def use(self, backend: KeyedBackend) -> None:
        self.backend = backend
        self.many = self.many_values(backend)
        self.states = self.tables(backend)
        self.timers = Timers(backend, TimeDomain.EVENT_TIME, self.namespace_type)

    def many_values(self, backend: KeyedBackend) -> Any:
        """The values of many addresses at once."""
        return backend.bulk_values(descriptors()["columns"], self.namespace_type)  # type: ignore[arg-type]

    def tables(self, backend: KeyedBackend) -> dict[str, Any]:
        return {name: backend.table(descriptor, self.namespace_type) for name, descriptor in descriptors().items()}

    def address(self, key: str) -> Any:
        """What stands for a key: itself, or with namespaces a key and a namespace."""
        return key if self.namespace_type is None else NAMESPACED.get(key, (key, (0, 1)))

    def go_to(self, address: Any) -> None:
        self.key = address
        enter(self.backend, address)

    # One rule, because hypothesis leaves rules out of whole runs, and a run without one of these steps shows nothing.

    @rule(
        recovery=st.sampled_from([False, False, False, True]).flatmap(lambda yes: recoveries if yes else st.none()),
        steps=st.lists(st.tuples(keys, accesses), min_size=2, max_size=12),
        outcome=st.sampled_from(
            ["seal", "seal", "seal", "finish", "roll back", "finish, roll back", "seal, roll back"]
        ),
        base=st.tuples(st.integers(-2, 20), st.sampled_from([False, False, False, True])),
        checks=st.lists(
            st.tuples(numbers_of_seals, st.integers(1, 3), st.sampled_from([MAX_PARALLELISM, 7])), max_size=2
        ),
    )
    def round(
        self, recovery: Access | None, steps: list[Access], outcome: str, base: tuple[int, bool], checks: list[Access]
    ) -> None:
        if recovery is not None and self.seals:
            self.recover(*recovery)
        self.epoch(steps, outcome, base)
        for which, parallelism, max_parallelism in checks:
            if self.seals:
                self.check_restore(which, parallelism, max_parallelism)

    def epoch(self, steps: list[Access], outcome: str, base: tuple[int, bool]) -> None:
        before, known = copy.deepcopy(self.model), dict(self.seals)
        if not isinstance(self.backend, HashMapBackend):
            outcome = outcome.removesuffix(", roll back")  # what is written to RocksDB stays
        self.backend.begin_epoch()
        self.is_running = True
        taken.update([type(self).__name__] * len(steps))
        for key, (name, *arguments) in steps:
            self.go_to(self.address(key))
            getattr(self, name)(*arguments)
        if outcome != "roll back":
            self.backend.finish_epoch()
            self.is_running = False
        self.state_is_as_in_the_model()
        if outcome.startswith("seal"):
            self.seal(base[0], full=base[1])
        if outcome.endswith("roll back"):
            self.backend.roll_back()
            self.is_running = False
            self.model, self.seals = before, known

    def seal(self, base: int, *, full: bool) -> None:
        """Name one of the seals as base, mostly a recent one; or none, or one that never was."""
        recent = list(reversed(self.seals))
        named = None if base == -1 or not recent else 999 if base == -2 else recent[base % min(len(recent), 3)]
        sealed = Sealed(
            self.next_checkpoint, seal(self.backend, self.next_checkpoint, named, full=full), copy.deepcopy(self.model)
        )
        assert sealed.base in (None, named) and not (full and sealed.base is not None)
        self.seals[self.next_checkpoint] = sealed
        self.next_checkpoint += 1

    # State accesses

    def value_update(self, value: int | None) -> None:
        self.states["value"].update(value)
        self.put("value", value)

    def untyped_update(self, value: Any) -> None:
        given = copy.deepcopy(value)
        self.states["untyped"].update(given)
        self.put("untyped", value)
        if isinstance(given, list):
            given.append("not stored")

    def columns_put(self, values: dict[str, Any]) -> None:
        """Values of many keys at once, which are read first."""
        addresses = list(map(self.address, values))
        before = [self.model["columns"].get(address) for address in addresses]
        assert repr(decode_column(self.many.get(addresses), PAIR)) == repr(before)
        self.many.put(addresses, encode_column(list(values.values()), PAIR))
        current = self.key
        for self.key, value in zip(addresses, values.values(), strict=True):
            self.put("columns", value)
        self.key = current

    def columns_update(self, value: Any) -> None:
        self.states["columns"].update(value)
        self.put("columns", value)

    def clear(self, name: str) -> None:
        self.states[name].clear()
        self.put(name, None)

    def list_add(self, values: list[int]) -> None:
        for value in values:
            self.states["list"].add(value)
        self.put("list", [*self.model["list"].get(self.key, []), *values] or None)

    def list_add_all(self, values: list[int]) -> None:
        self.states["list"].add_all(values)
        self.put("list", [*self.model["list"].get(self.key, []), *values] or None)

    def list_update(self, values: list[int]) -> None:
        self.states["list"].update(values)
        self.put("list", values or None)

    def map_put(self, key: Any, value: Any) -> None:
        number = value if isinstance(value, int) else None
        self.states["map"].put(str(key), number)
        self.states["untyped_map"][key] = value
        self.put_entries("map", {str(key): number})
        self.put_entries("untyped_map", {key: value})

    def map_put_all(self, entries: dict[Any, Any]) -> None:
        self.states["untyped_map"].put_all(entries)
        self.put_entries("untyped_map", entries)

    def map_remove(self, key: Any) -> None:
        self.states["map"].remove(str(key))
        del self.states["untyped_map"][key]
        self.remove_entry("map", str(key))
        self.remove_entry("untyped_map", key)

    def map_remove_by_iterator(self, key: Any) -> None:
        iterator = self.states["untyped_map"].keys()
        for found in iterator:
            if map_key_id(found) == map_key_id(key):
                iterator.remove()
        self.remove_entry("untyped_map", key)

    def reduce(self, value: int | None) -> None:
        self.states["reducing"].add(value)
        self.put("reducing", None if value is None else self.model["reducing"].get(self.key, 0) + value)

    def aggregate(self, value: int | None) -> None:
        self.states["aggregating"].add(value)
        total, count = self.model["aggregating"].get(self.key, (0, 0))
        self.put("aggregating", None if value is None else (total + value, count + 1))

    def register(self, timestamp: int) -> None:
        self.timers.register(timestamp)
        self.model["timers"][timestamp, self.key] = None

    def delete(self, timestamp: int) -> None:
        self.timers.delete(timestamp)
        self.model["timers"].pop((timestamp, self.key), None)

    def fire(self, limit: int, again: int) -> None:
        pending = self.model["timers"]
        for timer in self.timers.due(limit):
            assert timer == min(pending)
            del pending[timer]
            if again:
                again -= 1
                self.go_to(timer[1])
                self.register(timer[0] + again)
        assert all(timestamp > limit for timestamp, _ in pending)

    def put(self, name: str, value: Any) -> None:
        if value is None:
            self.model[name].pop(self.key, None)
        else:
            self.model[name][self.key] = value

    def put_entries(self, name: str, entries: dict[Any, Any]) -> None:
        changed = {map_key_id(key): (key, value) for key, value in entries.items()}
        self.put(name, {**self.model[name].get(self.key, {}), **changed} or None)

    def remove_entry(self, name: str, key: Any) -> None:
        entries = self.model[name].get(self.key, {})
        self.put(name, {known: entry for known, entry in entries.items() if known != map_key_id(key)} or None)

    # Restores

    def nth_seal(self, which: int) -> Sealed:
        """Counted from the newest."""
        return list(self.seals.values())[-1 - which % len(self.seals)]

    def check_restore(self, which: int, parallelism: int, max_parallelism: int) -> None:
        """Of any seal, however old: later changes are not in it."""
        sealed = self.nth_seal(which)
        entries = 0
        choose("hashmap")
        for backend in restored([self.chain(sealed)], parallelism, max_parallelism):
            first, last = backend.key_groups
            every = map(self.address, (*KEYS, *OTHER_KEYS))
            own = {it for it in every if first <= backend.key_codec.hash(_key(it)) % max_parallelism <= last}
            handles = self.tables(backend)
            backend.timer_table("_timers_event", self.namespace_type)
            entries += stored_entries(backend)
            self.check(backend, handles, {name: _only(own, table, name) for name, table in sealed.model.items()})
        assert entries == entry_count(sealed.model)

    def recover(
        self, which: int, parallelism: int, declares: bool, as_base: bool, between: str, afterwards: str
    ) -> None:
        """Continue from some seal, perhaps at another parallelism, without states, or on another backend."""
        sealed = self.nth_seal(which)
        chains = [self.chain(sealed)]
        if parallelism > 1:
            choose(between)
            middle = restored(chains, parallelism)
            for backend in middle if declares else ():
                self.tables(backend)
            chains = [[seal_data(seal(backend, 1, full=True))] for backend in middle]
            for backend in middle:
                backend.close()
        choose(afterwards)
        (backend,) = restored(chains)
        if parallelism == 1 and as_base:
            backend.start_from(CheckpointId(sealed.checkpoint_id))
        self.backend.close()
        self.use(backend)
        self.model = copy.deepcopy(sealed.model)

    def chain(self, sealed: Sealed) -> list[bytes]:
        if sealed.file is None:
            sealed.file = seal_data(sealed.tables)
        base = sealed.base
        return [*(self.chain(self.seals[base]) if base is not None else []), sealed.file]

    def teardown(self) -> None:
        self.backend.close()
        choose("hashmap")

    @invariant()
    def state_is_as_in_the_model(self) -> None:
        current = self.backend.keys.key, self.backend.scope.key
        self.check(self.backend, self.states, self.model)
        self.backend.keys.key, self.backend.scope.key = current
        if isinstance(self.backend, HashMapBackend) or not self.is_running:
            assert stored_entries(self.backend) == entry_count(self.model)
        pending = self.model["timers"]
        assert self.timers.next_timestamp() == (min(pending)[0] if pending else None)

    def check(self, backend: KeyedBackend, handles: dict[str, Any], model: Model) -> None:
        for key in map(self.address, (*KEYS, OTHER_KEYS[0])):
            enter(backend, key)
            for name in ("value", "untyped", "columns"):
                assert repr(handles[name].value()) == repr(model[name].get(key))
            assert handles["list"].get() == model["list"].get(key, [])
            for name in ("map", "untyped_map"):
                entries = model[name].get(key, {})
                assert {map_key_id(k): (k, v) for k, v in handles[name].items()} == entries
                assert handles[name].is_empty() == (not entries)
                assert all(repr(handles[name][k]) == repr(v) and k in handles[name] for k, v in entries.values())
            assert handles["reducing"].get() == model["reducing"].get(key)
            total, count = model["aggregating"].get(key, (0, 0))
            assert handles["aggregating"].get() == (total / count if count else None)
        assert set(backend.timer_table("_timers_event", self.namespace_type).pending()) == set(model["timers"])
        for name in handles if self.namespace_type is not None else ():
            enter(backend, ("a", (0, 1)))
            assert sorted(backend.namespaces_with(name)) == sorted(ns for key, ns in model[name] if key == "a")


def enter(backend: KeyedBackend, address: Any) -> None:
    """Make this the current key, or key and namespace."""
    if isinstance(address, tuple):
        backend.enter(address)
    else:
        backend.keys.key = address


def _key(address: Any) -> str:
    return str(address[0]) if isinstance(address, tuple) else str(address)


def entry_count(model: Model) -> int:
    maps = ("map", "untyped_map")
    return sum(sum(map(len, table.values())) if name in maps else len(table) for name, table in model.items())


def _only(own: set[str], table: dict[Any, Any], name: str) -> dict[Any, Any]:
    return {key: value for key, value in table.items() if (key[1] if name == "timers" else key) in own}


class RocksDBMachine(BackendMachine):
    kind = "rocksdb"


class RocksDBFilesMachine(BackendMachine):
    kind = "rocksdb files"


class NamespacedMachine(BackendMachine):
    namespace_type = WINDOW


class NamespacedRocksDBMachine(RocksDBMachine):
    namespace_type = WINDOW


TestHashMap = BackendMachine.TestCase
TestHashMap.settings = settings(stateful_step_count=15, max_examples=settings().max_examples)
TestRocksDB = RocksDBMachine.TestCase
TestRocksDB.settings = settings(stateful_step_count=15, max_examples=settings().max_examples // 4)
TestRocksDBFiles = RocksDBFilesMachine.TestCase
TestRocksDBFiles.settings = settings(stateful_step_count=15, max_examples=settings().max_examples // 4)

TestNamespaces = NamespacedMachine.TestCase
TestNamespaces.settings = settings(stateful_step_count=15, max_examples=settings().max_examples // 4)
TestRocksDBNamespaces = NamespacedRocksDBMachine.TestCase
TestRocksDBNamespaces.settings = settings(stateful_step_count=15, max_examples=settings().max_examples // 8)


def test_the_machines_have_taken_their_steps() -> None:
    """Comes after them; alone it has nothing to count."""
    if set(taken) >= {"BackendMachine", "RocksDBMachine", "RocksDBFilesMachine"}:
        assert taken.total() >= 100 * settings().max_examples, taken
