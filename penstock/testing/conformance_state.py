"""What every keyed state backend must do. A test runs each of `CHECKS` with a maker of fresh, empty backends.

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check, tmp_path):
        check(lambda key_codec, max_parallelism, key_groups: MyBackend("op", key_codec, max_parallelism, key_groups))

A backend's `seal` gives tables of rows, or files of its own; the checks ask for one that gives rows.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

from penstock.codec.keys import KeyCodec
from penstock.errors import StateAccessError, TypeMismatchError, UnsupportedValueError
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.functions import AggregateFunction
from penstock.model.ids import CheckpointId
from penstock.model.key_groups import key_group_of, key_group_range
from penstock.model.row import Row
from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK, TimeDomain
from penstock.model.type_information import TypeInformation
from penstock.model.types import TAGGED, Types
from penstock.state.backend.base import KeyedBackend
from penstock.state.sealed import SealedTables
from penstock.state.snapshot_file import encode_snapshot, read_chain
from penstock.state.timers import Timers

NewBackend = Callable[[KeyCodec, int, tuple[int, int]], KeyedBackend]
GROUPS = 16
ALL = (0, GROUPS - 1)


class Mean(AggregateFunction):
    """Keeps [sum, count] and changes it in place, as users do."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


@contextmanager
def epoch(backend: KeyedBackend, key: Any = "k") -> Iterator[None]:
    """An epoch at a key; an error rolls it back."""
    backend.begin_epoch()
    at(backend, key)
    try:
        yield
    except BaseException:
        backend.roll_back()
        raise
    backend.finish_epoch()
    at(backend, key)


def at(backend: KeyedBackend, key: Any) -> None:
    """Make `key` the current key."""
    backend.keys.key = backend.key_codec.to_state_key(key)


def make(new: NewBackend, *types: TypeInformation, key_groups: tuple[int, int] = ALL) -> KeyedBackend:
    """An empty backend, keyed by text unless types are given."""
    return new(KeyCodec(types or (Types.STRING(),)), GROUPS, key_groups)


def sealed_file(backend: KeyedBackend, checkpoint: int = 1) -> bytes:
    """A full snapshot of the backend."""
    sealed = backend.seal(CheckpointId(checkpoint), None, full=True)
    assert isinstance(sealed, SealedTables)
    return encode_snapshot([sealed])


def restored(new: NewBackend, files: Sequence[bytes], parallelism: int = 1, groups: int = GROUPS) -> list[KeyedBackend]:
    """The subtasks of a job that starts from these snapshots."""
    backends = []
    for index in range(parallelism):
        key_groups = key_group_range(groups, parallelism, index)
        backend = new(KeyCodec((Types.STRING(),)), groups, key_groups)
        for file in files:
            for info, rows in read_chain([file], key_groups, groups):
                backend.restore(info, rows)
        backends.append(backend)
    return backends


def expect_error(kind: type[BaseException], text: str, step: Callable[[], Any]) -> None:
    """The step must fail in this way."""
    try:
        step()
    except kind as error:
        assert text in str(error), f"{text!r} not in {error}"
        return
    raise AssertionError(f"no {kind.__name__}")


# ---- value state


def a_value_that_was_never_set_is_none(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ValueStateDescriptor("v", Types.LONG()))
    with epoch(backend):
        assert state.value() is None


def a_value_is_read_back_in_its_epoch_and_later(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ValueStateDescriptor("v", Types.LONG()))
    with epoch(backend):
        state.update(5)
        assert state.value() == 5
    with epoch(backend):
        assert state.value() == 5


def updating_with_none_clears(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ValueStateDescriptor("v", Types.LONG()))
    with epoch(backend):
        state.update(5)
        state.update(None)
        assert state.value() is None
    with epoch(backend):
        state.update(5)
    with epoch(backend):
        state.update(None)
    assert state.value() is None and backend.entry_count() == 0


def a_cleared_value_can_be_set_again(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ValueStateDescriptor("v", Types.LONG()))
    with epoch(backend):
        state.update(1)
    with epoch(backend):
        state.clear()
        assert state.value() is None
        state.update(2)
    assert state.value() == 2


def keys_do_not_mix(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ValueStateDescriptor("v", Types.LONG()))
    with epoch(backend):
        for key in ("a", "b", "a", "ab", "", "b"):
            at(backend, key)
            state.update((state.value() or 0) + 1)
    found = {}
    for key in ("a", "b", "ab", "", "c"):
        at(backend, key)
        found[key] = state.value()
    assert found == {"a": 2, "b": 2, "ab": 1, "": 1, "c": None}


def states_of_other_names_do_not_mix(new: NewBackend) -> None:
    backend = make(new)
    first = backend.table(ValueStateDescriptor("v", Types.LONG()))
    second = backend.table(ValueStateDescriptor("default", Types.LONG()))
    with epoch(backend):
        first.update(1)
    assert (first.value(), second.value()) == (1, None)


def typed_values_keep_their_types(new: NewBackend) -> None:
    cases: list[tuple[Any, Any]] = [
        (Types.LONG(), -(2**63)),
        (Types.DOUBLE(), float("inf")),
        (Types.FLOAT(), 1.5),
        (Types.BOOLEAN(), False),
        (Types.STRING(), "ü\0€"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
        (Types.BIG_DEC(), Decimal("-1.500000000000000000")),
        (Types.BIG_INT(), 10**30),
        (Types.SQL_TIMESTAMP(), datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=timezone.utc)),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), (1, None)),
        (Types.LIST(Types.LONG()), [3, 1, 2]),
        (Types.MAP(Types.STRING(), Types.DOUBLE()), {"x": 1.0, "y": None}),
        (Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LIST(Types.STRING())]), Row(a=1, b=["x", None])),
    ]
    backend = make(new)
    states = [backend.table(ValueStateDescriptor(f"v{n}", type_info)) for n, (type_info, _) in enumerate(cases)]
    with epoch(backend):
        for state, (_, value) in zip(states, cases, strict=True):
            state.update(value)
    for state, (_, value) in zip(states, cases, strict=True):
        assert repr(state.value()) == repr(value), (state.value(), value)


def untyped_values_keep_their_types(new: NewBackend) -> None:
    values = [True, 1, 1.0, "1", b"1", 10**30, (1, [2]), {"a": (1,)}, Row(a=1), Decimal("1.10"), [None]]
    backend = make(new)
    state = backend.table(ValueStateDescriptor("v"))
    with epoch(backend):
        for number, value in enumerate(values):
            at(backend, str(number))
            state.update(value)
    for number, value in enumerate(values):
        at(backend, str(number))
        assert repr(state.value()) == repr(value)


def what_was_stored_is_out_of_reach(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ValueStateDescriptor("v", Types.LIST(Types.LONG())))
    given = [1]
    with epoch(backend):
        state.update(given)
        given.append(2)
        state.value().append(3)
        assert state.value() == [1]
    state.value().append(4)
    assert state.value() == [1]


def a_value_that_does_not_fit_changes_nothing(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ValueStateDescriptor("v", Types.LONG()))
    with epoch(backend):
        state.update(1)
        expect_error(UnsupportedValueError, "does not fit", lambda: state.update("text"))
        expect_error(UnsupportedValueError, "does not fit", lambda: state.update(2**63))
        assert state.value() == 1


def a_pickled_value_comes_back(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY()))
    with epoch(backend):
        state.update({1, 2})
    assert state.value() == {1, 2}


# ---- list state


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
    assert state.get() == [] and backend.entry_count() == 0


def a_list_takes_no_null(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ListStateDescriptor("l", Types.LONG()))
    with epoch(backend):
        state.add(1)
        expect_error(UnsupportedValueError, "You cannot add null to a ListState.", lambda: state.add(None))
        expect_error(UnsupportedValueError, "null", lambda: state.add_all([2, None]))
        expect_error(UnsupportedValueError, "does not fit", lambda: state.add_all([2, "text"]))
        assert state.get() == [1]


def a_list_given_out_is_the_callers_own(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ListStateDescriptor("l", Types.LIST(Types.LONG())))
    with epoch(backend):
        state.add([1])
        state.get()[0].append(2)
        state.get().clear()
        assert state.get() == [[1]]
    state.get()[0].append(3)
    assert state.get() == [[1]]


def a_cleared_list_starts_anew(new: NewBackend) -> None:
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


# ---- map state


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


def removing_what_is_absent_is_fine(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    with epoch(backend):
        state.remove("x")
        del state["x"]
        assert state.is_empty()
    assert backend.entry_count() == 0


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


def an_iterator_removes_what_it_gave(new: NewBackend) -> None:
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


def untyped_map_keys_are_true_to_their_type(new: NewBackend) -> None:
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


def map_values_given_out_are_the_callers_own(new: NewBackend) -> None:
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


# ---- reducing and aggregating state


def a_reducing_state_folds(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ReducingStateDescriptor("r", lambda a, b: a + b, Types.LONG()))
    with epoch(backend):
        assert state.get() is None
        state.add(1)
        state.add(3)
    with epoch(backend):
        state.add(5)
        assert state.get() == 9
        state.add(None)
        assert state.get() is None


def an_aggregating_state_keeps_its_accumulator(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(AggregatingStateDescriptor("a", Mean(), Types.LIST(Types.LONG())))
    with epoch(backend):
        assert state.get() is None
        state.add(2)
    with epoch(backend):
        state.add(4)
        assert state.get() == 3.0
    ((_, rows),) = read_chain([sealed_file(backend)], ALL, GROUPS)
    assert rows["value"].to_pylist() == [[6, 2]]


def clearing_a_folded_state_starts_anew(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(AggregatingStateDescriptor("a", Mean(), Types.LIST(Types.LONG())))
    with epoch(backend):
        state.add(100)
    with epoch(backend):
        state.clear()
        state.add(2)
        assert state.get() == 2.0


# ---- names, kinds and keys


def the_same_name_and_type_is_the_same_state(new: NewBackend) -> None:
    backend = make(new)
    first = backend.table(ValueStateDescriptor("v", Types.LONG()))
    second = backend.table(ValueStateDescriptor("v", Types.LONG()))
    with epoch(backend):
        first.update(1)
        assert second.value() == 1


def one_name_has_one_kind_and_type(new: NewBackend) -> None:
    backend = make(new)
    backend.table(ValueStateDescriptor("v", Types.LONG()))
    expect_error(
        TypeMismatchError, "already in use and not a map state", lambda: backend.table(MapStateDescriptor("v"))
    )
    expect_error(
        TypeMismatchError, "State name corrupted", lambda: backend.table(ValueStateDescriptor("v", Types.STRING()))
    )


def state_needs_a_current_key(new: NewBackend) -> None:
    backend = make(new)
    value = backend.table(ValueStateDescriptor("v"))
    elements = backend.table(ListStateDescriptor("l"))
    entries = backend.table(MapStateDescriptor("m"))
    uses: list[Callable[[], Any]] = [
        value.value,
        lambda: value.update(1),
        value.clear,
        elements.get,
        lambda: elements.add(1),
        lambda: elements.update([]),
        lambda: entries.get(1),
        lambda: entries.put(1, 1),
        entries.items,
        entries.is_empty,
        entries.clear,
    ]
    for use in uses:
        expect_error(StateAccessError, "no current key", use)
    backend.begin_epoch()
    expect_error(StateAccessError, "no current key", value.value)
    backend.roll_back()


def untyped_keys_are_true_to_their_type(new: NewBackend) -> None:
    backend = make(new, TAGGED)
    state = backend.table(ValueStateDescriptor("v", Types.STRING()))
    keys = [1, True, 1.0, "1", (1, "a"), b"1"]
    with epoch(backend, 0):
        for key in keys:
            at(backend, key)
            assert state.value() is None
            state.update(repr(key))
        at(backend, -0.0)
        state.update("zero")
    at(backend, 0.0)
    assert state.value() == "zero" and backend.entry_count() == len(keys) + 1


def keys_of_several_columns_are_tuples(new: NewBackend) -> None:
    backend = make(new, Types.STRING(), Types.LONG())
    state = backend.table(ValueStateDescriptor("v", Types.LONG()))
    with epoch(backend, ("a", 1)):
        state.update(1)
        at(backend, ("a", -1))
        assert state.value() is None
    assert state.value() is None or state.value() == 1


def numbers_are_keys(new: NewBackend) -> None:
    backend = make(new, Types.LONG())
    state = backend.table(ValueStateDescriptor("v", Types.LONG()))
    keys = [0, 1, -1, 2**63 - 1, -(2**63), 256]
    with epoch(backend, 0):
        for key in keys:
            at(backend, key)
            state.update(key)
    for key in keys:
        at(backend, key)
        assert state.value() == key


# ---- epochs


def a_rolled_back_epoch_never_was(new: NewBackend) -> None:
    backend = make(new)
    value, elements, entries = _three(backend)
    with epoch(backend):
        value.update(1)
        elements.add(1)
        entries.put("x", 1)
    backend.begin_epoch()
    at(backend, "k")
    value.update(2)
    elements.add(2)
    entries.put("y", 2)
    entries.remove("x")
    at(backend, "new")
    value.update(3)
    backend.roll_back()
    at(backend, "k")
    assert (value.value(), elements.get(), dict(entries.items())) == (1, [1], {"x": 1})
    at(backend, "new")
    assert value.value() is None


def what_was_cleared_comes_back_with_a_roll_back(new: NewBackend) -> None:
    backend = make(new)
    value, elements, entries = _three(backend)
    with epoch(backend):
        value.update(1)
        elements.add_all([1, 2])
        entries.put_all({"x": 1, "y": 2})
    backend.begin_epoch()
    at(backend, "k")
    for state in (value, elements, entries):
        state.clear()
    elements.add(9)
    entries.put("z", 9)
    backend.roll_back()
    at(backend, "k")
    assert (value.value(), elements.get(), dict(entries.items())) == (1, [1, 2], {"x": 1, "y": 2})


def an_epoch_can_be_run_again_after_a_roll_back(new: NewBackend) -> None:
    backend = make(new)
    value, elements, _ = _three(backend)
    for attempt in range(3):
        backend.begin_epoch()
        at(backend, "k")
        value.update((value.value() or 0) + 1)
        elements.add(attempt)
        if attempt < 2:
            backend.roll_back()
        else:
            backend.finish_epoch()
    at(backend, "k")
    assert (value.value(), elements.get()) == (1, [2])


def the_end_of_an_epoch_leaves_the_key(new: NewBackend) -> None:
    backend = make(new)
    value, _, _ = _three(backend)
    backend.begin_epoch()
    at(backend, "k")
    backend.finish_epoch()
    expect_error(StateAccessError, "no current key", value.value)


def an_epoch_without_changes_is_fine(new: NewBackend) -> None:
    backend = make(new)
    value, _, _ = _three(backend)
    for _ in range(3):
        backend.begin_epoch()
        backend.finish_epoch()
    at(backend, "k")
    assert value.value() is None and backend.entry_count() == 0


def _three(backend: KeyedBackend) -> tuple[Any, Any, Any]:
    return (
        backend.table(ValueStateDescriptor("v", Types.LONG())),
        backend.table(ListStateDescriptor("l", Types.LONG())),
        backend.table(MapStateDescriptor("m", Types.STRING(), Types.LONG())),
    )


# ---- timers


def timers_fire_in_the_order_of_time_and_key(new: NewBackend) -> None:
    backend, timers = _timers(new)
    with epoch(backend):
        for key, timestamp in (("b", 2), ("a", 2), ("c", 1), ("a", 5)):
            at(backend, key)
            timers.register(timestamp)
    with epoch(backend):
        assert list(timers.due(2)) == [(1, "c"), (2, "a"), (2, "b")]
        assert timers.next_timestamp() == 5


def a_timer_that_is_registered_twice_fires_once(new: NewBackend) -> None:
    backend, timers = _timers(new)
    with epoch(backend):
        timers.register(1)
        timers.register(1)
    with epoch(backend):
        timers.register(1)
        assert list(timers.due(1)) == [(1, "k")]
        assert list(timers.due(9)) == []
    with epoch(backend):
        assert list(timers.due(9)) == []


def a_deleted_timer_does_not_fire(new: NewBackend) -> None:
    backend, timers = _timers(new)
    with epoch(backend):
        timers.register(1)
        timers.register(2)
    with epoch(backend):
        timers.delete(1)
        timers.delete(7)
        assert list(timers.due(9)) == [(2, "k")]


def a_timer_registered_while_firing_fires_too(new: NewBackend) -> None:
    backend, timers = _timers(new)
    with epoch(backend):
        timers.register(1)
    fired = []
    with epoch(backend):
        for timestamp, backend.keys.key in timers.due(3):
            fired.append(timestamp)
            timers.register(timestamp + 1)
    assert fired == [1, 2, 3] and timers.next_timestamp() == 4


def fired_timers_come_back_with_a_roll_back(new: NewBackend) -> None:
    backend, timers = _timers(new)
    with epoch(backend):
        timers.register(1)
        timers.register(3)
    backend.begin_epoch()
    at(backend, "k")
    assert len(list(timers.due(2))) == 1
    timers.register(2)
    backend.roll_back()
    assert timers.next_timestamp() == 1
    with epoch(backend):
        assert list(timers.due(9)) == [(1, "k"), (3, "k")]


def timers_reach_from_the_first_to_the_last_moment(new: NewBackend) -> None:
    backend, timers = _timers(new)
    with epoch(backend):
        timers.register(MAX_WATERMARK)
        timers.register(MIN_WATERMARK)
        timers.register(0)
    with epoch(backend):
        fired = [timestamp for timestamp, _ in timers.due(MAX_WATERMARK)]
    assert fired == [MIN_WATERMARK, 0, MAX_WATERMARK] and timers.next_timestamp() is None


def timers_of_the_two_clocks_are_apart(new: NewBackend) -> None:
    backend = make(new)
    event, processing = Timers(backend, TimeDomain.EVENT_TIME), Timers(backend, TimeDomain.PROCESSING_TIME)
    with epoch(backend):
        event.register(1)
    assert processing.next_timestamp() is None and event.next_timestamp() == 1


def many_timers_at_one_time_fire_by_key(new: NewBackend) -> None:
    backend, timers = _timers(new)
    keys = [f"key {number:03d}" for number in range(200)]
    with epoch(backend):
        for key in reversed(keys):
            at(backend, key)
            timers.register(7)
    with epoch(backend):
        assert [key for _, key in timers.due(7)] == keys
    assert timers.next_timestamp() is None


def _timers(new: NewBackend) -> tuple[KeyedBackend, Timers]:
    backend = make(new)
    return backend, Timers(backend, TimeDomain.EVENT_TIME)


# ---- snapshots


def a_snapshot_brings_everything_back(new: NewBackend) -> None:
    (backend,) = restored(new, [sealed_file(_filled(new))])
    _check_filled([backend])


def a_snapshot_is_split_over_more_subtasks(new: NewBackend) -> None:
    _check_filled(restored(new, [sealed_file(_filled(new))], parallelism=3))


def snapshots_of_several_subtasks_become_one(new: NewBackend) -> None:
    parts = [sealed_file(backend) for backend in restored(new, [sealed_file(_filled(new))], parallelism=5)]
    _check_filled(restored(new, parts))


def another_number_of_key_groups_is_split_anew(new: NewBackend) -> None:
    for groups in (7, 128, 300):
        _check_filled(restored(new, [sealed_file(_filled(new))], parallelism=3, groups=groups))


def a_subtask_holds_only_its_own_keys(new: NewBackend) -> None:
    backends = restored(new, [sealed_file(_filled(new))], parallelism=4)
    assert sum(backend.entry_count() for backend in backends) == _filled(new).entry_count()
    for backend in backends:
        for key in KEYS:
            at(backend, key)
            if not _owns(backend, key):
                assert backend.table(ValueStateDescriptor("v", Types.LONG())).value() is None


def what_happens_after_a_seal_is_not_in_it(new: NewBackend) -> None:
    backend = _filled(new)
    sealed = backend.seal(CheckpointId(1), None, full=True)
    value, elements, entries = _three(backend)
    with epoch(backend, KEYS[0]):
        value.update(99)
        elements.add(99)
        entries.clear()
    assert isinstance(sealed, SealedTables)
    _check_filled(restored(new, [encode_snapshot([sealed])]))


def two_seals_each_hold_their_own_moment(new: NewBackend) -> None:
    backend = make(new)
    value, _, _ = _three(backend)
    seals = []
    for number in (1, 2):
        with epoch(backend):
            value.update(number)
        seals.append(backend.seal(CheckpointId(number), None, full=True))
    for number, sealed in enumerate(seals, 1):
        assert isinstance(sealed, SealedTables)
        (other,) = restored(new, [encode_snapshot([sealed])])
        at(other, "k")
        assert other.table(ValueStateDescriptor("v", Types.LONG())).value() == number


def a_restored_state_goes_on(new: NewBackend) -> None:
    (backend,) = restored(new, [sealed_file(_filled(new))])
    value, elements, entries = _three(backend)
    with epoch(backend, KEYS[0]):
        value.update(value.value() + 100)
        elements.add(100)
        entries.put("new", 100)
    (again,) = restored(new, [sealed_file(backend)])
    value, elements, entries = _three(again)
    at(again, KEYS[0])
    assert (value.value(), elements.get(), entries.get("new")) == (100, [0, 0, 100], 100)


def a_state_that_nobody_asks_for_is_carried_on(new: NewBackend) -> None:
    (unclaimed,) = restored(new, [sealed_file(_filled(new))])
    with epoch(unclaimed):
        pass
    _check_filled(restored(new, [sealed_file(unclaimed)]))


def timers_are_restored(new: NewBackend) -> None:
    backend, timers = _timers(new)
    with epoch(backend):
        timers.register(3)
        timers.register(1)
    (other,) = restored(new, [sealed_file(backend)])
    again = Timers(other, TimeDomain.EVENT_TIME)
    with epoch(other):
        assert list(again.due(9)) == [(1, "k"), (3, "k")]


def a_snapshot_with_other_keys_is_refused(new: NewBackend) -> None:
    ((info, rows), *_) = read_chain([sealed_file(_filled(new))], ALL, GROUPS)
    backend = make(new, Types.LONG())
    expect_error(TypeMismatchError, "was saved with keys of type", lambda: backend.restore(info, rows))


def a_snapshot_of_another_type_is_refused(new: NewBackend) -> None:
    (backend,) = restored(new, [sealed_file(_filled(new))])
    expect_error(TypeMismatchError, "was saved as", lambda: backend.table(ValueStateDescriptor("v", Types.STRING())))


def an_empty_backend_has_an_empty_snapshot(new: NewBackend) -> None:
    backend = make(new)
    value, _, _ = _three(backend)
    (other,) = restored(new, [sealed_file(backend)])
    at(other, "k")
    assert other.entry_count() == 0 and value is not None


def a_pickled_state_is_not_loaded_unless_it_is_declared(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ValueStateDescriptor("p", Types.PICKLED_BYTE_ARRAY()))
    with epoch(backend):
        state.update(_Loud())
    loaded = _Loud.loaded
    (unclaimed,) = restored(new, [sealed_file(backend)])
    (again,) = restored(new, [sealed_file(unclaimed)])
    assert _Loud.loaded == loaded
    at(again, "k")
    assert isinstance(again.table(ValueStateDescriptor("p", Types.PICKLED_BYTE_ARRAY())).value(), _Loud)


class _Loud:
    """Counts how often it is loaded from a pickle."""

    loaded = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        _Loud.loaded += 1

    def __getstate__(self) -> dict[str, Any]:
        return {"some": "thing"}


KEYS = [f"key {number}" for number in range(40)]


def _filled(new: NewBackend) -> KeyedBackend:
    backend = make(new)
    value, elements, entries = _three(backend)
    for _ in range(2):
        with epoch(backend):
            for number, key in enumerate(KEYS):
                at(backend, key)
                value.update(number)
                elements.add(number)
                entries.put("n", number)
                entries.put("none", None)
    return backend


def _check_filled(backends: Sequence[KeyedBackend]) -> None:
    found = 0
    for backend in backends:
        value, elements, entries = _three(backend)
        for number, key in enumerate(KEYS):
            if _owns(backend, key):
                at(backend, key)
                assert value.value() == number and elements.get() == [number, number]
                assert dict(entries.items()) == {"n": number, "none": None}
                found += 1
    assert found == len(KEYS)


def _owns(backend: KeyedBackend, key: str) -> bool:
    group = key_group_of(backend.key_codec.hash(key), backend.max_parallelism)
    return backend.key_groups[0] <= group <= backend.key_groups[1]


CHECKS: list[Callable[[NewBackend], None]] = [
    check
    for name, check in list(globals().items())
    if callable(check) and getattr(check, "__annotations__", {}).get("new") is NewBackend
    if not name.startswith("_") and name not in ("make", "restored")
]
"""Every case, in the order above."""
