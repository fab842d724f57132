"""Keyed state types as PyFlink has them (features B1 to B7, B14), and that stored objects are out of reach."""

import pytest

from penstock.errors import InvalidKeyError, StateAccessError, TypeMismatchError, UnsupportedValueError, UsageError
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.state import ListState, MapState, ValueState
from penstock.model.types import TAGGED, Types
from penstock.state.format.snapshot_file import read_chain
from penstock.testing.conformance_state.tools import Mean
from tests.state.backends import MAX_PARALLELISM, at, encoded, epoch, keyed_backend, stored_entries, string_backend


def test_b1_keys_that_alternate_never_mix() -> None:
    backend = string_backend()
    count = backend.table(ValueStateDescriptor("count", Types.LONG()))
    with epoch(backend):
        for key in ["a", "b", "a", "a", "b"]:
            at(backend, key)
            count.update((count.value() or 0) + 1)
    at(backend, "a")
    assert count.value() == 3
    at(backend, "b")
    assert count.value() == 2


def test_b1_a_null_key_is_refused() -> None:
    with pytest.raises(InvalidKeyError, match="Assigned key must not be null!"):
        at(string_backend(), None)


def test_b1_untyped_keys_of_different_types_are_different() -> None:
    backend = keyed_backend([TAGGED])
    state = backend.table(ValueStateDescriptor("v"))
    with epoch(backend):
        for key in [1, True, 1.0, "1"]:
            at(backend, key)
            assert state.value() is None
            state.update(repr(key))
        at(backend, -0.0)
        state.update("zero")
        at(backend, 0.0)
        assert state.value() == "zero"
    assert stored_entries(backend) == 5


@pytest.mark.parametrize(
    "use",
    [
        lambda b: b.table(ValueStateDescriptor("s")).value(),
        lambda b: b.table(ValueStateDescriptor("s")).update(1),
        lambda b: b.table(ValueStateDescriptor("s")).clear(),
        lambda b: b.table(ListStateDescriptor("s")).get(),
        lambda b: b.table(ListStateDescriptor("s")).add(1),
        lambda b: b.table(ListStateDescriptor("s")).update([]),
        lambda b: b.table(MapStateDescriptor("s")).get(1),
        lambda b: b.table(MapStateDescriptor("s")).put(1, 1),
        lambda b: b.table(MapStateDescriptor("s")).items(),
        lambda b: b.table(MapStateDescriptor("s")).is_empty(),
        lambda b: b.table(MapStateDescriptor("s")).clear(),
        lambda b: b.table(ReducingStateDescriptor("s", max)).add(1),
        lambda b: b.table(AggregatingStateDescriptor("s", Mean())).get(),
    ],
)
def test_state_without_a_current_key_is_an_error(use) -> None:
    backend = string_backend()
    with pytest.raises(StateAccessError, match="no current key"):
        use(backend)
    with epoch(backend):
        at(backend, "a")
    with pytest.raises(StateAccessError, match="no current key"):  # the epoch has ended
        use(backend)


def test_b2_value_state() -> None:
    backend = string_backend()
    state = backend.table(ValueStateDescriptor("v", Types.LONG()))
    assert isinstance(state, ValueState)
    with epoch(backend):
        at(backend, "k")
        assert state.value() is None
        state.update(5)
        assert state.value() == 5
        state.clear()
        assert state.value() is None
        state.clear()
        state.update(6)
        state.update(None)
        assert state.value() is None
    assert stored_entries(backend) == 0


def test_b3_list_state() -> None:
    backend = string_backend()
    state = backend.table(ListStateDescriptor("l", Types.LONG()))
    assert isinstance(state, ListState)
    with epoch(backend):
        at(backend, "k")
        assert list(state.get()) == []
        state.add(1)
        state.add(2)
        state.add_all([3, 4])
        assert list(state.get()) == [1, 2, 3, 4] == list(state)
        state.update([7])
        assert list(state.get()) == [7]
        state.add_all([])
        state.clear()
        assert list(state.get()) == []
        state.update([1])
        state.update([])
        assert list(state.get()) == []
    assert stored_entries(backend) == 0


def test_b3_null_elements_are_refused_and_nothing_is_added() -> None:
    backend = string_backend()
    state = backend.table(ListStateDescriptor("l"))
    with epoch(backend):
        at(backend, "k")
        state.add(0)
        for use in (lambda: state.add(None), lambda: state.add_all([1, None]), lambda: state.update([None])):
            with pytest.raises(UnsupportedValueError, match=r"^You cannot add null to a ListState\.$"):
                use()
        for use in (lambda: state.add_all(None), lambda: state.update(None)):
            with pytest.raises(UnsupportedValueError, match="cannot be null"):
                use()
        assert list(state) == [0]


def test_b4_map_state() -> None:
    backend = string_backend()
    state = backend.table(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    assert isinstance(state, MapState)
    with epoch(backend):
        at(backend, "k")
        assert state.is_empty() and state.get("x") is None and state["x"] is None and "x" not in state
        state.put("x", 1)
        state["y"] = 2
        state.put_all({"z": 3, "x": 4})
        state.put_all({})
        assert "x" in state and state.contains("y") and not state.contains("w")
        assert sorted(state) == sorted(state.keys()) == ["x", "y", "z"]
        assert sorted(state.items()) == [("x", 4), ("y", 2), ("z", 3)]
        assert sorted(state.values()) == [2, 3, 4]
        del state["x"]
        state.remove("y")
        state.remove("absent")
        assert not state.is_empty()
        del state["z"]
        assert state.is_empty() and list(state.items()) == []
        state.put("x", 1)
        state.clear()
        assert state.is_empty() and state.get("x") is None
        state.clear()
    assert stored_entries(backend) == 0


def test_b4_a_change_while_iterating_is_an_error() -> None:
    backend = string_backend()
    state = backend.table(MapStateDescriptor("m", Types.LONG(), Types.LONG()))
    changes = [
        lambda: state.put(1, 5),
        lambda: state.put(9, 9),
        lambda: state.put_all({1: 2}),
        lambda: state.remove(2),
        lambda: state.clear(),
    ]
    with epoch(backend):
        at(backend, "k")
        for change in changes:
            for view in (state.items, state.keys, state.values, state.__iter__):
                state.put_all({1: 1, 2: 2, 3: 3})
                iterator = iter(view())
                next(iterator)
                change()
                with pytest.raises(StateAccessError, match=r"^Concurrent modification detected\. You can not modify"):
                    next(iterator)


def test_b4_an_iterator_may_remove_its_last_entry() -> None:
    backend = string_backend()
    state = backend.table(MapStateDescriptor("m", Types.LONG(), Types.LONG()))
    with epoch(backend):
        at(backend, "k")
        state.put_all({n: n for n in range(6)})
        iterator = state.items()
        with pytest.raises(StateAccessError, match="You need to call the '__next__' method"):
            iterator.remove()
        for key, _ in iterator:
            if key % 2:
                iterator.remove()
        assert sorted(state) == [0, 2, 4]
        iterator, other = state.keys(), state.keys()
        next(iterator)
        next(other)
        iterator.remove()
        with pytest.raises(StateAccessError, match="Concurrent modification"):
            other.remove()


def test_b4_none_is_a_value_of_a_map() -> None:
    backend = string_backend()
    state = backend.table(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    with epoch(backend):
        at(backend, "k")
        state.put("x", None)
        state.put_all({"y": None})
        assert state.get("x") is None and "x" in state and sorted(state.items()) == [("x", None), ("y", None)]


def test_b4_untyped_map_keys_of_different_types_are_different_and_need_not_be_hashable() -> None:
    backend = string_backend()
    state = backend.table(MapStateDescriptor("m"))
    with epoch(backend):
        at(backend, "k")
        keys = [1, True, 1.0, "1", b"1", (1, 2), [1, 2], None]
        for number, key in enumerate(keys):
            state.put(key, number)
        assert [state.get(key) for key in keys] == list(range(len(keys)))
        assert [(type(key), key) for key in state] == [(type(key), key) for key in keys]


def test_b4_none_and_nan_are_no_typed_map_keys() -> None:
    backend = string_backend()
    plain = backend.table(MapStateDescriptor("m", Types.DOUBLE(), Types.LONG()))
    pair = backend.table(MapStateDescriptor("p", Types.TUPLE([Types.DOUBLE(), Types.LONG()]), Types.LONG()))
    with epoch(backend):
        at(backend, "k")
        plain.put(1, 1)
        assert plain.get(1.0) == 1 and [type(key) for key in plain] == [float]
        for state, key in ((plain, float("nan")), (plain, None), (pair, (float("nan"), 1)), (pair, None)):
            with pytest.raises(UnsupportedValueError, match="cannot be a key of a MapState"):
                state.put(key, 1)
    with pytest.raises(UsageError, match="cannot be the type of map keys"):
        backend.table(MapStateDescriptor("q", Types.LIST(Types.LONG()), Types.LONG()))


def test_b5_reducing_state() -> None:
    backend = string_backend()
    state = backend.table(ReducingStateDescriptor("r", lambda a, b: a + b, Types.LONG()))
    with epoch(backend):
        at(backend, "k")
        assert state.get() is None
        for value in (1, 3, 5):
            state.add(value)
        assert state.get() == 9
        state.clear()
        assert state.get() is None
        state.add(2)
        state.add(None)
        assert state.get() is None


def test_b6_aggregating_state_stores_the_accumulator() -> None:
    backend = string_backend()
    descriptor = AggregatingStateDescriptor("a", Mean(), Types.LIST(Types.LONG()))
    state = backend.table(descriptor)
    with epoch(backend):
        at(backend, "k")
        assert state.get() is None
        state.add(2)
        state.add(4)
        assert state.get() == 3.0
    # The same table read as what it stores: sum and count, not the result.
    ((_, rows),) = read_chain([encoded(backend)], (0, MAX_PARALLELISM - 1), MAX_PARALLELISM)
    assert rows["value"].to_pylist() == [[6, 2]]
    with epoch(backend):
        at(backend, "k")
        state.add(None)
        assert state.get() is None
        state.add(1)
        state.clear()
        assert state.get() is None


def test_b7_the_same_name_and_type_is_the_same_handle() -> None:
    backend = string_backend()
    count = backend.table(ValueStateDescriptor("c", Types.LONG()))
    assert backend.table(ValueStateDescriptor("c", "bigint")) is count is backend.handle("c")
    with pytest.raises(TypeMismatchError, match=r"^The state name 'c' is already in use and not a map state\.$"):
        backend.table(MapStateDescriptor("c", Types.STRING(), Types.LONG()))
    with pytest.raises(TypeMismatchError, match=r"already in use and not a list state\.$"):
        backend.table(ListStateDescriptor("c", Types.LONG()))
    with pytest.raises(TypeMismatchError, match=r"^State name corrupted: c\..* LONG and .* DOUBLE"):
        backend.table(ValueStateDescriptor("c", Types.DOUBLE()))
    with pytest.raises(StateAccessError, match=r"no state 'd'; its states are: 'c'"):
        backend.handle("d")


def test_b7_declaring_again_uses_the_newest_function() -> None:
    backend = string_backend()
    first = backend.table(ReducingStateDescriptor("r", lambda a, b: a + b, Types.LONG()))
    second = backend.table(ReducingStateDescriptor("r", max, Types.LONG()))
    averages = [backend.table(AggregatingStateDescriptor("a", Mean())) for _ in range(2)]
    assert first is second and averages[0] is averages[1]
    with epoch(backend):
        at(backend, "k")
        first.add(2)
        first.add(3)
        assert first.get() == 3


def test_b14_map_state_has_no_size() -> None:
    state = string_backend().table(MapStateDescriptor("m"))
    assert not hasattr(state, "size") and not hasattr(state, "__len__")


def test_what_a_handle_returns_or_was_given_is_not_the_stored_object() -> None:
    backend = string_backend()
    value = backend.table(ValueStateDescriptor("v"))
    elements = backend.table(ListStateDescriptor("l", Types.LIST(Types.LONG())))
    entries = backend.table(MapStateDescriptor("m", None, Types.MAP(Types.STRING(), Types.LONG())))
    collected = backend.table(ReducingStateDescriptor("r", lambda a, b: a + b))
    with epoch(backend):
        at(backend, "k")
        mine, inner, entry, one = {"x": [1]}, [1], {"a": 1}, ([1],)
        value.update(mine)
        elements.add(inner)
        elements.add_all([inner])
        entries.put("e", entry)
        collected.add(one)
        for changed in (mine["x"], inner, one[0]):
            changed.append(2)
        entry["b"] = 2
        for _ in range(2):  # what was read is changed too
            assert value.value() == {"x": [1]} and list(elements) == [[1], [1]]
            assert entries.get("e") == {"a": 1} and list(entries.values()) == [{"a": 1}]
            assert dict(entries.items()) == {"e": {"a": 1}} and collected.get() == ([1],)
            value.value()["x"].append(3)
            elements.get()[0].append(3)
            elements.get().append([9])
            entries.get("e")["c"] = 3
            next(entries.values())["c"] = 3
            collected.get()[0].append(3)


def test_changing_a_returned_long_list_does_not_change_the_state() -> None:
    """A list of many epochs is rewritten when it is read; changing the result must not change the state."""
    backend = string_backend()
    state = backend.table(ListStateDescriptor("l", Types.LIST(Types.LONG())))
    for number in range(40):
        with epoch(backend):
            at(backend, "k")
            state.add([number])
    with epoch(backend):
        at(backend, "k")
        state.get()[0].append(99)
    at(backend, "k")
    assert state.get() == [[number] for number in range(40)]
