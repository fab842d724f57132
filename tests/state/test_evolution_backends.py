"""Schema evolution in both backends: restored rows read as the new type says, and are saved so (features O11, O12)."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import IncompatibleStateError, StateBackendError
from penstock.model.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.model.ids import CheckpointId
from penstock.model.row import Row
from penstock.model.time import Time
from penstock.model.type_information import TypeInformation
from penstock.model.types import Types
from penstock.state.format.snapshot_file import encode_snapshot, read_chain
from tests.codec.strategies import values_of
from tests.state.backends import MAX_PARALLELISM, at, seal
from tests.state.evolving import EVOLVING, evolutions, evolved_value, exact
from tests.state.ttl import T0, TTL, World, on_every_backend, read

ALL = (0, MAX_PARALLELISM - 1)
KINDS = ("value", "list", "map", "reducing")
every_kind = pytest.mark.parametrize("kind", KINDS)
OLD, NEW = "n int, gone string", "country string, n bigint"


def state(kind: str, type_info: Any, *, ttl: bool = False) -> StateDescriptor:
    made: dict[str, Callable[[], StateDescriptor]] = {
        "value": lambda: ValueStateDescriptor("state", type_info),
        "list": lambda: ListStateDescriptor("state", type_info),
        "map": lambda: MapStateDescriptor("state", Types.STRING(), type_info),
        "reducing": lambda: ReducingStateDescriptor("state", lambda a, b: b, type_info),
    }
    descriptor = made[kind]()
    if ttl:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(TTL)).build())
    return descriptor


def put(world: World, key: str, value: Any) -> None:
    handle = world.at(key)
    if hasattr(handle, "put"):
        handle.put("m", value)
    elif hasattr(handle, "add"):
        handle.add(value)
    else:
        handle.update(value)


def filled(backend: str, descriptor: StateDescriptor, entries: dict[str, Any]) -> World:
    world = World(backend, descriptor)
    with world.epoch(T0):
        for key, value in entries.items():
            put(world, key, value)
    return world


def content(world: World, keys: Sequence[str]) -> dict[str, Any]:
    return {key: entries_of(world.at(key)) for key in keys}


def entries_of(handle: Any) -> list[Any]:
    if hasattr(handle, "items"):
        return [value for _, value in handle.items()]
    if hasattr(handle, "add_all"):
        return list(handle.get())
    found = handle.value() if hasattr(handle, "value") else handle.get()
    return [] if found is None else [found]


@on_every_backend
@every_kind
@pytest.mark.parametrize("ttl", ["never", "always", "added", "removed"])
def test_o11_a_row_gains_loses_and_widens_fields(backend: str, kind: str, ttl: str) -> None:
    before, after = ttl in ("always", "removed"), ttl in ("always", "added")
    old = filled(backend, state(kind, OLD, ttl=before), {f"k{n}": Row(n=n, gone="x") for n in range(100)})
    new = old.moved([old.file()], state(kind, NEW, ttl=after))
    expected = {f"k{n}": [(None, n)] for n in range(100)}
    with new.epoch(T0 + 1):
        assert content(new, list(expected)) == expected
        assert read(new.at("k1"))[0].country is None
        put(new, "k1", Row(country="fr", n=1 << 40))
    again = new.moved([new.file()], state(kind, NEW, ttl=after))
    found = read(again.at("k1"))
    assert found[-1] == ("fr", 1 << 40) and len(found) == (2 if kind == "list" else 1)
    assert content(again, ["k2"]) == {"k2": [(None, 2)]}


@on_every_backend
def test_o11_stamps_stay_with_their_entries(backend: str) -> None:
    old = filled(backend, state("value", "int", ttl=True), {"a": 1})
    new = old.moved([old.file()], state("value", "bigint", ttl=True))
    with new.epoch(T0 + TTL - 1):
        assert read(new.at("a")) == [1]
    with new.epoch(T0 + TTL):
        assert read(new.at("a")) == []


@on_every_backend
def test_o11_the_next_checkpoint_holds_the_new_type_and_stands_alone(backend: str) -> None:
    """A delta on top of files of the old type would be read with two types."""
    old = filled(backend, state("value", OLD), {f"k{n}": Row(n=n, gone="") for n in range(30)})
    full = old.file(1)
    new = old.moved([full])
    new.backend.start_from(CheckpointId(1))
    new.use(state("value", NEW))
    with new.epoch(T0):
        put(new, "k0", Row(country="de", n=5))
    delta = encode_snapshot([seal(new.backend, 2, 1)])
    ((info, rows),) = read_chain([full, delta], ALL, MAX_PARALLELISM)
    assert info.value_type == 'ROW<"country" STRING, "n" LONG>' and len(rows) == 30
    with new.epoch(T0):
        put(new, "k1", Row(country="it", n=6))
    third = encode_snapshot([seal(new.backend, 3, 2)])
    recovered = new.moved([full, delta, third], state("value", NEW))
    assert content(recovered, ["k0", "k1", "k2"]) == {"k0": [("de", 5)], "k1": [("it", 6)], "k2": [(None, 2)]}


@on_every_backend
@every_kind
def test_o11_deltas_and_deletes_of_the_old_type_are_read(backend: str, kind: str) -> None:
    old = filled(backend, state(kind, "int"), {f"k{n}": n for n in range(5)})
    full = old.file(1)
    with old.epoch(T0):
        old.at("k0").clear()
        old.at("k1").clear()
        put(old, "k1", 11)
    new = old.moved([full, old.file(2, base=1)], state(kind, "bigint"))
    assert content(new, ["k0", "k1", "k2"]) == {"k0": [], "k1": [11], "k2": [2]}


@on_every_backend
@every_kind
def test_o11_parts_of_several_versions_are_merged_in_one_subtask(backend: str, kind: str) -> None:
    """Some old subtasks had changed the state, others had not declared it yet; then the job is rescaled."""
    first = filled(backend, state(kind, "a int, b int"), {"x": Row(a=1, b=2)})
    second = filled(backend, state(kind, "c string, a bigint", ttl=True), {"y": Row(c="c", a=1 << 40)})
    third = filled(backend, state(kind, "a smallint"), {"z": Row(a=3)})
    for order in ([first, second, third], [third, second, first], [second, first, third]):
        merged = World(backend)
        for world in order:
            for info, rows in read_chain([world.file()], ALL, MAX_PARALLELISM):
                merged.backend.restore(info, rows)
        carried = merged.moved([merged.file()])  # undeclared, nothing of it is lost
        for world in (merged, carried):
            world.use(state(kind, "a bigint, b int, c string"))
            assert content(world, ["x", "y", "z"]) == {
                "x": [(1, 2, None)],
                "y": [(1 << 40, None, "c")],
                "z": [(3, None, None)],
            }


@every_kind
def test_o11_rows_written_during_the_scan_are_not_read_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """RocksDB rewrites the rows of a state in many batches while it reads them."""
    monkeypatch.setattr("penstock.state.rocksdb.rocksdb_rows.BATCH_ROWS", 7)
    old = filled("rocksdb", state(kind, "int"), {f"k{n}": n for n in range(500)})
    seen: list[int] = []

    def change(number: int) -> str:
        seen.append(number)
        return str(number)

    new = old.moved([old.file()], migrating(state(kind, "string"), change))
    assert sorted(seen) == list(range(500)) and new.stored() == 500
    assert content(new, ["k0", "k499"]) == {"k0": ["0"], "k499": ["499"]}


@on_every_backend
def test_o11_incompatible_versions_are_refused_before_anything_is_read(backend: str) -> None:
    first, second = (
        filled(backend, state("value", "int"), {"x": 1}),
        filled(backend, state("value", "string"), {"y": ""}),
    )
    merged = World(backend)
    with pytest.raises(IncompatibleStateError, match="parts of it were saved with types that do not fit together"):
        for world in (first, second):
            for info, rows in read_chain([world.file()], ALL, MAX_PARALLELISM):
                merged.backend.restore(info, rows)


@on_every_backend
@pytest.mark.parametrize(
    "declared",
    [
        state("value", "string"),
        state("map", "int"),
        state("list", "int"),
        state("reducing", "int"),
        state("value", "smallint"),
        state("value", "float", ttl=True),
    ],
    ids=str,
)
def test_o12_another_schema_is_refused_and_nothing_is_changed(backend: str, declared: StateDescriptor) -> None:
    old = filled(backend, state("value", "int"), {"a": 1})
    new = old.moved([old.file()])
    with pytest.raises(IncompatibleStateError, match="^INCOMPATIBLE_STATE name='state' was='value state of INT' now="):
        new.use(declared)
    new.use(state("value", "int"))
    assert read(new.at("a")) == [1]


@on_every_backend
def test_o12_the_type_of_map_keys_stays(backend: str) -> None:
    old = World(backend, MapStateDescriptor("state", Types.INT(), Types.INT()))
    with old.epoch(T0):
        old.at("a").put(1, 1)
    with pytest.raises(IncompatibleStateError, match="the keys of the map change from INT to LONG"):
        old.moved([old.file()], MapStateDescriptor("state", Types.LONG(), Types.INT()))


@given(st.data())
@settings(deadline=None)
def test_o11_any_type_evolves_as_the_model_says(data: st.DataObject) -> None:
    backend = data.draw(st.sampled_from(["hashmap", "rocksdb"]))
    kind = data.draw(st.sampled_from(KINDS))
    old_type: TypeInformation = data.draw(EVOLVING)
    new_type: TypeInformation = data.draw(evolutions(old_type))
    before, after = data.draw(st.booleans()), data.draw(st.booleans())
    keys = ["a", "b", "c"]
    entries = {key: data.draw(values_of(old_type)) for key in data.draw(st.lists(st.sampled_from(keys), unique=True))}
    old = filled(backend, state(kind, old_type, ttl=before), entries)
    full = old.file(1)
    deleted = data.draw(st.lists(st.sampled_from(keys), unique=True))
    with old.epoch(T0):
        for key in deleted:
            old.at(key).clear()
            entries.pop(key, None)
    new = old.moved([full, old.file(2, base=1)], state(kind, new_type, ttl=after))
    expected = {key: [evolved_value(entries[key], old_type, new_type)] if key in entries else [] for key in keys}
    assert exact(content(new, keys)) == exact(expected)
    again = new.moved([new.file()], state(kind, new_type, ttl=after))
    assert exact(content(again, keys)) == exact(expected)
    for world in (old, new, again):
        world.backend.close()


@given(st.data())
@settings(deadline=None)
def test_o11_old_subtasks_of_several_versions_and_deltas_are_merged_as_in_the_model(data: st.DataObject) -> None:
    """Each old subtask has its own type, time to live, full file and deltas; the new program has yet another type."""
    backend = data.draw(st.sampled_from(["hashmap", "rocksdb"]))
    kind = data.draw(st.sampled_from(KINDS))
    first_type: TypeInformation = data.draw(EVOLVING)
    new_type: TypeInformation = data.draw(evolutions(first_type))
    expected: dict[str, Any] = {}
    merged = World(backend)
    worlds = [merged]
    for number in range(data.draw(st.integers(1, 3))):
        old_type = data.draw(st.sampled_from([first_type, new_type]))
        keys = [f"{number} {letter}" for letter in "abc"]
        old = World(backend, state(kind, old_type, ttl=data.draw(st.booleans())))
        worlds.append(old)
        files: list[bytes] = []
        for checkpoint in range(1, data.draw(st.integers(1, 3)) + 1):
            with old.epoch(T0):
                for key in data.draw(st.lists(st.sampled_from(keys), unique=True)):
                    old.at(key).clear()
                    expected.pop(key, None)
                    if data.draw(st.booleans()):
                        value = data.draw(values_of(old_type))
                        put(old, key, value)
                        expected[key] = evolved_value(value, old_type, new_type)
            files.append(old.file(checkpoint, base=checkpoint - 1 or None))
        for info, rows in read_chain(files, ALL, MAX_PARALLELISM):
            merged.backend.restore(info, rows)
    after = data.draw(st.booleans())
    everything = [f"{number} {letter}" for number in range(3) for letter in "abc"]
    carried = merged.moved([merged.file()], state(kind, new_type, ttl=after))
    merged.use(state(kind, new_type, ttl=after))
    shown = exact({key: [expected[key]] if key in expected else [] for key in everything})
    for world in (merged, carried):
        assert exact(content(world, everything)) == shown
    for world in (*worlds, carried):
        world.backend.close()


# ---- the user's function


def migrating(descriptor: StateDescriptor, function: Callable[[Any], Any], **options: Any) -> StateDescriptor:
    descriptor.migrate(function, **options)
    return descriptor


@on_every_backend
@every_kind
@pytest.mark.parametrize(("before", "after"), [(False, False), (True, True), (False, True), (True, False)])
def test_o11_migrate_is_called_once_for_each_entry(backend: str, kind: str, before: bool, after: bool) -> None:
    old = filled(backend, state(kind, "int", ttl=before), {f"k{n}": n for n in range(50)})
    full = old.file(1)
    with old.epoch(T0):
        old.at("k1").clear()
        put(old, "k1", 100)
        old.at("k2").clear()
    seen: list[int] = []

    def change(value: int) -> str:
        seen.append(value)
        return f"n={value}"

    new = old.moved([full, old.file(2, base=1)], migrating(state(kind, "string", ttl=after), change))
    assert content(new, ["k0", "k1", "k2"]) == {"k0": ["n=0"], "k1": ["n=100"], "k2": []}
    assert sorted(seen) == [0, *range(3, 50), 100]
    again = new.moved([new.file()], migrating(state(kind, "string", ttl=after), change))
    assert content(again, ["k0", "k1", "k2"]) == {"k0": ["n=0"], "k1": ["n=100"], "k2": []}
    assert len(seen) == 49  # the types are the same now


@on_every_backend
@every_kind
def test_o11_entries_that_migrate_drops_are_removed(backend: str, kind: str) -> None:
    old = filled(backend, state(kind, "int"), {"even": 2, "odd": 3})
    new = old.moved([old.file()], migrating(state(kind, "string"), lambda n: None if n % 2 else str(n)))
    assert content(new, ["even", "odd"]) == {"even": ["2"], "odd": []}
    assert new.stored() == 1


@on_every_backend
def test_o11_elements_of_a_list_are_migrated_and_dropped_one_by_one(backend: str) -> None:
    old = World(backend, state("list", "int", ttl=True))
    with old.epoch(T0):
        old.at("a").add_all([1, 2, 3])
    new = old.moved([old.file()], migrating(state("list", "string", ttl=True), lambda n: None if n == 2 else str(n)))
    assert read(new.at("a")) == ["1", "3"]
    with new.epoch(T0 + TTL):
        assert read(new.at("a")) == []


@on_every_backend
def test_o11_a_none_in_a_map_stays(backend: str) -> None:
    old = World(backend, state("map", "int"))
    with old.epoch(T0):
        old.at("a").put_all({"x": None, "y": 1})
    new = old.moved([old.file()], migrating(state("map", "string"), str))
    assert dict(new.at("a").items()) == {"x": None, "y": "1"}


@on_every_backend
def test_o11_a_value_becomes_an_accumulator(backend: str) -> None:
    old = filled(backend, state("value", "int"), {"a": 4})
    new = old.moved([old.file()], migrating(state("reducing", "sum int, n int"), lambda n: Row(sum=n, n=1)))
    assert read(new.at("a")) == [(4, 1)]


@on_every_backend
def test_o11_untyped_values_get_a_type(backend: str) -> None:
    old = filled(backend, state("value", None), {"a": (1, "x")})
    new = old.moved([old.file()], migrating(state("value", "n int, s string"), lambda pair: Row(n=pair[0], s=pair[1])))
    assert read(new.at("a")) == [(1, "x")]


@on_every_backend
def test_pickles_are_loaded_only_where_migrate_says_so(backend: str) -> None:
    old = filled(backend, state("value", Types.PICKLED_BYTE_ARRAY()), {"a": {1, 2}})
    new = old.moved([old.file()])
    with pytest.raises(IncompatibleStateError, match="migrate reads only with from_pickle=True"):
        new.use(migrating(state("value", "int"), len))
    new.use(migrating(state("value", "int"), len, from_pickle=True))
    assert read(new.at("a")) == [2]


@on_every_backend
def test_an_error_in_migrate_names_state_operator_and_key_and_leaves_nothing_half_done(backend: str) -> None:
    old = filled(backend, state("value", "int"), {f"k{n}": n for n in range(5)})
    new = old.moved([old.file()])
    with pytest.raises(Exception, match=r"division by zero(?s:.*)in operator 'op', in the migrate .* 'state' at 'k0'"):
        new.use(migrating(state("value", "string"), lambda n: str(1 / n)))
    with pytest.raises(Exception, match=r"migrate function of state 'state' at 'k\d' of operator 'op': value"):
        old.moved([old.file()], migrating(state("value", "string"), lambda n: n))
    if backend == "rocksdb":  # rows may be of two types
        with pytest.raises(StateBackendError, match="'state' of operator 'op' could not be converted"):
            new.file()
    else:
        at(new.backend, "k1")
        new.use(state("value", "int"))
        assert content(new, ["k0", "k4"]) == {"k0": [0], "k4": [4]}


@on_every_backend
def test_rows_restored_after_the_state_was_declared_are_converted_too(backend: str) -> None:
    old = filled(backend, state("value", "int"), {"a": 4})
    wide, text = World(backend, state("value", "bigint")), World(backend, migrating(state("value", "string"), str))
    for info, rows in read_chain([old.file()], ALL, MAX_PARALLELISM):
        wide.backend.restore(info, rows)
        text.backend.restore(info, rows)
    assert (read(wide.at("a")), read(text.at("a"))) == ([4], ["4"])
