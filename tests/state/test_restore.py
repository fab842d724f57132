"""State comes back from snapshot files: by key group range, in chains, and only as the type it was saved as."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import TypeMismatchError
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.ids import CheckpointId
from penstock.model.types import Types
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.format.snapshot_file import encode_snapshot, read_chain, read_snapshot
from penstock.testing.conformance_state.tools import Mean
from tests.state.backends import (
    MAX_PARALLELISM,
    at,
    encoded,
    epoch,
    hashmap_backend,
    keyed_backend,
    restored,
    seal,
    stored_entries,
    string_backend,
)

KEYS = [f"k{number}" for number in range(50)]


def counted(key: str) -> int:
    return int(key[1:])


def full_backend() -> Any:
    backend = string_backend()
    states = {name: backend.table(descriptor()) for name, descriptor in DESCRIPTORS.items()}
    with epoch(backend):
        for key in KEYS:
            at(backend, key)
            states["value"].update((counted(key), key))
            states["list"].add_all([counted(key), 1])
            states["map"].put_all({"n": counted(key), "none": None})
            states["reducing"].add(counted(key))
            states["reducing"].add(1)
            states["aggregating"].add(counted(key))
    return backend


DESCRIPTORS: dict[str, Callable[[], StateDescriptor]] = {
    "value": lambda: ValueStateDescriptor("value"),
    "list": lambda: ListStateDescriptor("list", Types.LONG()),
    "map": lambda: MapStateDescriptor("map", Types.STRING(), Types.LONG()),
    "reducing": lambda: ReducingStateDescriptor("reducing", lambda a, b: a + b, Types.LONG()),
    "aggregating": lambda: AggregatingStateDescriptor("aggregating", Mean(), Types.LIST(Types.LONG())),
}


def assert_full(backends: list[KeyedBackend]) -> None:
    found = set()
    for backend in backends:
        states = {name: backend.table(descriptor()) for name, descriptor in DESCRIPTORS.items()}
        for key in KEYS:
            at(backend, key)
            if states["value"].value() is None:
                continue
            found.add(key)
            assert states["value"].value() == (counted(key), key)
            assert list(states["list"]) == [counted(key), 1]
            assert dict(states["map"].items()) == {"n": counted(key), "none": None}
            assert states["reducing"].get() == counted(key) + 1
            assert states["aggregating"].get() == counted(key)
    assert found == set(KEYS)
    assert sum(stored_entries(backend) for backend in backends) == 6 * len(KEYS)


@pytest.mark.parametrize("parallelism", [1, 2, 3, 16])
@pytest.mark.parametrize("max_parallelism", [16, 128])
def test_every_kind_of_state_is_restored_by_key_group_range(parallelism: int, max_parallelism: int) -> None:
    assert_full(restored([[encoded(full_backend())]], parallelism, max_parallelism))


def test_e6_state_goes_from_two_subtasks_to_three_to_one() -> None:
    two = restored([[encoded(full_backend())]], 2)
    three = restored([[encoded(backend)] for backend in two], 3)
    assert_full(three)
    assert_full(restored([[encoded(backend)] for backend in three], 1))


def test_b6_a_restored_accumulator_is_continued() -> None:
    (backend,) = restored([[encoded(full_backend())]])
    state = backend.table(DESCRIPTORS["aggregating"]())
    with epoch(backend):
        at(backend, "k4")
        state.add(8)
        assert state.get() == 6.0


@pytest.mark.hashmap_only
def test_a_chain_of_deltas_is_applied_oldest_first() -> None:
    backend = string_backend()
    state = backend.table(ValueStateDescriptor("v", Types.LONG()))
    with epoch(backend):
        for key in KEYS:
            at(backend, key)
            state.update(0)
    files = [encode_snapshot([seal(backend, 1)])]
    for number in range(2, 6):
        with epoch(backend):
            for key in KEYS[:: number * 2]:
                at(backend, key)
                if state.value() is None or counted(key) % 3:
                    state.update(number)
                else:
                    state.clear()
        sealed = seal(backend, number, number - 1)
        assert sealed.base == number - 1
        files.append(encode_snapshot([sealed]))
    expected = {key: _value(backend, state, key) for key in KEYS}
    assert None in expected.values() and len(set(expected.values())) > 3
    for parallelism in (1, 3):
        found = {}
        for other in restored([files], parallelism):
            again = other.table(ValueStateDescriptor("v", Types.LONG()))
            found.update({key: _value(other, again, key) for key in KEYS if _owns(other, key)})
        assert found == expected


def _value(backend: KeyedBackend, state: Any, key: str) -> Any:
    at(backend, key)
    return state.value()


def _owns(backend: KeyedBackend, key: str) -> bool:
    first, last = backend.key_groups
    return first <= backend.key_codec.hash(key) % MAX_PARALLELISM <= last


def test_rows_may_be_restored_after_the_state_was_declared() -> None:
    backend = string_backend()
    for descriptor in DESCRIPTORS.values():
        backend.table(descriptor())
    for info, rows in read_snapshot(encoded(full_backend()), (0, 15), 16):
        backend.restore(info, rows)
    assert_full([backend])


@pytest.mark.hashmap_only
def test_a_state_that_no_function_declares_stays_in_later_snapshots() -> None:
    (first,) = restored([[encoded(full_backend())]])
    assert stored_entries(first) == 6 * len(KEYS)
    value = first.table(DESCRIPTORS["value"]())
    with epoch(first):
        at(first, "k0")
        value.update((0, "k0"))
    base = encode_snapshot([seal(first, 1)])
    with epoch(first):
        at(first, "k1")
        value.update((1, "k1"))
    sealed = seal(first, 2, 1)
    delta = encode_snapshot([sealed])
    assert sealed.base == 1 and len(delta) < len(base)
    assert_full(restored([[base, delta]]))
    first.roll_back()
    assert_full(restored([[encode_snapshot([seal(first, 3)])]]))


@pytest.mark.hashmap_only
def test_the_files_of_an_undeclared_state_keep_their_deletes() -> None:
    backend = string_backend()
    state = backend.table(ValueStateDescriptor("v", Types.LONG()))
    with epoch(backend):
        for key in KEYS:
            at(backend, key)
            state.update(1)
    base = encode_snapshot([seal(backend, 1)])
    with epoch(backend):
        at(backend, "k7")
        state.clear()
    delta = encode_snapshot([seal(backend, 2, 1)])
    (untouched,) = restored([[base, delta]])
    assert stored_entries(untouched) == 50  # about: the deleted one is in the older part
    (again,) = restored([[encoded(untouched)]])
    other = again.table(ValueStateDescriptor("v", Types.LONG()))
    at(again, "k7")
    assert other.value() is None and stored_entries(again) == 49


@pytest.mark.hashmap_only
def test_a_delta_builds_on_the_checkpoint_that_was_restored() -> None:
    (backend,) = restored([[encoded(full_backend())]])
    backend.start_from(CheckpointId(9))
    value = backend.table(DESCRIPTORS["value"]())
    with epoch(backend):
        at(backend, "k0")
        value.update((0, "k0"))
    sealed = seal(backend, 10, 9)
    assert sealed.base == 9 and not any(table.full for table in sealed.tables)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (ValueStateDescriptor("list", Types.LONG()), "list state of LIST<LONG> and is declared as value state of LONG"),
        (ListStateDescriptor("list", Types.DOUBLE()), "LIST<LONG> and is declared as list state of LIST<DOUBLE>"),
        (
            MapStateDescriptor("map", Types.LONG(), Types.LONG()),
            "map state of STRING to LONG and is declared as map state of LONG to LONG",
        ),
        (ValueStateDescriptor("value", Types.LONG()), "value state of TAGGED and is declared as value state of LONG"),
    ],
)
def test_another_type_than_the_saved_one_is_refused_with_both(declared: StateDescriptor, text: str) -> None:
    file = encoded(full_backend())
    (backend,) = restored([[file]])
    with pytest.raises(TypeMismatchError, match=f"state '{declared.name}' of operator 'op' was saved as .*{text}"):
        backend.table(declared)
    backend = string_backend()
    backend.table(declared)
    with pytest.raises(TypeMismatchError, match=text):
        for info, rows in read_snapshot(file, (0, 15), 16):
            backend.restore(info, rows)


def test_another_key_type_than_the_saved_one_is_refused() -> None:
    backend = keyed_backend([Types.LONG()])
    with pytest.raises(TypeMismatchError, match="saved as .* keyed by STRING and is declared as .* keyed by LONG"):
        for info, rows in read_snapshot(encoded(full_backend()), (0, 15), 16):
            backend.restore(info, rows)


def test_a_pickled_state_is_unpickled_only_when_the_program_declares_it_so(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = string_backend()
    state = backend.table(ValueStateDescriptor("p", Types.PICKLED_BYTE_ARRAY()))
    with epoch(backend):
        at(backend, "k")
        state.update({1, 2})
    file = encoded(backend)
    with monkeypatch.context() as patched:
        patched.setattr(pickle, "loads", lambda data: pytest.fail("unpickled"))
        (other,) = restored([[file]])
        with pytest.raises(TypeMismatchError, match="value state of PICKLE"):
            other.table(ValueStateDescriptor("p"))
        (third,) = restored([[encoded(other)]])
    state = third.table(ValueStateDescriptor("p", Types.PICKLED_BYTE_ARRAY()))
    at(third, "k")
    assert state.value() == {1, 2}


def test_the_later_of_two_rows_of_a_list_in_one_file_wins() -> None:
    """The files of a state that no function declares, a full one and a delta, become one file."""
    backend = hashmap_backend()
    state = backend.table(DESCRIPTORS["list"]())
    with epoch(backend):
        for key in KEYS:
            at(backend, key)
            state.add_all([1, 2])
    full = encoded(backend, 1)
    with epoch(backend):
        at(backend, "k0")
        state.add(3)
        at(backend, "k1")
        state.clear()
    delta = encode_snapshot([seal(backend, 2, base=1)])
    idle = hashmap_backend()
    for info, rows in read_chain([full, delta], (0, MAX_PARALLELISM - 1), MAX_PARALLELISM):
        idle.restore(info, rows)
    (later,) = restored([[encoded(idle, 3)]])
    state = later.table(DESCRIPTORS["list"]())
    found = {}
    for key in KEYS[:3]:
        at(later, key)
        found[key] = state.get()
    assert found == {"k0": [1, 2, 3], "k1": [], "k2": [1, 2]}
