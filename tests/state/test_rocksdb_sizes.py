"""How large state in RocksDB is, from its own figures: exact where every row was written once, else within bounds."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Types
from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.model.key_groups import key_group_of
from penstock.model.snapshot import StateSize
from penstock.state.rocksdb.largest_rows import LargestRows
from tests.state import backends
from tests.state.backends import MAX_PARALLELISM, at, epoch, seal, string_backend

KEYS = [f"key-{number}" for number in range(1000)]
VALUE = ValueStateDescriptor("value", Types.STRING())


@pytest.fixture
def backend(backend_kind: str) -> Iterator[Any]:
    backends.choose("rocksdb files")
    opened = string_backend()
    yield opened
    opened.close()


def put(backend: Any, values: dict[str, str | None], descriptor: ValueStateDescriptor = VALUE) -> None:
    with epoch(backend):
        handle = backend.table(descriptor)
        for key, value in values.items():
            at(backend, key)
            handle.update(value)


def sealed_sizes(backend: Any, checkpoint_id: int) -> dict[str, StateSize]:
    return {size.name: size for size in seal(backend, checkpoint_id).sizes()}


def test_rows_that_were_written_once_are_counted_exactly_per_state(backend: Any) -> None:
    put(backend, dict.fromkeys(KEYS, "x" * 100))
    put(backend, dict.fromkeys(KEYS[:10], "y"), ValueStateDescriptor("other", Types.STRING()))
    with epoch(backend):
        entries = backend.table(MapStateDescriptor("map", Types.STRING(), Types.STRING()))
        timers = backend.timer_table("timers")
        for key in KEYS[:50]:
            at(backend, key)
            entries.put_all({"a": "1", "b": "2"})
            timers.add(5, backend.keys.key)
    sealed = seal(backend, 1)
    found = {size.name: size for size in sealed.sizes()}
    assert {name: size.entries for name, size in found.items()} == {
        "value": 1000,
        "other": 10,
        "map": 100,
        "timers": 50,
    }
    files = [path.stat().st_size for path in sealed.store.__self__._folder.glob("*.sst")]
    assert sum(size.size_bytes for size in found.values()) == sum(files)
    assert not any(size.entries_exact or size.bytes_exact for size in found.values())
    assert all(size.on_disk for size in found.values())


def test_figures_of_files_are_spread_over_the_key_groups_that_they_cover(backend: Any) -> None:
    groups = {key: key_group_of(backend.key_codec.hash(key), MAX_PARALLELISM) for key in KEYS}
    put(backend, dict.fromkeys(KEYS, "x"))
    size = sealed_sizes(backend, 1)["value"]
    assert sum(size.group_entries) == 1000 and sum(size.group_bytes) == size.size_bytes
    assert all(1000 // MAX_PARALLELISM <= count <= 1000 // MAX_PARALLELISM + 8 for count in size.group_entries)
    only = [key for key, group in groups.items() if group == 3]
    put(backend, dict.fromkeys(only, "x"), ValueStateDescriptor("three", Types.STRING()))
    three = sealed_sizes(backend, 2)["three"]
    assert three.group_entries == [len(only) if group == 3 else 0 for group in range(MAX_PARALLELISM)]
    assert three.group_bytes[3] == three.size_bytes


def test_rows_that_were_written_again_count_again_until_they_are_compacted(backend: Any) -> None:
    put(backend, dict.fromkeys(KEYS, "x"))
    sealed_sizes(backend, 1)
    put(backend, dict.fromkeys(KEYS[:300], "y"))
    assert 1000 <= sealed_sizes(backend, 2)["value"].entries <= 1300
    backend.compact("value")
    assert sealed_sizes(backend, 3)["value"].entries == 1000


def test_deleted_rows_do_not_count(backend: Any) -> None:
    put(backend, dict.fromkeys(KEYS, "x"))
    sealed_sizes(backend, 1)
    put(backend, dict.fromkeys(KEYS[:900]))
    size = sealed_sizes(backend, 2)["value"]
    assert size.entries == 100 and min(size.group_entries) >= 0
    backend.compact("value")
    assert sealed_sizes(backend, 3)["value"].entries == 100


def test_the_largest_rows_are_known_and_follow_changes(backend: Any) -> None:
    put(backend, {key: "x" * int(key[4:]) for key in KEYS})
    largest = sealed_sizes(backend, 1)["value"].largest
    assert [key for key, _ in largest] == [f"key-{n}" for n in range(999, 989, -1)]
    assert 999 < largest[0][1] < 999 + 30
    put(backend, {"key-999": "x", "key-998": None, "key-1": "x" * 5_000})
    found = sealed_sizes(backend, 2)["value"].largest
    assert [key for key, _ in found[:3]] == ["key-1", "key-997", "key-996"]
    assert "key-998" not in dict(found)


def test_large_rows_of_one_key_are_one_key(backend: Any) -> None:
    with epoch(backend):
        entries = backend.table(MapStateDescriptor("map", Types.STRING(), Types.STRING()))
        lists = backend.table(ListStateDescriptor("list", Types.STRING()))
        for key in KEYS[:20]:
            at(backend, key)
            entries.put_all({"a": "x" * 50, "b": "x" * 60})
            lists.add("x" * 70)
        at(backend, "big")
        entries.put_all({"a": "x" * 500, "b": "x" * 600})
    found = sealed_sizes(backend, 1)
    key, size_bytes = found["map"].largest[0]
    assert key == "big" and 1100 < size_bytes < 1160
    assert len(found["list"].largest) == 10


def test_a_compaction_between_two_listings_of_the_files_makes_no_state_smaller(backend: Any) -> None:
    for value in ("x", "y"):
        put(backend, dict.fromkeys(KEYS, value))
        sealed_sizes(backend, 1 if value == "x" else 2)
    listings: list[int] = []

    def live_files() -> list[Any]:
        files = backend.store.live_files()
        listings.append(len(files))
        if len(listings) == 1:
            backend.compact("value")
        return list(files)

    states = [(backend._infos["value"], backend._tables["value"].family)]
    (size,) = backend._sizes.seal(live_files, states)()
    assert len(listings) == 2 and size.entries == 1000


def test_no_row_that_was_written_is_larger_than_those_kept() -> None:
    largest = LargestRows()
    for size in (5, 900, 3, *range(100, 140), 7):
        row = str(size).encode()
        if size > largest.floor or row in largest.rows:
            largest.note(row, size)
    assert sorted(largest.rows.values()) == [*range(131, 140), 900] and largest.floor == 131
    largest.drop(b"900")
    assert largest.floor == -1
