"""Lists and maps."""

from penstock.errors import StateAccessError, UnsupportedValueError
from penstock.model.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
)
from penstock.model.types import Types
from penstock.testing.conformance_state.tools import NewBackend, at, entry_count, epoch, expect_error, make


def a_list_that_was_never_filled_is_empty(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ListStateDescriptor("l", Types.LONG()))
    with epoch(backend):
        assert state.get() == []


def elements_keep_their_order_over_epochs(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ListStateDescriptor("l", Types.LONG()))
    for number in range(0, 80, 2):
        with epoch(backend):
            state.add(number)
            state.add_all([number + 1])
            assert state.get() == list(range(number + 2))
    assert state.get() == list(range(80))


def updating_a_list_replaces_it(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ListStateDescriptor("l", Types.LONG()))
    with epoch(backend):
        state.add_all([1, 2])
    with epoch(backend):
        state.add(3)
        state.update([7])
        state.add(8)
        assert state.get() == [7, 8]
    assert state.get() == [7, 8]


def an_empty_update_clears_a_list(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ListStateDescriptor("l", Types.LONG()))
    with epoch(backend):
        state.add(1)
    with epoch(backend):
        state.update([])
        assert state.get() == []
    assert state.get() == [] and entry_count(backend) == 0


def a_list_takes_no_null(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ListStateDescriptor("l", Types.LONG()))
    with epoch(backend):
        state.add(1)
        expect_error(UnsupportedValueError, "You cannot add null to a ListState.", lambda: state.add(None))
        expect_error(UnsupportedValueError, "null", lambda: state.add_all([2, None]))
        expect_error(UnsupportedValueError, "does not fit", lambda: state.add_all([2, "text"]))
        assert state.get() == [1]


def changing_a_returned_list_does_not_change_the_state(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ListStateDescriptor("l", Types.LIST(Types.LONG())))
    with epoch(backend):
        state.add([1])
        state.get()[0].append(2)
        state.get().clear()
        assert state.get() == [[1]]
    state.get()[0].append(3)
    assert state.get() == [[1]]


def a_cleared_list_starts_over(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ListStateDescriptor("l", Types.LONG()))
    with epoch(backend):
        state.add_all([1, 2])
    with epoch(backend):
        state.clear()
        state.add(3)
    assert state.get() == [3]


def lists_of_other_keys_stay(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ListStateDescriptor("l", Types.LONG()))
    with epoch(backend, "a"):
        state.add(1)
        at(backend, "aa")
        state.add(2)
    with epoch(backend, "a"):
        state.clear()
    at(backend, "aa")
    assert state.get() == [2]


def a_map_key_that_was_never_set_is_absent(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    with epoch(backend):
        assert state.get("x") is None and not state.contains("x") and state.is_empty()
        assert "x" not in state and list(state.items()) == []


def map_entries_are_read_back(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    with epoch(backend):
        state.put("x", 1)
        state["y"] = 2
        assert state["x"] == 1 and "y" in state and not state.is_empty()
    assert dict(state.items()) == {"x": 1, "y": 2}
    assert sorted(state.keys()) == ["x", "y"] and sorted(state.values()) == [1, 2] and sorted(state) == ["x", "y"]


def a_map_value_may_be_none(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    with epoch(backend):
        state.put("x", None)
        assert state.contains("x") and state.get("x") is None
    assert dict(state.items()) == {"x": None} and not state.is_empty()


def entries_change_over_epochs(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(MapStateDescriptor("m", Types.LONG(), Types.LONG()))
    with epoch(backend):
        state.put_all({1: 1, 2: 2, 3: 3})
    with epoch(backend):
        state.remove(1)
        state.put(2, 20)
        state.put(4, 4)
        assert dict(state.items()) == {2: 20, 3: 3, 4: 4}
    assert dict(state.items()) == {2: 20, 3: 3, 4: 4}


def removing_a_missing_map_key_has_no_effect(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    with epoch(backend):
        state.remove("x")
        del state["x"]
        assert state.is_empty()
    assert entry_count(backend) == 0


def a_map_without_entries_is_empty(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    with epoch(backend):
        state.put("x", 1)
        state.remove("x")
        assert state.is_empty()
    with epoch(backend):
        state.put("x", 1)
    with epoch(backend):
        state.remove("x")
        assert state.is_empty()
    assert state.is_empty()


def clearing_a_map_leaves_later_entries(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    with epoch(backend):
        state.put_all({"x": 1, "y": 2})
    with epoch(backend):
        state.clear()
        assert state.is_empty() and state.get("x") is None and "y" not in state
        state.put("z", 3)
    assert dict(state.items()) == {"z": 3}


def an_iterator_notices_a_change(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    with epoch(backend):
        state.put_all({"x": 1, "y": 2})
        items = state.items()
        next(items)
        state.put("z", 3)
        expect_error(StateAccessError, "Concurrent modification detected", lambda: next(items))


def an_iterator_can_remove_its_last_entry(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(MapStateDescriptor("m", Types.LONG(), Types.LONG()))
    with epoch(backend):
        state.put_all({number: number for number in range(5)})
    with epoch(backend):
        items = state.items()
        for key, _ in items:
            if key % 2:
                items.remove()
    assert sorted(state.keys()) == [0, 2, 4]


def untyped_map_keys_of_different_types_are_different(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(MapStateDescriptor("m"))
    keys = [1, True, 1.0, "1", (1,), b"1"]
    with epoch(backend):
        for key in keys:
            state.put(key, repr(key))
    assert sorted(map(repr, state.keys())) == sorted(map(repr, keys))
    assert all(state.get(key) == repr(key) for key in keys)


def map_keys_may_be_tuples(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(MapStateDescriptor("m", Types.TUPLE([Types.LONG(), Types.STRING()]), Types.LONG()))
    with epoch(backend):
        state.put((1, "a"), 1)
    assert state.get((1, "a")) == 1 and list(state.keys()) == [(1, "a")]


def a_map_key_must_not_be_none_or_nan(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(MapStateDescriptor("m", Types.DOUBLE(), Types.LONG()))
    with epoch(backend):
        expect_error(UnsupportedValueError, "cannot be a key", lambda: state.put(None, 1))
        expect_error(UnsupportedValueError, "cannot be a key", lambda: state.put(float("nan"), 1))
        state.put(-0.0, 1)
        assert state.is_empty() is False


def put_all_is_all_or_nothing(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    with epoch(backend):
        expect_error(UnsupportedValueError, "does not fit", lambda: state.put_all({"x": 1, "y": "text"}))
        assert state.is_empty()


def changing_a_returned_map_value_does_not_change_the_state(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(MapStateDescriptor("m", Types.STRING(), Types.LIST(Types.LONG())))
    with epoch(backend):
        state.put("x", [1])
        state.get("x").append(2)
        next(iter(state.values())).append(3)
    state.get("x").append(4)
    assert state.get("x") == [1]


def maps_have_no_size(new: NewBackend) -> None:
    state = make(new).table(MapStateDescriptor("m"))
    assert not hasattr(state, "size") and not hasattr(type(state), "__len__")
