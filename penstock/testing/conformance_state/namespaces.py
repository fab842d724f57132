"""Namespaces: states and timers of a key and, for example, a window."""

from typing import Any

from penstock.errors import IncompatibleStateError, StateAccessError, TypeMismatchError
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.time import Time, TimeDomain
from penstock.model.ttl import StateTtlConfig
from penstock.model.type_information import TypeInformation
from penstock.model.types import TAGGED, Types
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.namespace_merging import merge_namespaces
from penstock.state.timers import Timers
from penstock.testing.conformance_state.tools import (
    Mean,
    NewBackend,
    at,
    entry_count,
    epoch,
    expect_error,
    make,
    restored,
    sealed_file,
    three_states,
)

WINDOW = Types.TUPLE([Types.LONG(), Types.LONG()])
FIRST, SECOND, THIRD = (0, 10), (10, 20), (-10, 0)


def each_namespace_of_a_key_has_its_own_state(new: NewBackend) -> None:
    backend = make(new)
    states, plain = _states(backend), backend.table(ValueStateDescriptor("plain", Types.LONG()))
    with epoch(backend):
        _write(backend, states, FIRST, 1)
        _write(backend, states, SECOND, 2)
        plain.update(9)
        at(backend, "other")
        _write(backend, states, FIRST, 3)
    assert [_read(backend, states, key, FIRST) for key in ("k", "other", "third")] == [_all(1), _all(3), NOTHING]
    assert [_read(backend, states, key, SECOND) for key in ("k", "other")] == [_all(2), NOTHING]
    at(backend, "k")
    assert plain.value() == 9


def a_namespace_must_be_set(new: NewBackend) -> None:
    backend = make(new)
    value, elements, entries = _states(backend)
    with epoch(backend):
        for use in (value.value, lambda: value.update(1), elements.get, lambda: entries.put("x", 1), entries.clear):
            expect_error(StateAccessError, "no namespace is set", use)
        _write(backend, (value, elements, entries), FIRST, 1)
    expect_error(StateAccessError, "no namespace is set", value.value)  # the end of an epoch clears it
    backend.begin_epoch()
    backend.keys.clear()
    backend.set_current_namespace(FIRST)
    expect_error(StateAccessError, "no current key", value.value)
    backend.roll_back()


def keys_and_namespaces_are_not_confused(new: NewBackend) -> None:
    backend = make(new)
    states = _states(backend, Types.STRING())
    places = [("a", "bc"), ("ab", "c"), ("", "abc"), ("abc", ""), ("a", "b"), ("a\0", "b"), ("a", "\0b")]
    with epoch(backend):
        for number, (key, namespace) in enumerate(places):
            at(backend, key)
            _write(backend, states, namespace, number)
    assert [_read(backend, states, *place) for place in places] == [_all(number) for number in range(len(places))]
    assert sorted(backend.keys_with("v")) == sorted(places)
    (other,) = restored(new, [sealed_file(backend)])
    states = _states(other, Types.STRING())
    assert [_read(other, states, *place) for place in places] == [_all(number) for number in range(len(places))]


def untyped_namespaces_of_different_types_are_different(new: NewBackend) -> None:
    backend = make(new)
    value = backend.table(ValueStateDescriptor("v"), TAGGED)
    assert backend.namespace_codec is not None
    namespaces = [backend.namespace_codec.to_state_key(it) for it in (1, True, 1.0, "1", (1, "a"), b"1")]
    with epoch(backend):
        for number, namespace in enumerate(namespaces):
            backend.set_current_namespace(namespace)
            value.update(number)
    for number, namespace in enumerate(namespaces):
        backend.set_current_namespace(namespace)
        assert value.value() == number
    assert [backend.namespace_codec.to_user_key(it) for it in backend.namespaces_with("v")].count("1") == 1


def clearing_a_namespace_leaves_the_others(new: NewBackend) -> None:
    backend = make(new)
    states = _states(backend)
    with epoch(backend):
        _write(backend, states, FIRST, 1)
        _write(backend, states, SECOND, 2)
    with epoch(backend):
        backend.set_current_namespace(FIRST)
        for state in states:
            state.clear()
        assert [backend.namespaces_with(name) for name in "vlm"] == [[SECOND]] * 3
    assert _read(backend, states, "k", FIRST) == NOTHING and _read(backend, states, "k", SECOND) == _all(2)
    assert entry_count(backend) == 3


def the_namespaces_of_a_key_are_listed(new: NewBackend) -> None:
    backend = make(new)
    states = _states(backend)
    with epoch(backend):
        _write(backend, states, FIRST, 1)
        at(backend, "k2")
        _write(backend, states, SECOND, 1)
        assert [backend.namespaces_with(name) for name in "vlm"] == [[SECOND]] * 3
    with epoch(backend):
        _write(backend, states, THIRD, 1)
        assert [sorted(backend.namespaces_with(name)) for name in "vlm"] == [[THIRD, FIRST]] * 3
        backend.set_current_namespace(FIRST)
        states[0].clear()
        assert backend.namespaces_with("v") == [THIRD]
    assert sorted(backend.keys_with("v")) == [("k", THIRD), ("k2", SECOND)]
    at(backend, "nobody")
    assert backend.namespaces_with("v") == []


def a_rolled_back_epoch_leaves_no_namespace(new: NewBackend) -> None:
    backend = make(new)
    states = _states(backend)
    with epoch(backend):
        _write(backend, states, FIRST, 1)
    backend.begin_epoch()
    at(backend, "k")
    _write(backend, states, FIRST, 2)
    _write(backend, states, SECOND, 2)
    backend.roll_back()
    at(backend, "k")
    assert _read(backend, states, "k", FIRST) == _all(1) and _read(backend, states, "k", SECOND) == NOTHING
    assert backend.namespaces_with("v") == [FIRST]


def namespaces_are_in_snapshots(new: NewBackend) -> None:
    backend = make(new)
    states, plain = _states(backend), backend.table(ValueStateDescriptor("plain", Types.LONG()))
    keys = [f"key {number}" for number in range(30)]
    with epoch(backend):
        for number, key in enumerate(keys):
            at(backend, key)
            plain.update(number)
            _write(backend, states, FIRST, number)
            _write(backend, states, (number, number + 1), -number)
    waiting = restored(new, [sealed_file(backend)], parallelism=3)
    parts = restored(new, [sealed_file(part) for part in waiting], parallelism=4, groups=7)
    found = 0
    for part in parts:
        states, plain = _states(part), part.table(ValueStateDescriptor("plain", Types.LONG()))
        for number, key in enumerate(keys):
            at(part, key)
            if plain.value() is not None:
                found += 1
                assert plain.value() == number and _read(part, states, key, (number, number + 1)) == _all(-number)
                assert _read(part, states, key, FIRST) == _all(number)
    assert found == len(keys) and sum(map(entry_count, parts)) == 7 * len(keys)


def timers_of_namespaces_fire_by_time_key_and_namespace(new: NewBackend) -> None:
    backend = make(new)
    timers = Timers(backend, TimeDomain.EVENT_TIME, WINDOW)
    registered = [(2, "b", FIRST), (2, "a", SECOND), (1, "c", THIRD), (2, "a", THIRD), (2, "a", SECOND)]
    with epoch(backend):
        for timestamp, key, namespace in [*registered, (5, "a", FIRST)]:
            backend.enter((key, namespace))
            timers.register(timestamp)
        timers.register(9)
        timers.delete(9)
    (other,) = restored(new, [sealed_file(backend)])
    for owner in (backend, other):
        timers = Timers(owner, TimeDomain.EVENT_TIME, WINDOW)
        with epoch(owner):
            fired = [(timestamp, *address) for timestamp, address in timers.due(4)]
            assert fired == [(1, "c", THIRD), (2, "a", THIRD), (2, "a", SECOND), (2, "b", FIRST)]
            assert timers.next_timestamp() == 5


def a_firing_timer_sets_key_and_namespace(new: NewBackend) -> None:
    backend = make(new)
    states, timers = _states(backend), Timers(backend, TimeDomain.EVENT_TIME, WINDOW)
    with epoch(backend):
        _write(backend, states, FIRST, 1)
        timers.register(1)
    with epoch(backend, "other"):
        for _, address in timers.due(9):
            backend.enter(address)
            assert backend.keys.key == "k" and states[0].value() == 1
            states[0].clear()
            timers.register(20)
    with epoch(backend):
        assert list(timers.due(20)) == [(20, ("k", FIRST))]


def namespaces_are_merged(new: NewBackend) -> None:
    backend = make(new)
    elements = backend.table(ListStateDescriptor("l", Types.LONG()), WINDOW)
    total = backend.table(ReducingStateDescriptor("r", lambda a, b: a + b, Types.LONG()), WINDOW)
    mean = backend.table(AggregatingStateDescriptor("a", Mean()), WINDOW)
    with epoch(backend):
        for namespace, numbers in ((FIRST, [1, 2]), (SECOND, [3]), (THIRD, [4, 5])):
            backend.set_current_namespace(namespace)
            for number in numbers:
                elements.add(number)
                total.add(number)
                mean.add(number)
    for target in (SECOND, (7, 7)):  # an existing one and a new one
        with epoch(backend):
            for state in (elements, total, mean):
                merge_namespaces(backend, state, target, [FIRST, SECOND, THIRD, (99, 99)])
                assert backend.scope.key == ("k", target)
        assert [backend.namespaces_with(name) for name in "lra"] == [[target]] * 3
        backend.set_current_namespace(target)
        assert (list(elements.get()), total.get(), mean.get()) == ([3, 1, 2, 4, 5], 15, 3.0)


def merging_empty_namespaces_has_no_effect(new: NewBackend) -> None:
    backend = make(new)
    elements = backend.table(ListStateDescriptor("l", Types.LONG()), WINDOW)
    mean = backend.table(AggregatingStateDescriptor("a", Mean()), WINDOW)
    with epoch(backend):
        for state in (elements, mean):
            merge_namespaces(backend, state, FIRST, [SECOND, THIRD])
    assert entry_count(backend) == 0


def entries_expire_separately_in_each_namespace(new: NewBackend) -> None:
    backend = make(new)
    descriptor = ValueStateDescriptor("v", Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(100)).build())
    value = backend.table(descriptor, WINDOW)
    for now_ms, namespace in ((0, FIRST), (60, SECOND)):
        backend.ttl.clock.now_ms = now_ms
        with epoch(backend):
            backend.set_current_namespace(namespace)
            value.update(now_ms)
    backend.ttl.clock.now_ms = 110
    with epoch(backend):
        backend.set_current_namespace(FIRST)
        assert value.value() is None
        backend.set_current_namespace(SECOND)
        assert value.value() == 60
    assert backend.namespaces_with("v") == [SECOND]


def an_operator_has_one_type_of_namespaces(new: NewBackend) -> None:
    backend = make(new)
    _states(backend)
    expect_error(
        TypeMismatchError,
        "an operator has one type of namespaces",
        lambda: backend.table(ValueStateDescriptor("other"), Types.LONG()),
    )
    expect_error(
        TypeMismatchError, "State name corrupted", lambda: backend.table(ValueStateDescriptor("v", Types.LONG()))
    )


def a_state_does_not_change_its_namespaces_with_a_restore(new: NewBackend) -> None:
    backend = make(new)
    with_namespaces, without = _states(backend), backend.table(ValueStateDescriptor("plain", Types.LONG()))
    with epoch(backend):
        _write(backend, with_namespaces, FIRST, 1)
        without.update(1)
    (other,) = restored(new, [sealed_file(backend)])
    for ask in (
        lambda: other.table(ValueStateDescriptor("v", Types.LONG())),
        lambda: other.table(ValueStateDescriptor("plain", Types.LONG()), WINDOW),
    ):
        expect_error(IncompatibleStateError, "its namespaces change from", ask)


NOTHING: tuple[Any, ...] = (None, [], {})


def _all(number: int) -> tuple[Any, ...]:
    return number, [number], {"x": number}


def _states(backend: KeyedBackend, namespace_type: TypeInformation = WINDOW) -> tuple[Any, Any, Any]:
    """The three states, with namespaces."""
    return three_states(backend, namespace_type)


def _write(backend: KeyedBackend, states: tuple[Any, Any, Any], namespace: Any, number: int) -> None:
    value, elements, entries = states
    backend.set_current_namespace(namespace)
    value.update(number)
    elements.add(number)
    entries.put("x", number)


def _read(backend: KeyedBackend, states: tuple[Any, Any, Any], key: str, namespace: Any) -> tuple[Any, ...]:
    value, elements, entries = states
    at(backend, key)
    backend.set_current_namespace(namespace)
    return value.value(), list(elements.get()), dict(entries.items())
