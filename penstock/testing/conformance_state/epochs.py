"""Names and keys, epochs, timers."""

from collections.abc import Callable
from typing import Any

from penstock.errors import StateAccessError, TypeMismatchError
from penstock.model.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK, TimeDomain
from penstock.model.types import TAGGED, Types
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.timers import Timers
from penstock.testing.conformance_state.tools import (
    NewBackend,
    at,
    entry_count,
    epoch,
    expect_error,
    make,
    three_states,
)


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


def untyped_keys_of_different_types_are_different(new: NewBackend) -> None:
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
    assert state.value() == "zero" and entry_count(backend) == len(keys) + 1


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


def a_rolled_back_epoch_has_no_effect(new: NewBackend) -> None:
    backend = make(new)
    value, elements, entries = three_states(backend)
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


def a_roll_back_restores_cleared_state(new: NewBackend) -> None:
    backend = make(new)
    value, elements, entries = three_states(backend)
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
    value, elements, _ = three_states(backend)
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


def the_end_of_an_epoch_clears_the_current_key(new: NewBackend) -> None:
    backend = make(new)
    value, _, _ = three_states(backend)
    backend.begin_epoch()
    at(backend, "k")
    backend.finish_epoch()
    expect_error(StateAccessError, "no current key", value.value)


def an_epoch_may_have_no_changes(new: NewBackend) -> None:
    backend = make(new)
    value, _, _ = three_states(backend)
    for _ in range(3):
        backend.begin_epoch()
        backend.finish_epoch()
    at(backend, "k")
    assert value.value() is None and entry_count(backend) == 0


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


def a_roll_back_restores_fired_timers(new: NewBackend) -> None:
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


def timers_of_the_two_time_domains_are_separate(new: NewBackend) -> None:
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
