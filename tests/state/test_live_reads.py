"""What queries see of stored values, and reads beside a running epoch."""

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.errors import UnsupportedValueError
from penstock.model.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.model.time import Time
from penstock.model.types import Types
from penstock.state.backend import live_reads
from penstock.state.backend.live_reads import LiveReads, visible
from penstock.state.rocksdb import live_rows
from penstock.state.rocksdb.store import Family
from tests.state.backends import at, choose, epoch, string_backend

KEYS = [f"k{number}" for number in range(20)]


def expiring(descriptor: StateDescriptor) -> StateDescriptor:
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(100)).build())
    return descriptor


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
def test_expired_entries_are_not_shown(kind: str) -> None:
    choose(kind)
    backend = string_backend()
    backend.ttl.clock.now_ms = 1_000
    with epoch(backend):
        at(backend, "a")
        value = backend.table(expiring(ValueStateDescriptor("v", Types.LONG())))
        items = backend.table(expiring(ListStateDescriptor("l", Types.LONG())))
        entries = backend.table(expiring(MapStateDescriptor("m", Types.STRING(), Types.LONG())))
        value.update(1), items.add(1), entries.put("x", 1)
        backend.ttl.clock.now_ms = 1_050
        items.add(2), entries.put("y", 2)

    def seen(name: str, now_ms: int) -> Any:
        (stored,) = backend.read_live(name, ["a"], before=False)
        show = visible(backend.info(name), backend.ttl.ttl_ms(name), now_ms)
        assert show is not None
        return show(stored)

    assert (seen("v", 1_099), seen("v", 1_100)) == (1, None)
    assert (seen("l", 1_099), seen("l", 1_100), seen("l", 1_150)) == ([1, 2], [2], None)
    assert (seen("m", 1_099), seen("m", 1_100), seen("m", 1_150)) == ({"x": 1, "y": 2}, {"y": 2}, None)


def test_untyped_map_keys_are_those_of_the_user() -> None:
    backend = string_backend()
    with epoch(backend):
        at(backend, "a")
        backend.table(MapStateDescriptor("m")).put((1, 2), "pair")
    show = visible(backend.info("m"), 0, 0)
    assert show is not None and show(backend.read_live("m", ["a"], before=False)[0]) == {(1, 2): "pair"}


class GrowsOnce(dict[str, int]):
    """Entries that the epoch changes between the two calls that slice them."""

    has_grown = False

    def __iter__(self) -> Iterator[str]:
        keys = super().__iter__()
        if not self.has_grown:
            self.has_grown = True
            self["new"] = 2
        return keys


def test_entries_are_listed_again_if_the_epoch_changes_them_meanwhile() -> None:
    backend = string_backend()
    table: Any = backend.table(ValueStateDescriptor("s", Types.LONG()))
    with epoch(backend):
        at(backend, "a")
        table.update(1)
    entries = backend._tables["s"]
    entries.live = GrowsOnce(entries.live)
    assert backend.list_live("s", 10, before=False) == ["a", "new"]


@pytest.mark.parametrize("descriptor", ["value", "list", "map"])
def test_a_reader_never_sees_a_change_of_the_running_epoch(descriptor: str) -> None:
    """The writer changes every entry over and over; what the reader gets is always from before the epoch."""
    backend = string_backend()
    state: Any = {
        "value": lambda: backend.table(ValueStateDescriptor("s", Types.LONG())),
        "list": lambda: backend.table(ListStateDescriptor("s", Types.LONG())),
        "map": lambda: backend.table(MapStateDescriptor("s", Types.LONG(), Types.LONG())),
    }[descriptor]()
    write = {
        "value": [lambda n: state.update(n), lambda n: state.clear()],
        "list": [lambda n: state.add(n), lambda n: state.update([n]), lambda n: state.clear()],
        "map": [lambda n: state.put(n % 3, n), lambda n: state.remove(n % 3), lambda n: state.clear()],
    }[descriptor]
    old = {"value": 7, "list": [7], "map": {0: 7}}[descriptor]
    with epoch(backend):
        for key in KEYS[:10]:
            at(backend, key)
            write[0](7) if descriptor != "map" else state.put(0, 7)
    live: LiveReads = backend
    wrong: list[Any] = []
    done = threading.Event()

    def read() -> None:
        expected = [old] * 10 + [None] * 10
        while not done.is_set():
            found = live.read_live("s", KEYS, before=True)
            listed = live.list_live("s", 100, before=True)
            if found != expected or listed is None or sorted(listed) != KEYS[:10]:
                wrong.append((found, listed))
                return

    backend.begin_epoch()
    reader = threading.Thread(target=read)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        reader.start()
        for number in range(3_000):
            at(backend, KEYS[number % 20])
            write[number % len(write)](number + 100)
    finally:
        sys.setswitchinterval(interval)
        done.set()
        reader.join()
    backend.finish_epoch()
    assert wrong == []


def test_rocksdb_keeps_old_values_only_while_a_state_is_queried() -> None:
    choose("rocksdb")
    backend = string_backend()
    state = backend.table(ReducingStateDescriptor("s", lambda a, b: a + b, Types.LONG()))

    def run() -> None:
        with epoch(backend):
            at(backend, "a")
            state.add(1)

    run()
    assert backend.read_live("s", ["a"], before=True) is None  # nobody has asked before
    run()
    assert backend.read_live("s", ["a"], before=True) == [1]
    assert backend.read_live("s", ["a"], before=False) == [2]
    for _ in range(5):
        run()
    assert backend.read_live("s", ["a"], before=True) is None


def test_a_list_that_a_query_has_read_does_not_change_after_a_roll_back() -> None:
    backend = string_backend()
    state = backend.table(ListStateDescriptor("s", Types.LONG()))
    with epoch(backend):
        at(backend, "a")
        state.add(1)
    backend.begin_epoch()
    at(backend, "a")
    state.update([2])
    (seen,) = backend.read_live("s", ["a"], before=True)
    backend.roll_back()
    with epoch(backend):
        at(backend, "a")
        state.add(3)  # to the list that the roll-back has made live again
        assert seen == [1]


class Uncopied(dict[Any, Any]):
    """A map that must not be copied."""

    def copy(self) -> Any:
        raise AssertionError("a large map was copied")


def test_maps_in_memory_are_listed_without_copies() -> None:
    backend = string_backend()
    state = backend.table(MapStateDescriptor("s", Types.LONG(), Types.LONG()))
    with epoch(backend):
        for key in "abc":
            at(backend, key)
            state.put_all({1: 1, 2: 2, 3: 3})
    for key, entries in backend._tables["s"].live.items():
        backend._tables["s"].live[key] = Uncopied(entries)
    with epoch(backend):
        at(backend, "a")
        state.put(1, 5)
        at(backend, "b")
        state.put(4, 4)
        at(backend, "d")
        state.put(1, 1)
        assert sorted(backend.list_live("s", 10, before=True)) == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["list", "map"])
def test_rocksdb_lists_keys_without_reading_all_rows_of_each(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    choose("rocksdb")
    backend = string_backend()
    items = backend.table(ListStateDescriptor("list", Types.LONG()))
    entries = backend.table(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
    for number in range(3):
        with epoch(backend):
            for key in ("a", "ab", "b"):
                at(backend, key)
                items.add(number), entries.put(number, number)
    read: list[bytes] = []
    seek_each = Family.seek_each

    def counted(family: Family, behind: Any) -> Any:
        for row in seek_each(family, behind):
            read.append(row)
            yield row

    monkeypatch.setattr(Family, "seek_each", counted)
    monkeypatch.setattr(Family, "scan", lambda *_: pytest.fail("all rows are read"))
    assert sorted(backend.list_live(kind, 10, before=False)) == ["a", "ab", "b"]
    assert len(read) == 3


def test_rocksdb_lists_values_whose_keys_begin_alike() -> None:
    choose("rocksdb")
    backend = string_backend()
    state = backend.table(ValueStateDescriptor("s", Types.LONG()))
    keys = ["", "a", "aa", "aaa", "b", "\U0010ffff"]
    with epoch(backend):
        for key in keys:
            at(backend, key)
            state.update(1)
    assert sorted(backend.list_live("s", 10, before=False)) == keys


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("of", ["list", "map"])
def test_a_list_or_map_that_is_too_large_is_refused(kind: str, of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(kind)
    monkeypatch.setattr(live_reads, "MAX_ELEMENTS", 3)
    backend = string_backend()
    items = backend.table(ListStateDescriptor("list", Types.LONG()))
    entries = backend.table(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
    for count in (3, 4):
        with epoch(backend):
            at(backend, "a")
            items.update(range(count)), entries.put_all({number: number for number in range(count)})
        if count == 3:
            assert len(backend.read_live(of, ["a"], before=False)[0]) == 3
    with pytest.raises(UnsupportedValueError, match="more than 3 elements"):
        backend.read_live(of, ["a"], before=False)
    with epoch(backend):  # it is being queried, and ends all the same
        at(backend, "a")
        items.add(9), entries.put(9, 9)
        with pytest.raises(UnsupportedValueError, match="more than 3 elements"):
            backend.read_live(of, ["a"], before=True)


def test_rocksdb_keeps_no_old_values_if_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    choose("rocksdb")
    monkeypatch.setattr(live_rows, "MAX_KEPT", 10)
    backend = string_backend()
    state = backend.table(ListStateDescriptor("s", Types.LONG()))
    assert backend.read_live("s", ["a"], before=False) == [None]
    for _ in range(2):
        with epoch(backend):
            at(backend, "a")
            state.add_all(range(8))
    assert backend.read_live("s", ["a"], before=True) == [list(range(8))]
    with epoch(backend):
        at(backend, "a")
        state.add(0)
    assert backend.read_live("s", ["a"], before=True) is None
    assert backend.list_live("s", 10, before=True) is None
    assert len(backend.read_live("s", ["a"], before=False)[0]) == 17
