"""Schema evolution and time to live."""

from typing import Any

from penstock.errors import IncompatibleStateError
from penstock.model.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.model.row import Row
from penstock.model.time import Time
from penstock.model.types import Types
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.format.snapshot_file import read_snapshot
from penstock.testing.conformance_state.tools import (
    ALL,
    GROUPS,
    NewBackend,
    at,
    entry_count,
    epoch,
    expect_error,
    make,
    restored,
    sealed_file,
)

OLD, NEW = "n int, gone string", "country string, n bigint"
ENTRY, CHANGED = Row(n=1, gone="x"), Row(country=None, n=1)
TTL_MS = 1_000


def fields_are_added_and_removed_and_numbers_widened(new: NewBackend) -> None:
    (backend,) = restored(new, [sealed_file(_filled(new, OLD))])
    _check(backend, NEW, CHANGED)


def a_changed_state_is_saved_with_its_new_type(new: NewBackend) -> None:
    (backend,) = restored(new, [sealed_file(_filled(new, OLD))])
    _check(backend, NEW, CHANGED)
    types = {info.value_type for info, _ in read_snapshot(sealed_file(backend), ALL, GROUPS) if info.name == "v"}
    assert types == {'ROW<"country" STRING, "n" LONG>'}
    (again,) = restored(new, [sealed_file(backend)])
    _check(again, NEW, CHANGED)


def parts_with_two_schemas_are_merged(new: NewBackend) -> None:
    old, other = _filled(new, OLD), _filled(new, NEW, key="other", entry=Row(country="fr", n=2))
    for files in ((old, other), (other, old)):
        (backend,) = restored(new, [sealed_file(part) for part in files])
        (carried,) = restored(new, [sealed_file(backend)])
        for one in (backend, carried):
            value, _, _ = _states(one, f"{NEW}, gone string")
            assert _read(one, value, "k") == Row(country=None, n=1, gone="x")
            assert _read(one, value, "other") == Row(country="fr", n=2, gone=None)


def an_incompatible_schema_is_refused_and_the_state_is_kept(new: NewBackend) -> None:
    (backend,) = restored(new, [sealed_file(_filled(new, OLD))])
    expect_error(
        IncompatibleStateError, "INCOMPATIBLE_STATE", lambda: backend.table(ValueStateDescriptor("v", "n string"))
    )
    expect_error(IncompatibleStateError, "is not a", lambda: backend.table(ListStateDescriptor("v", OLD)))
    _check(backend, OLD, ENTRY)


def a_migration_converts_what_no_rule_covers(new: NewBackend) -> None:
    (backend,) = restored(new, [sealed_file(_filled(new, OLD))])
    seen: list[Any] = []

    def migrate(row: Any) -> str:
        seen.append(row)
        return str(row.n)

    states = _states(backend, "string", migrate)
    at(backend, "k")
    assert [_content(state) for state in states] == ["1", ["1"], {"m": "1"}]
    assert seen == [ENTRY] * 3


def entries_that_a_migration_drops_are_removed(new: NewBackend) -> None:
    (backend,) = restored(new, [sealed_file(_filled(new, OLD))])
    states = _states(backend, "string", lambda row: None)
    at(backend, "k")
    assert [_content(state) for state in states] == [None, [], {}]
    assert entry_count(backend) == 0


def entries_expire(new: NewBackend) -> None:
    backend = make(new)
    value = backend.table(_expiring())
    backend.ttl.clock.now_ms = 0
    with epoch(backend):
        value.update(1)
    backend.ttl.clock.now_ms = TTL_MS - 1
    with epoch(backend):
        assert value.value() == 1
    backend.ttl.clock.now_ms = TTL_MS
    with epoch(backend):
        assert value.value() is None


def stamps_are_restored_and_may_be_added_or_removed(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(_expiring())
    with epoch(backend):
        state.update(1)
    file = sealed_file(backend)
    (plain,), (again,) = restored(new, [file]), restored(new, [file])
    assert _read(plain, plain.table(ValueStateDescriptor("e", Types.LONG())), "k") == 1
    state = again.table(_expiring())
    again.ttl.clock.now_ms = TTL_MS
    with epoch(again):
        assert state.value() is None
    (stamped,) = restored(new, [sealed_file(plain)])
    state = stamped.table(_expiring())
    stamped.ttl.clock.now_ms = 9 * TTL_MS
    with epoch(stamped):
        assert state.value() == 1  # it was saved without a stamp


def keys_with_entries_are_listed(new: NewBackend) -> None:
    backend = _filled(new, OLD)
    value, elements, entries = _states(backend, OLD)
    assert [backend.keys_with(name) for name in "vlm"] == [["k"]] * 3
    with epoch(backend, "second"):
        value.update(ENTRY)
        elements.add(ENTRY)
        entries.put("m", ENTRY)
        at(backend, "k")
        for state in (value, elements, entries):
            state.clear()
        assert [backend.keys_with(name) for name in "vlm"] == [["second"]] * 3
        assert backend.keys.key == "k"
    assert [backend.keys_with(name) for name in "vlm"] == [["second"]] * 3


def _states(backend: KeyedBackend, type_info: Any, migrate: Any = None) -> tuple[Any, Any, Any]:
    """A value, a list and a map."""
    descriptors: tuple[StateDescriptor, ...] = (
        ValueStateDescriptor("v", type_info),
        ListStateDescriptor("l", type_info),
        MapStateDescriptor("m", Types.STRING(), type_info),
    )
    for descriptor in descriptors:
        if migrate is not None:
            descriptor.migrate(migrate)
    value, elements, entries = map(backend.table, descriptors)
    return value, elements, entries


def _filled(new: NewBackend, type_info: str, key: str = "k", entry: Row = ENTRY) -> KeyedBackend:
    backend = make(new)
    value, elements, entries = _states(backend, type_info)
    with epoch(backend, key):
        value.update(entry)
        elements.add(entry)
        entries.put("m", entry)
    return backend


def _check(backend: KeyedBackend, type_info: str, entry: Row) -> None:
    states = _states(backend, type_info)
    at(backend, "k")
    assert [_content(state) for state in states] == [entry, [entry], {"m": entry}]


def _content(state: Any) -> Any:
    if hasattr(state, "items"):
        return dict(state.items())
    return state.value() if hasattr(state, "value") else list(state.get())


def _read(backend: KeyedBackend, state: Any, key: str) -> Any:
    at(backend, key)
    return state.value()


def _expiring() -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor("e", Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(TTL_MS)).build())
    return descriptor
