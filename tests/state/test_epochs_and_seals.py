"""Epochs can be undone; a seal holds all entries or the changed ones, and is never modified later."""

from collections.abc import Callable

import pytest

from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.model.ids import CheckpointId
from penstock.model.types import Types
from penstock.state.backend.sealed_state import SealedTables
from penstock.state.format.table_rows import Rows
from penstock.state.heap.change_log import MAX_BASES
from penstock.state.heap.hashmap_backend import HashMapBackend
from penstock.state.heap.heap_handles import HeapListState, HeapMapState, HeapValueState
from tests.state.backends import at, epoch, seal, stored_entries, string_backend


def rows_of(sealed: SealedTables) -> Rows:
    (table,) = sealed.tables
    rows = table.rows()
    assert isinstance(rows, Rows)
    return rows


def values() -> tuple[HashMapBackend, HeapValueState]:
    backend = string_backend()
    return backend, backend.table(ValueStateDescriptor("v", Types.LONG()))


def lists() -> tuple[HashMapBackend, HeapListState]:
    backend = string_backend()
    return backend, backend.table(ListStateDescriptor("l", Types.LONG()))


def maps() -> tuple[HashMapBackend, HeapMapState]:
    backend = string_backend()
    return backend, backend.table(MapStateDescriptor("m", Types.LONG(), Types.LONG()))


def fill(backend: HashMapBackend, state: HeapValueState, count: int, value: int = 0) -> None:
    with epoch(backend):
        for number in range(count):
            at(backend, f"k{number}")
            state.update(value)


def test_a_finished_epoch_can_be_undone_until_the_next_begins() -> None:
    backend, state = values()
    fill(backend, state, 1, 1)
    fill(backend, state, 1, 2)
    backend.roll_back()
    at(backend, "k0")
    assert state.value() == 1
    backend.roll_back()  # nothing left to undo
    at(backend, "k0")
    assert state.value() == 1


def test_the_undo_of_a_growing_list_is_its_length() -> None:
    backend, state = lists()
    with epoch(backend):
        at(backend, "k")
        state.update(list(range(1000)))
    backend.begin_epoch()
    at(backend, "k")
    for number in range(1000):
        state.add(number)
    table = backend._tables["l"]
    assert table.undo == {"k": 1000}
    state.update([1])  # only now is the old list needed
    assert table.undo == {"k": list(range(1000))}
    backend.roll_back()
    at(backend, "k")
    assert list(state) == list(range(1000))


LIST_STEPS: dict[str, Callable[[HeapListState], None]] = {
    "a": lambda state: state.add(7),
    "c": lambda state: state.clear(),
    "u": lambda state: state.update([8, 9]),
    "e": lambda state: state.update([]),
}
MAP_STEPS: dict[str, Callable[[HeapMapState], None]] = {
    "p": lambda state: state.put_all({1: 5, 3: 5}),
    "c": lambda state: state.clear(),
    "r": lambda state: state.remove(1),
}


@pytest.mark.parametrize("before", [[], [1, 2]])
@pytest.mark.parametrize("steps", ["c", "ca", "a", "ac", "aca", "u", "ua", "au", "e", "aea", "cu", "uc"])
def test_every_order_of_list_changes_can_be_undone(steps: str, before: list[int]) -> None:
    backend, state = lists()
    with epoch(backend):
        at(backend, "k")
        state.update(before)
    backend.begin_epoch()
    at(backend, "k")
    for step in steps:
        LIST_STEPS[step](state)
    backend.roll_back()
    at(backend, "k")
    assert list(state) == before


@pytest.mark.parametrize("before", [{}, {1: 1}, {1: 1, 2: None}])
@pytest.mark.parametrize("steps", ["p", "pc", "cp", "c", "r", "rp", "pr", "crp", "rrp", "pcr", "cpc"])
def test_every_order_of_map_changes_can_be_undone(steps: str, before: dict[int, int | None]) -> None:
    backend, state = maps()
    with epoch(backend):
        at(backend, "k")
        state.put_all(before)
    held = seal(backend, 1, full=True)
    backend.begin_epoch()
    at(backend, "k")
    for step in steps:
        MAP_STEPS[step](state)
    after = dict(state.items())
    backend.finish_epoch()
    held_after = seal(backend, 2, full=True)
    backend.roll_back()
    at(backend, "k")
    assert dict(state.items()) == before
    for sealed, expected in ((held, before), (held_after, after)):
        rows = rows_of(sealed)
        assert dict(zip(rows.map_keys or [], rows.values, strict=True)) == expected


def test_a_delta_holds_only_what_changed_since_its_base() -> None:
    backend, state = values()
    fill(backend, state, 10)
    assert seal(backend, 1).base is None
    with epoch(backend):
        at(backend, "k3")
        state.update(7)
        at(backend, "k4")
        state.clear()
    assert rows_of(seal(backend, 2, 1)) == Rows(["k3", "k4"], None, [7, None], [False, True])
    with epoch(backend):
        at(backend, "k5")
        state.update(8)
    assert rows_of(seal(backend, 3, 2)).keys == ["k5"]


def test_deltas_on_an_older_base_hold_everything_since() -> None:
    backend, state = values()
    fill(backend, state, 10)
    seal(backend, 1)
    for number in (2, 3, 4):
        with epoch(backend):
            at(backend, f"k{number}")
            state.update(number)
        sealed = seal(backend, number, 1)
    assert sealed.base == 1 and rows_of(sealed).keys == ["k2", "k3", "k4"]


def test_a_map_is_tracked_by_map_key() -> None:
    backend, state = maps()
    with epoch(backend):
        for key in "ab":
            at(backend, key)
            state.put_all(dict.fromkeys(range(100), 0))
    seal(backend, 1)
    with epoch(backend):
        at(backend, "a")
        state.put(5, 1)
        state.remove(6)
        state.put(200, 2)
        state.remove(300)
    assert rows_of(seal(backend, 2, 1)) == Rows(["a", "a", "a"], [5, 6, 200], [1, None, 2], [False, True, False])
    with epoch(backend):
        at(backend, "b")
        state.clear()
        state.put(1, 9)
    rows = rows_of(seal(backend, 3, 2))
    assert len(rows.keys) == 100 and rows.deleted is not None and rows.deleted.count(False) == 1


def test_a_table_that_changed_as_a_whole_is_sealed_as_a_whole() -> None:
    backend, state = values()
    fill(backend, state, 10)
    seal(backend, 1)
    fill(backend, state, 10, 1)
    sealed = seal(backend, 2, 1)
    assert sealed.base is None and sealed.tables[0].full


def test_a_seal_is_full_on_request_without_base_and_for_an_unknown_base() -> None:
    backend, state = values()
    fill(backend, state, 10)
    seal(backend, 1)
    for number, (base, full) in enumerate([(1, True), (None, False), (77, False)]):
        sealed = seal(backend, 10 + number, base, full=full)
        assert sealed.base is None and len(rows_of(sealed).keys) == 10


def test_only_seals_that_are_retained_can_be_named_and_lose_no_change() -> None:
    backend, state = values()
    fill(backend, state, 10)
    for number in (1, 2, 3):
        with epoch(backend):
            at(backend, f"k{number}")
            state.update(number)
        seal(backend, number)
    backend.retain({CheckpointId(1), CheckpointId(3)})
    sealed = seal(backend, 4, 1)
    assert sealed.base == 1 and rows_of(sealed).keys == ["k2", "k3"]
    assert seal(backend, 5, 2).base is None
    assert seal(backend, 6, 3).base == 3


def test_the_number_of_possible_bases_is_limited() -> None:
    backend, state = values()
    fill(backend, state, 10)
    for number in range(MAX_BASES + 1):
        seal(backend, number)
    assert seal(backend, 100, 0).base is None
    assert seal(backend, 101, 5).base == 5


def test_a_state_that_is_new_since_the_base_is_full_in_a_delta() -> None:
    backend, state = values()
    fill(backend, state, 10)
    seal(backend, 1)
    other = backend.table(ValueStateDescriptor("new", Types.LONG()))
    with epoch(backend):
        at(backend, "k1")
        other.update(1)
        state.update(1)
    sealed = seal(backend, 2, 1)
    assert sealed.base == 1
    assert {table.info.name: table.full for table in sealed.tables} == {"v": False, "new": True}


def test_a_seal_of_an_undone_epoch_is_no_base() -> None:
    backend, state = values()
    fill(backend, state, 10)
    seal(backend, 1)
    with epoch(backend):
        at(backend, "k1")
        state.update(1)
    seal(backend, 2, 1)
    backend.roll_back()
    with epoch(backend):
        at(backend, "k2")
        state.update(2)
    again = seal(backend, 2, 1)  # the epoch ran again, with the same checkpoint
    assert again.base == 1 and "k2" in rows_of(again).keys
    with epoch(backend):
        at(backend, "k3")
        state.update(3)
    assert rows_of(seal(backend, 3, 2)).keys == ["k3"]
    backend.roll_back()
    assert seal(backend, 4, 3).base is None


def test_sealing_the_same_checkpoint_again_loses_no_change() -> None:
    backend, state = values()
    fill(backend, state, 10)
    seal(backend, 1)
    for number in (2, 3):
        with epoch(backend):
            at(backend, f"k{number}")
            state.update(number)
        seal(backend, 2)
    with epoch(backend):
        at(backend, "k4")
        state.update(4)
    assert set(rows_of(seal(backend, 3, 1)).keys) == {"k2", "k3", "k4"}


def test_a_delta_may_build_on_the_restored_checkpoint() -> None:
    backend, state = values()
    fill(backend, state, 10)
    backend.start_from(CheckpointId(7))
    with epoch(backend):
        at(backend, "k1")
        state.update(1)
    sealed = seal(backend, 8, 7)
    assert sealed.base == 7 and rows_of(sealed).keys == ["k1"]


def test_a_sealed_list_does_not_grow_or_shrink() -> None:
    backend, state = lists()
    with epoch(backend):
        at(backend, "k")
        state.add_all([1, 2])
        at(backend, "other")
        state.add(1)
    full, delta = seal(backend, 1, full=True), seal(backend, 2, 1)
    with epoch(backend):
        at(backend, "k")
        state.add(3)
    later = seal(backend, 3, 2)
    backend.roll_back()
    with epoch(backend):
        at(backend, "k")
        state.add(4)
        state.clear()
    assert rows_of(full).values == [[1, 2], [1]] and rows_of(delta).values == []
    assert rows_of(later) == Rows(["k"], None, [[1, 2, 3]], [False])


def test_a_sealed_map_is_copied_before_it_changes_and_only_once() -> None:
    backend, state = maps()
    with epoch(backend):
        for key in "ab":
            at(backend, key)
            state.put_all({1: 1, 2: 2})
    sealed = seal(backend, 1, full=True)
    live = backend._tables["m"].live
    before = dict(live)
    with epoch(backend):
        at(backend, "a")
        state.put(1, 9)
        copy = live["a"]
        state.remove(2)
        assert live["a"] is copy and live["b"] is before["b"] and copy is not before["a"]
    with epoch(backend):
        at(backend, "a")
        state.put(1, 10)
        assert live["a"] is copy
        at(backend, "b")
        state.clear()
        state.put(5, 5)
    rows = rows_of(sealed)
    assert rows == Rows(["a", "a", "b", "b"], [1, 2, 1, 2], [1, 2, 1, 2], None)


def test_entry_count_is_the_number_of_rows_of_a_full_seal() -> None:
    backend = string_backend()
    value = backend.table(ValueStateDescriptor("v"))
    elements = backend.table(ListStateDescriptor("l"))
    entries = backend.table(MapStateDescriptor("m"))
    with epoch(backend):
        at(backend, "k")
        value.update(1)
        elements.add_all([1, 2])
        entries.put_all({1: 1, 2: 2, 3: 3})
    sealed = seal(backend, 1, full=True)
    assert stored_entries(backend) == 5 == sum(len(table.rows().values) for table in sealed.tables)
