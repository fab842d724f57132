"""States in columns: queries beside a running epoch, snapshots, and which states are kept so."""

import sys
import threading
from typing import Any

import pyarrow as pa
import pytest

from penstock.model.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from penstock.model.time import Time
from penstock.model.ttl import StateTtlConfig
from penstock.model.types import Types
from penstock.state.format.table_rows import Rows
from penstock.state.heap.column_table import ColumnTable
from penstock.state.heap.heap_tables import ValueTable
from penstock.state.heap.namespace_table import NamespaceTable
from tests.state.backends import at, encoded, epoch, hashmap_backend, seal, seal_data, string_backend

PAIR = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
WINDOW = Types.TUPLE([Types.LONG(), Types.LONG()])
KEYS = [f"k{number}" for number in range(20)]
MORE = [f"more {number}" for number in range(300)]


def pairs(*values: Any) -> pa.Array:
    return pa.array([None if value is None else {"f0": value, "f1": value / 2} for value in values], PAIR.arrow)


def test_only_states_of_fixed_width_that_batches_access_are_columns() -> None:
    backend = hashmap_backend()
    cases = [
        (Types.LONG(), True),
        (PAIR, True),
        (Types.ROW_NAMED(["a", "b"], [Types.BOOLEAN(), Types.FLOAT()]), True),
        (Types.STRING(), False),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), False),
        (Types.LIST(Types.LONG()), False),
        (Types.SQL_TIMESTAMP(), False),
    ]
    for number, (type_info, is_columns) in enumerate(cases):
        descriptor = ValueStateDescriptor(f"v{number}", type_info)
        backend.bulk_values(descriptor)
        assert isinstance(backend._tables[descriptor.name], ColumnTable if is_columns else ValueTable)
    backend.table(ValueStateDescriptor("one at a time", Types.LONG()))
    backend.table(ReducingStateDescriptor("reducing", max, Types.LONG()))
    assert {type(backend._tables[name]) for name in ("one at a time", "reducing")} == {ValueTable}
    backend.namespace_values(ValueStateDescriptor("windows", PAIR), WINDOW)
    assert isinstance(backend._tables["windows"], NamespaceTable)


@pytest.mark.parametrize("kind", ["columns", "windows"])
def test_a_reader_never_sees_a_change_of_the_running_epoch(kind: str) -> None:
    """The writer changes, adds and removes keys over and over; what the reader gets is always from before the epoch."""
    backend = string_backend()
    window = (0, 10)
    if kind == "columns":
        many = backend.bulk_values(ValueStateDescriptor("s", PAIR))
        put: Any = many.put
        addresses: list[Any] = list(KEYS)
    else:
        windows = backend.namespace_values(ValueStateDescriptor("s", PAIR), WINDOW)

        def put(keys: list[str], values: pa.Array) -> None:
            if values.null_count == len(values):
                windows.remove(window, windows.entries(window)[0])
            else:
                windows.put(window, keys, values)

        addresses = [(key, window) for key in KEYS]
    with epoch(backend):
        put(KEYS[:10], pairs(*[7] * 10))
    wrong: list[Any] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            found = backend.read_live("s", addresses, before=True)
            listed = backend.list_live("s", 400, before=True)
            if found != [(7, 3.5)] * 10 + [None] * 10 or sorted(listed) != addresses[:10]:
                wrong.append((found, listed))
                return

    backend.begin_epoch()
    reader = threading.Thread(target=read)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        reader.start()
        for number in range(300):
            put(KEYS, pairs(*range(number, number + 20)))
            put(MORE[:number], pairs(*range(number)))
            if number % 3 == 0:
                put(KEYS, pairs(*[None] * 20))
    finally:
        sys.setswitchinterval(interval)
        done.set()
        reader.join()
    backend.roll_back()
    assert wrong == []
    assert sorted(backend.list_live("s", 400, before=False)) == addresses[:10]


def test_a_delta_has_the_keys_that_changed() -> None:
    backend = hashmap_backend()
    many = backend.bulk_values(ValueStateDescriptor("s", PAIR))
    with epoch(backend):
        many.put([*KEYS, *MORE], pairs(*range(320)))
    full = seal(backend, 1, full=True)
    with epoch(backend):
        many.put(KEYS[:3], pairs(100, None, 102))
    with epoch(backend):  # the slot of a removed key is taken by another one
        many.put(["new"], pairs(5))
    (table,) = seal(backend, 2, 1).tables
    assert not table.full and table.entries == 320
    rows = table.rows()
    assert dict(zip(rows.keys, rows.deleted, strict=True)) == {"k0": False, "k1": True, "k2": False, "new": False}
    with epoch(backend):
        many.put(KEYS, pairs(*[None] * 20))
    assert rows.values.to_pylist()[0] == {"f0": 100, "f1": 50.0} and len(seal_data(full)) > 0


def test_snapshots_of_both_kinds_of_tables_have_the_same_bytes() -> None:
    columns, objects = hashmap_backend(), hashmap_backend()
    many, one = columns.bulk_values(ValueStateDescriptor("s", PAIR)), objects.table(ValueStateDescriptor("s", PAIR))
    with epoch(columns):
        many.put(MORE, pairs(*range(299), None))
    with epoch(objects):
        for number, key in enumerate(MORE[:-1]):
            at(objects, key)
            one.update((number, number / 2))
    assert encoded(columns) == encoded(objects)


def test_a_full_snapshot_leaves_out_what_has_expired() -> None:
    backend = hashmap_backend()
    descriptor = ValueStateDescriptor("s", Types.LONG())
    ttl = StateTtlConfig.new_builder(Time.milliseconds(100)).cleanup_full_snapshot().build()
    descriptor.enable_time_to_live(ttl)
    many = backend.bulk_values(descriptor)
    backend.ttl.clock.now_ms = 1_000
    with epoch(backend):
        many.put(["old"], pa.array([1]))
    backend.ttl.clock.now_ms = 1_050
    with epoch(backend):
        many.put(["young"], pa.array([2]))
    backend.ttl.clock.now_ms = 1_120
    (table,) = backend.seal_all(1).tables
    rows = table.rows()
    assert isinstance(rows, Rows) and rows.keys == ["young"]


def test_slots_are_used_again() -> None:
    backend = hashmap_backend()
    many = backend.bulk_values(ValueStateDescriptor("s", Types.LONG()))
    for start in range(0, 1_000, 10):
        with epoch(backend):
            many.put([f"k{start + n}" for n in range(10)], pa.array(range(10)))
            many.clear([f"k{start + n - 10}" for n in range(10)])
    assert len(backend._tables["s"]._keys) <= 20 and backend._tables["s"].entry_count() == 10
