"""How large state is: figures of full tables against counts by hand, and what deltas change of them."""

from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.common import Types
from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.model.key_groups import key_group_of
from penstock.model.snapshot import StateSize
from penstock.state.backend.sealed_state import SealedTables
from penstock.state.backend.table_sizes import TableSizes, column_bytes, key_text, spread
from penstock.state.format.snapshot_file import encode_files, read_snapshot
from penstock.state.format.table_rows import key_groups_of
from penstock.state.heap import hashmap_backend
from tests.state.backends import MAX_PARALLELISM, at, encoded, epoch, keyed_backend, seal, string_backend

ON_ROWS = pytest.mark.parametrize("backend_kind", ["hashmap", "rocksdb"], indirect=True)
KEYS = [f"key-{number}" for number in range(100)]


def new_sizes() -> TableSizes:
    return TableSizes((0, MAX_PARALLELISM - 1), MAX_PARALLELISM)


def measured(sizes: TableSizes, sealed: SealedTables) -> dict[str, StateSize]:
    """The sizes after the sealed tables were written."""
    for _ in encode_files([sizes.measured(sealed)]):
        continue
    return {size.name: size for size in sizes.sizes([sealed])}


def by_group(backend: Any, sizes: dict[str, int]) -> tuple[list[int], list[int]]:
    """Entries and bytes of each key group, one by one."""
    entries, total = [0] * MAX_PARALLELISM, [0] * MAX_PARALLELISM
    for key, size in sizes.items():
        group = key_group_of(backend.key_codec.hash(key), MAX_PARALLELISM)
        entries[group] += 1
        total[group] += size
    return entries, total


def fill(backend: Any, descriptor: Any, change: Callable[[Any, str], None], keys: list[str] = KEYS) -> None:
    with epoch(backend):
        handle = backend.table(descriptor)
        for key in keys:
            at(backend, key)
            change(handle, key)


VALUE = ValueStateDescriptor("value", Types.STRING())


def number(key: str) -> int:
    return int(key.removeprefix("key-"))


@ON_ROWS
def test_a_full_snapshot_gives_entries_and_bytes_of_every_key_group_exactly() -> None:
    backend = string_backend()
    fill(backend, VALUE, lambda handle, key: handle.update("ü" * number(key) + "."))
    size = measured(new_sizes(), seal(backend, 1, full=True))["value"]
    expected = {key: len(key) + 2 * number(key) + 1 for key in KEYS}
    assert (size.operator_uid, size.entries, size.size_bytes) == ("op", 100, sum(expected.values()))
    assert (size.group_entries, size.group_bytes) == by_group(backend, expected)
    assert (size.entries_exact, size.bytes_exact, size.first_key_group) == (True, True, 0)
    assert size.largest == [(f"key-{n}", expected[f"key-{n}"]) for n in range(99, 89, -1)]


@ON_ROWS
def test_lists_and_timers_of_a_full_snapshot_are_counted_exactly() -> None:
    backend = string_backend()
    with epoch(backend):
        lists, timers = backend.table(ListStateDescriptor("list", Types.LONG())), backend.timer_table("timers")
        for key in KEYS:
            at(backend, key)
            lists.add_all(range(number(key) + 1))
            timers.add(number(key), backend.keys.key)
            timers.add(1_000, backend.keys.key)
    sizes = measured(new_sizes(), seal(backend, 1, full=True))
    assert (sizes["list"].entries, sizes["timers"].entries) == (100, 200)
    assert sizes["list"].size_bytes == sum(len(key) + 8 * (number(key) + 1) for key in KEYS)
    assert sizes["timers"].size_bytes == sum(2 * (len(key) + 8) for key in KEYS)
    assert sizes["list"].largest[0] == ("key-99", 6 + 8 * 100)


@ON_ROWS
def test_a_key_of_a_map_is_as_large_as_all_its_entries() -> None:
    backend = string_backend()

    def put(handle: Any, key: str) -> None:
        for entry in range(number(key) % 20 + 1):
            handle.put(entry, "abc")

    fill(backend, MapStateDescriptor("map", Types.LONG(), Types.STRING()), put)
    size = measured(new_sizes(), seal(backend, 1, full=True))["map"]
    expected = {key: (number(key) % 20 + 1) * (len(key) + 8 + 3) for key in KEYS}
    assert size.entries == sum(number(key) % 20 + 1 for key in KEYS)
    assert size.group_bytes == by_group(backend, expected)[1]
    assert size.largest[:5] == [(f"key-{n}", expected[f"key-{n}"]) for n in (19, 39, 59, 79, 99)]
    assert [bytes_ for _, bytes_ in size.largest] == sorted(expected.values(), reverse=True)[:10]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, None], pa.int64(), [8, 8]),
        ([True, False], pa.bool_(), [1, 1]),
        ([date(2020, 1, 1)], pa.date32(), [4]),
        ([1, 2], pa.decimal128(38, 0), [16, 16]),
        (["", "ü", None], pa.string(), [0, 2, 0]),
        ([b"abc"], pa.binary(), [3]),
        ([[1, 2], [], None, [3]], pa.list_(pa.int32()), [8, 0, 0, 4]),
        ([["ab", "c"], None, [""], ["xyz"]], pa.list_(pa.string()), [3, 0, 0, 3]),
        ([[["ab"], ["c", "d"]], [[]]], pa.list_(pa.list_(pa.string())), [4, 0]),
        ([[("k", 1), ("key", 2)], [("", 3)]], pa.map_(pa.string(), pa.int16()), [8, 2]),
        ([{"a": 1, "b": "xx"}, {"a": 2, "b": "y"}], pa.struct({"a": pa.int64(), "b": pa.string()}), [10, 9]),
        ([{"a": 1}, None], pa.struct({"a": pa.int64()}), [8, 8]),
    ],
)
def test_the_bytes_of_a_value_are_those_of_its_arrow_form(values: list[Any], kind: Any, expected: list[int]) -> None:
    def found(column: pa.Array) -> list[int]:
        return list(np.broadcast_to(column_bytes(column), len(column)))

    column = pa.array(values, kind)
    assert found(column) == expected
    assert found(pa.concat_arrays([column, column]).slice(1, len(values))) == [*expected[1:], expected[0]]


def test_keys_of_any_type_are_shown_on_one_line_of_80_characters() -> None:
    backend = keyed_backend([Types.LONG(), Types.STRING()])
    with epoch(backend):
        handle = backend.table(VALUE)
        at(backend, (7, "x"))
        handle.update("")
    assert measured(new_sizes(), seal(backend, 1, full=True))["value"].largest == [("(7, 'x')", 9)]
    assert [key_text(key) for key in ("a b", "a\nb", 5, "x" * 80)] == ["a b", "'a\\nb'", "5", "x" * 80]
    assert key_text("x" * 81) == "x" * 79 + "…"
    assert key_text(1 << 100_000) == "<int>"


def test_long_keys_that_begin_alike_are_two_keys() -> None:
    backend = string_backend()
    fill(backend, VALUE, lambda handle, key: handle.update("1"), ["x" * 100 + "a", "x" * 100 + "b"])
    assert measured(new_sizes(), seal(backend, 1, full=True))["value"].largest == [("x" * 79 + "…", 102)] * 2


# ---- deltas


def test_a_delta_counts_entries_exactly_and_finds_the_keys_that_became_the_largest() -> None:
    backend, sizes = string_backend(), new_sizes()
    fill(backend, VALUE, lambda handle, key: handle.update("x" * (number(key) + 1)))
    full = measured(sizes, seal(backend, 1))["value"]
    fill(backend, VALUE, lambda handle, key: handle.update("x" * 500), ["key-3", "new-1", "new-2"])
    fill(backend, VALUE, lambda handle, key: handle.update("x"), ["key-99"])
    fill(backend, VALUE, lambda handle, key: handle.clear(), ["key-98"])
    size = measured(sizes, seal(backend, 2, base=1))["value"]
    assert (size.entries, size.entries_exact, size.bytes_exact) == (101, True, False)
    assert sum(size.group_entries) == 101
    assert size.largest[:4] == [("key-3", 505), ("new-1", 505), ("new-2", 505), ("key-97", full.largest[2][1])]
    assert "key-98" not in dict(size.largest) and "key-99" not in dict(size.largest)
    # One entry more, taken to be as large as those of the delta.
    assert full.size_bytes < size.size_bytes <= full.size_bytes + 505


def test_a_delta_of_deletes_makes_the_state_smaller() -> None:
    backend, sizes = string_backend(), new_sizes()
    fill(backend, VALUE, lambda handle, key: handle.update("x" * 10))
    full = measured(sizes, seal(backend, 1))["value"]
    fill(backend, VALUE, lambda handle, key: handle.clear(), KEYS[:40])
    size = measured(sizes, seal(backend, 2, base=1))["value"]
    left = dict.fromkeys(KEYS[40:], 1)
    assert size.entries == 60 and size.group_entries == by_group(backend, left)[0]
    assert 0.55 < size.size_bytes / full.size_bytes < 0.65


def test_a_delta_without_rows_leaves_exact_figures_exact() -> None:
    backend, sizes = string_backend(), new_sizes()
    fill(backend, VALUE, lambda handle, key: handle.update("x"))
    full = measured(sizes, seal(backend, 1))
    assert measured(sizes, seal(backend, 2, base=1)) == full


def test_the_next_full_table_is_exact_again() -> None:
    backend, sizes = string_backend(), new_sizes()
    fill(backend, VALUE, lambda handle, key: handle.update("x"))
    measured(sizes, seal(backend, 1))
    fill(backend, VALUE, lambda handle, key: handle.update("x" * 50), KEYS[:10])
    assert not measured(sizes, seal(backend, 2, base=1))["value"].bytes_exact
    assert measured(sizes, seal(backend, 3, full=True)) == measured(new_sizes(), seal(backend, 4, full=True))


def test_a_delta_of_a_map_keeps_the_largest_size_that_was_seen() -> None:
    backend, sizes = string_backend(), new_sizes()
    descriptor = MapStateDescriptor("map", Types.LONG(), Types.STRING())
    fill(backend, descriptor, lambda handle, key: handle.put_all(dict.fromkeys(range(number(key)), "x" * 10)))
    largest = measured(sizes, seal(backend, 1))["map"].largest
    fill(backend, descriptor, lambda handle, key: handle.put(1, "y"), ["key-99"])
    fill(backend, descriptor, lambda handle, key: handle.put(1, "y" * 9_000), ["key-1"])
    size = measured(sizes, seal(backend, 2, base=1))["map"]
    assert size.largest[:2] == [("key-1", 5 + 8 + 9_000), largest[0]]
    assert (size.entries, size.entries_exact) == (sum(range(100)) + 1, True)


def test_the_entries_of_a_map_with_many_keys_are_not_counted_at_a_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashmap_backend, "COUNTED_KEYS", 99)
    backend, sizes = string_backend(), new_sizes()
    descriptor = MapStateDescriptor("map", Types.LONG(), Types.STRING())
    fill(backend, descriptor, lambda handle, key: handle.put(1, "x"))
    fill(backend, VALUE, lambda handle, key: handle.update("x"))
    measured(sizes, seal(backend, 1))
    fill(backend, descriptor, lambda handle, key: handle.put(2, "x"), KEYS[:10])
    fill(backend, VALUE, lambda handle, key: handle.update("x"), ["new"])
    found = measured(sizes, seal(backend, 2, base=1))
    assert (found["map"].entries, found["map"].entries_exact) == (100, False)
    assert (found["value"].entries, found["value"].entries_exact) == (101, True)


def test_after_a_restore_a_delta_builds_on_the_figures_of_the_restored_rows() -> None:
    old = string_backend()
    fill(old, VALUE, lambda handle, key: handle.update("x" * (number(key) + 1)))
    backend, sizes = string_backend(), new_sizes()
    for info, rows in read_snapshot(encoded(old), (0, MAX_PARALLELISM - 1), MAX_PARALLELISM):
        backend.restore(info, rows)
        sizes.restored(info, rows)
    backend.start_from(1)
    fill(backend, VALUE, lambda handle, key: handle.update("x"), ["new"])
    size = measured(sizes, seal(backend, 2, base=1))["value"]
    assert (size.entries, size.entries_exact, size.bytes_exact) == (101, True, False)
    assert size.largest[0] == ("key-99", 106)
    assert size.size_bytes == sum(len(key) + number(key) + 1 for key in KEYS) + len("new") + 1


# ---- parts


def test_spread_distributes_everything() -> None:
    for total in (0, 1, 7, -7, 1_000_003):
        for weights in ([1, 1, 1], [0, 5, 1], [0, 0, 0], [1]):
            assert spread(total, np.array(weights)).sum() == total
    assert spread(100, np.array([3, 1])).tolist() == [75, 25]


@pytest.mark.parametrize("max_parallelism", [1, 2, 100, 128, 4096, 32767, 32768])
def test_key_groups_are_sparks_pmod_for_every_max_parallelism(max_parallelism: int) -> None:
    hashes = np.array([-(2**31), -129, -128, -1, 0, 1, 127, 128, 2**31 - 1], np.int32)
    table = pa.table({"key_hash": hashes})
    assert key_groups_of(table, max_parallelism).tolist() == [int(value) % max_parallelism for value in hashes]
