"""Value, reducing and aggregating states."""

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

from penstock.errors import UnsupportedValueError
from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.row import Row
from penstock.model.types import Types, resolve_type
from penstock.state.format.snapshot_file import read_chain
from penstock.testing.conformance_state.tools import (
    ALL,
    GROUPS,
    Mean,
    NewBackend,
    at,
    entry_count,
    epoch,
    expect_error,
    make,
    sealed_file,
)


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
    assert state.value() is None and entry_count(backend) == 0


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
        (resolve_type("decimal(38,18)"), Decimal("-1.500000000000000000")),
        (Types.BIG_DEC(), Decimal("-1.50")),
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


def changing_a_returned_value_does_not_change_the_state(new: NewBackend) -> None:
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


def a_pickled_value_is_read_back(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY()))
    with epoch(backend):
        state.update({1, 2})
    assert state.value() == {1, 2}


def a_reducing_state_combines_values(new: NewBackend) -> None:
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


def clearing_a_reducing_or_aggregating_state_starts_over(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(AggregatingStateDescriptor("a", Mean(), Types.LIST(Types.LONG())))
    with epoch(backend):
        state.add(100)
    with epoch(backend):
        state.clear()
        state.add(2)
        assert state.get() == 2.0
