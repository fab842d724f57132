"""Values of many keys at once: the same state as that of one key at a time."""

from typing import Any

import pyarrow as pa

from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.row import Row
from penstock.model.time import Time
from penstock.model.ttl import StateTtlConfig
from penstock.model.type_information import TypeInformation
from penstock.model.types import Types
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.testing.conformance_state.tools import NewBackend, at, entry_count, epoch, make, restored, sealed_file

ROW = Types.ROW_NAMED(["n", "total"], [Types.LONG(), Types.DOUBLE()])


def _values(type_info: TypeInformation, *values: Any) -> pa.Array:
    return pa.array(list(values), type_info.arrow)


def _each(backend: KeyedBackend, state: Any, *keys: str) -> list[Any]:
    found = []
    for key in keys:
        at(backend, key)
        found.append(state.value())
    return found


def values_of_many_keys_are_those_of_each_key(new: NewBackend) -> None:
    backend = make(new)
    descriptor = ValueStateDescriptor("v", Types.LONG())
    many, one = backend.bulk_values(descriptor), backend.table(descriptor)
    with epoch(backend, "a"):
        one.update(1)
        assert many.get(["b", "a"]).to_pylist() == [None, 1]
        many.put(["b", "c"], _values(Types.LONG(), 2, 3))
        assert _each(backend, one, "a", "b", "c", "d") == [1, 2, 3, None]
    with epoch(backend, "b"):
        assert many.get(["a", "b", "c", "d"]).to_pylist() == [1, 2, 3, None]
        one.update(20)
        one.clear()
        many.put(["a", "d"], _values(Types.LONG(), 10, None))
        assert many.get(["d", "c", "b", "a"]).to_pylist() == [None, 3, None, 10]
    assert _each(backend, one, "a", "b", "c", "d") == [10, None, 3, None]
    assert sorted(backend.keys_with("v")) == ["a", "c"] and entry_count(backend) == 2


def the_current_key_stays_what_it_was(new: NewBackend) -> None:
    backend = make(new)
    many = backend.bulk_values(ValueStateDescriptor("v", Types.LONG()))
    with epoch(backend, "a"):
        many.put(["b"], _values(Types.LONG(), 1))
        many.get(["b", "c"])
        assert backend.keys.key == "a"


def many_values_are_undone_with_their_epoch(new: NewBackend) -> None:
    backend = make(new)
    many = backend.bulk_values(ValueStateDescriptor("v", Types.LONG()))
    with epoch(backend):
        many.put(["a", "b", "c"], _values(Types.LONG(), 1, 2, 3))
    backend.begin_epoch()
    many.put(["a", "b", "d"], _values(Types.LONG(), 10, None, 40))
    many.put(["d", "b", "a"], _values(Types.LONG(), None, 20, 11))
    many.clear(["c"])
    backend.roll_back()
    with epoch(backend):
        assert many.get(["a", "b", "c", "d"]).to_pylist() == [1, 2, 3, None]
        many.put(["d"], _values(Types.LONG(), 4))
    assert entry_count(backend) == 4


def many_removed_values_can_be_set_again(new: NewBackend) -> None:
    backend = make(new)
    many = backend.bulk_values(ValueStateDescriptor("v", Types.LONG()))
    keys = [f"key {n}" for n in range(200)]
    for start in (0, 50, 100):
        with epoch(backend):
            many.put(keys, pa.array(range(start, start + 200), pa.int64()))
        with epoch(backend):
            many.clear(keys[::2])
        with epoch(backend):
            odd = [start + n if n % 2 else None for n in range(200)]
            assert many.get(keys).to_pylist() == odd
            many.put(["another"], _values(Types.LONG(), start))
    assert entry_count(backend) == 101


def many_values_of_every_type_are_read_back(new: NewBackend) -> None:
    cases: list[tuple[TypeInformation, list[Any]]] = [
        (Types.LONG(), [2**63 - 1, -(2**63), 0]),
        (Types.INT(), [1, None, -1]),
        (Types.BOOLEAN(), [False, True, None]),
        (Types.DOUBLE(), [-0.0, float("inf"), 1.5]),
        (Types.FLOAT(), [1.5, None, -0.0]),
        (Types.STRING(), ["", None, "ü"]),
        (Types.LIST(Types.LONG()), [[1, 2], [], None]),
        (Types.TUPLE([Types.LONG(), Types.BOOLEAN()]), [(1, None), None, (None, False)]),
        (Types.TUPLE([Types.LONG(), Types.TUPLE([Types.DOUBLE()])]), [(1, (2.0,)), (2, None), (None, (None,))]),
        (ROW, [Row(n=1, total=2.0), None, Row(n=None, total=-0.0)]),
    ]
    backend = make(new)
    for number, (type_info, values) in enumerate(cases):
        descriptor = ValueStateDescriptor(f"v{number}", type_info)
        many, one = backend.bulk_values(descriptor), backend.table(descriptor)
        with epoch(backend):
            many.put(["a", "b", "c"], _arrow(type_info, values))
            assert repr(_each(backend, one, "a", "b", "c")) == repr(values), type_info.text
        with epoch(backend):
            found = many.get(["c", "a", "b"])
            assert found.type == type_info.arrow
            assert repr(found.to_pylist()) == repr(_arrow(type_info, [values[n] for n in (2, 0, 1)]).to_pylist())
            assert repr(_each(backend, one, "a", "b", "c")) == repr(values), type_info.text


def _arrow(type_info: TypeInformation, values: list[Any]) -> pa.Array:
    return pa.array([_plain(type_info, value) for value in values], type_info.arrow)


def _plain(type_info: TypeInformation, value: Any) -> Any:
    """Rows and tuples as Arrow takes them."""
    if value is None or type_info.name not in ("ROW", "TUPLE"):
        return value
    fields = zip(type_info.arrow, type_info.children, value, strict=True)
    return {field.name: _plain(child, part) for field, child, part in fields}


def many_values_move_through_snapshots(new: NewBackend) -> None:
    descriptor = ValueStateDescriptor("v", ROW)
    keys = [f"key {n}" for n in range(50)]
    backend = make(new)
    many = backend.bulk_values(descriptor)
    with epoch(backend):
        many.put(keys, _arrow(ROW, [Row(n=n, total=n / 2) for n in range(50)]))
        many.clear(keys[:5])
    file = sealed_file(backend)
    for in_bulk in (True, False):
        found = {}
        for part in restored(new, [file], parallelism=3):
            if in_bulk:
                part.bulk_values(descriptor)
            one = part.table(descriptor)
            for key in part.keys_with("v"):
                part.keys.key = key
                found[key] = one.value()
            assert sealed_file(part) == sealed_file(part)
        assert found == {f"key {n}": Row(n=n, total=n / 2) for n in range(5, 50)}


def many_values_of_another_snapshot_are_read(new: NewBackend) -> None:
    """A state of one key at a time becomes one of many keys, and the snapshots of both have the same rows."""
    descriptor = ValueStateDescriptor("v", ROW)
    backend = make(new)
    one = backend.table(descriptor)
    with epoch(backend):
        for n in range(20):
            at(backend, f"key {n}")
            one.update(Row(n=n, total=None))
    (other,) = restored(new, [sealed_file(backend)])
    many = other.bulk_values(descriptor)
    with epoch(other):
        assert many.get(["key 3", "none"]).to_pylist() == [{"n": 3, "total": None}, None]
    assert entry_count(other) == 20


def many_namespaces_are_addressed_by_pairs(new: NewBackend) -> None:
    backend = make(new)
    namespace = Types.TUPLE([Types.LONG(), Types.LONG()])
    descriptor = ValueStateDescriptor("v", Types.LONG())
    many, one = backend.bulk_values(descriptor, namespace), backend.table(descriptor, namespace)
    with epoch(backend, "a"):
        many.put([("a", (0, 10)), ("b", (0, 10)), ("a", (10, 20))], _values(Types.LONG(), 1, 2, 3))
        backend.set_current_namespace((10, 20))
        assert one.value() == 3
    with epoch(backend, "a"):
        found = many.get([("a", (0, 10)), ("b", (10, 20)), ("b", (0, 10))])
        assert found.to_pylist() == [1, None, 2]
        assert sorted(backend.namespaces_with("v")) == [(0, 10), (10, 20)]


def many_values_expire_as_one_does(new: NewBackend) -> None:
    backend = make(new)
    ttl = StateTtlConfig.new_builder(Time.milliseconds(100)).build()
    descriptor = ValueStateDescriptor("v", Types.LONG())
    descriptor.enable_time_to_live(ttl)
    many, one = backend.bulk_values(descriptor), backend.table(descriptor)
    backend.ttl.clock.now_ms = 1_000
    with epoch(backend):
        many.put(["a", "b"], _values(Types.LONG(), 1, 2))
    backend.ttl.clock.now_ms = 1_050
    with epoch(backend, "a"):
        assert many.get(["a", "b", "c"]).to_pylist() == [1, 2, None]
        one.update(3)
        many.put(["c"], _values(Types.LONG(), 4))
    backend.ttl.clock.now_ms = 1_100
    backend.begin_epoch()
    assert many.get(["a", "b", "c"]).to_pylist() == [3, None, 4]
    backend.roll_back()
    with epoch(backend, "b"):
        assert many.get(["a", "b", "c"]).to_pylist() == [3, None, 4]
        assert one.value() is None
    backend.ttl.clock.now_ms = 1_150
    with epoch(backend, "b"):
        assert many.get(["a", "b", "c"]).to_pylist() == [None, None, None]
    assert entry_count(backend) == 0


def many_values_that_are_read_live_longer_if_asked(new: NewBackend) -> None:
    backend = make(new)
    ttl = StateTtlConfig.new_builder(Time.milliseconds(100)).update_ttl_on_read_and_write().build()
    descriptor = ValueStateDescriptor("v", ROW)
    descriptor.enable_time_to_live(ttl)
    many = backend.bulk_values(descriptor)
    backend.ttl.clock.now_ms = 1_000
    with epoch(backend):
        many.put(["a", "b"], _arrow(ROW, [Row(n=1, total=None), Row(n=2, total=2.0)]))
    backend.ttl.clock.now_ms = 1_050
    with epoch(backend):
        many.get(["a", "c"])
    backend.ttl.clock.now_ms = 1_100
    with epoch(backend):
        assert many.get(["a", "b"]).to_pylist() == [{"n": 1, "total": None}, None]


def many_keys_of_a_namespace_are_one_group(new: NewBackend) -> None:
    backend = make(new)
    namespace = Types.TUPLE([Types.LONG(), Types.LONG()])
    descriptor = ValueStateDescriptor("v", ROW)
    windows, one = backend.namespace_values(descriptor, namespace), backend.table(descriptor, namespace)
    rows = [Row(n=n, total=None) for n in range(3)]
    with epoch(backend):
        windows.put((0, 10), ["a", "b", "c"], _arrow(ROW, rows))
        windows.put((10, 20), ["a"], _arrow(ROW, rows[:1]))
        assert windows.get((0, 10), ["c", "d"]).to_pylist() == [{"n": 2, "total": None}, None]
        assert windows.get((20, 30), ["c"]).to_pylist() == [None]
    assert sorted(windows.namespaces()) == [(0, 10), (10, 20)]
    backend.begin_epoch()
    windows.put((0, 10), ["a", "d"], _arrow(ROW, [None, rows[0]]))
    windows.remove((0, 10), windows.entries((0, 10))[0])
    windows.put((0, 10), ["e"], _arrow(ROW, rows[:1]))
    windows.remove((10, 20), ["a"])
    assert windows.namespaces() == [(0, 10)] and windows.entries((10, 20))[0] == []
    backend.roll_back()
    with epoch(backend, "b"):
        keys, values = windows.entries((0, 10))
        assert sorted(zip(keys, values.field(0).to_pylist(), strict=True)) == [("a", 0), ("b", 1), ("c", 2)]
        backend.set_current_namespace((0, 10))
        assert one.value() == rows[1]
        windows.remove((0, 10), keys)
        assert one.value() is None
        windows.put((0, 10), ["b"], _arrow(ROW, rows[2:]))
    assert entry_count(backend) == 2
    (other,) = restored(new, [sealed_file(backend)])
    again = other.namespace_values(descriptor, namespace)
    assert sorted(again.namespaces()) == [(0, 10), (10, 20)]
    with epoch(other):
        assert again.entries((0, 10))[1].to_pylist() == [{"n": 2, "total": None}]
