"""Seals, restores and rescaling."""

from collections.abc import Sequence
from typing import Any

from penstock.errors import IncompatibleStateError
from penstock.model.descriptors import (
    ValueStateDescriptor,
)
from penstock.model.ids import CheckpointId
from penstock.model.key_groups import key_group_of
from penstock.model.time import TimeDomain
from penstock.model.types import Types
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.sealed_state import SealedTables
from penstock.state.format.snapshot_file import encode_snapshot, read_chain
from penstock.state.timers import Timers
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
    three_states,
)


def a_snapshot_restores_everything(new: NewBackend) -> None:
    (backend,) = restored(new, [sealed_file(_filled(new))])
    _check_filled([backend])


def a_snapshot_is_split_over_more_subtasks(new: NewBackend) -> None:
    _check_filled(restored(new, [sealed_file(_filled(new))], parallelism=3))


def snapshots_of_several_subtasks_become_one(new: NewBackend) -> None:
    parts = [sealed_file(backend) for backend in restored(new, [sealed_file(_filled(new))], parallelism=5)]
    _check_filled(restored(new, parts))


def another_max_parallelism_is_restored(new: NewBackend) -> None:
    for groups in (7, 128, 300):
        _check_filled(restored(new, [sealed_file(_filled(new))], parallelism=3, groups=groups))


def a_subtask_holds_only_its_own_keys(new: NewBackend) -> None:
    backends = restored(new, [sealed_file(_filled(new))], parallelism=4)
    assert sum(entry_count(backend) for backend in backends) == entry_count(_filled(new))
    for backend in backends:
        for key in KEYS:
            at(backend, key)
            if not _owns(backend, key):
                assert backend.table(ValueStateDescriptor("v", Types.LONG())).value() is None


def what_happens_after_a_seal_is_not_in_it(new: NewBackend) -> None:
    backend = _filled(new)
    sealed = backend.seal(CheckpointId(1), None, full=True)
    value, elements, entries = three_states(backend)
    with epoch(backend, KEYS[0]):
        value.update(99)
        elements.add(99)
        entries.clear()
    assert isinstance(sealed, SealedTables)
    _check_filled(restored(new, [encode_snapshot([sealed])]))


def two_seals_are_independent(new: NewBackend) -> None:
    backend = make(new)
    value, _, _ = three_states(backend)
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


def a_restored_state_can_be_changed(new: NewBackend) -> None:
    (backend,) = restored(new, [sealed_file(_filled(new))])
    value, elements, entries = three_states(backend)
    with epoch(backend, KEYS[0]):
        value.update(value.value() + 100)
        elements.add(100)
        entries.put("new", 100)
    (again,) = restored(new, [sealed_file(backend)])
    value, elements, entries = three_states(again)
    at(again, KEYS[0])
    assert (value.value(), elements.get(), entries.get("new")) == (100, [0, 0, 100], 100)


def a_state_that_no_function_declares_stays_in_snapshots(new: NewBackend) -> None:
    (undeclared,) = restored(new, [sealed_file(_filled(new))])
    with epoch(undeclared):
        pass
    _check_filled(restored(new, [sealed_file(undeclared)]))


def timers_are_restored(new: NewBackend) -> None:
    backend = make(new)
    timers = Timers(backend, TimeDomain.EVENT_TIME)
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
    expect_error(IncompatibleStateError, "keyed by STRING", lambda: backend.restore(info, rows))


def a_snapshot_of_another_type_is_refused(new: NewBackend) -> None:
    (backend,) = restored(new, [sealed_file(_filled(new))])
    expect_error(
        IncompatibleStateError, "was saved as", lambda: backend.table(ValueStateDescriptor("v", Types.STRING()))
    )


def an_empty_backend_has_an_empty_snapshot(new: NewBackend) -> None:
    backend = make(new)
    value, _, _ = three_states(backend)
    (other,) = restored(new, [sealed_file(backend)])
    at(other, "k")
    assert entry_count(other) == 0 and value is not None


def a_pickled_state_is_not_loaded_unless_it_is_declared(new: NewBackend) -> None:
    backend = make(new)
    state = backend.table(ValueStateDescriptor("p", Types.PICKLED_BYTE_ARRAY()))
    with epoch(backend):
        state.update(_Loud())
    loaded = _Loud.loaded
    (undeclared,) = restored(new, [sealed_file(backend)])
    (again,) = restored(new, [sealed_file(undeclared)])
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
    value, elements, entries = three_states(backend)
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
        value, elements, entries = three_states(backend)
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
