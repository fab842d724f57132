"""Checks of `LiveReads`: what queries see beside epochs. A backend without it passes them all."""

from collections.abc import Callable
from typing import Any

from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.model.types import Types
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.live_reads import LiveReads
from penstock.testing.conformance_state.tools import NewBackend, at, epoch, make

KEYS = ["a", "b", "c", "d", "e"]
Change = Callable[[KeyedBackend, Any], None]


def _value(backend: KeyedBackend) -> Any:
    return backend.table(ValueStateDescriptor("s", Types.LONG()))


def _list(backend: KeyedBackend) -> Any:
    return backend.table(ListStateDescriptor("s", Types.LONG()))


def _map(backend: KeyedBackend) -> Any:
    return backend.table(MapStateDescriptor("s", Types.STRING(), Types.LONG()))


def _first_values(backend: KeyedBackend, state: Any) -> None:
    for number, key in enumerate("abc"):
        at(backend, key)
        state.update(number)


def _later_values(backend: KeyedBackend, state: Any) -> None:
    at(backend, "a")
    state.update(10)
    state.update(11)
    at(backend, "b")
    state.clear()
    at(backend, "d")
    state.update(4)
    at(backend, "e")
    state.update(5)
    state.clear()


def _first_lists(backend: KeyedBackend, state: Any) -> None:
    for key in "abc":
        at(backend, key)
        state.add_all([1, 2])


def _later_lists(backend: KeyedBackend, state: Any) -> None:
    at(backend, "a")
    state.add(3)
    at(backend, "b")
    state.add(3)
    state.update([9])
    at(backend, "c")
    state.clear()
    at(backend, "d")
    state.add(4)
    at(backend, "e")
    state.add(5)
    state.clear()


def _first_maps(backend: KeyedBackend, state: Any) -> None:
    for key in "abc":
        at(backend, key)
        state.put_all({"x": 1, "y": 2})


def _later_maps(backend: KeyedBackend, state: Any) -> None:
    at(backend, "a")
    state.put("x", 10)
    state.remove("y")
    state.put("z", 3)
    at(backend, "b")
    state.put("x", 7)
    state.clear()
    state.put("w", 1)
    at(backend, "c")
    state.remove("x")
    state.remove("y")
    at(backend, "d")
    state.put("x", 4)


_VALUES = (_value, _first_values, _later_values, [0, 1, 2, None, None], [11, None, 2, 4, None])
_LISTS = (_list, _first_lists, _later_lists, [[1, 2], [1, 2], [1, 2], None, None], [[1, 2, 3], [9], None, [4], None])
_XY = {"x": 1, "y": 2}
_MAPS = (
    _map,
    _first_maps,
    _later_maps,
    [_XY, _XY, _XY, None, None],
    [{"x": 10, "z": 3}, {"w": 1}, None, {"x": 4}, None],
)


def queries_see_values_of_finished_epochs_only(new: NewBackend) -> None:
    _check(new, _VALUES)


def queries_see_lists_of_finished_epochs_only(new: NewBackend) -> None:
    _check(new, _LISTS)


def queries_see_maps_of_finished_epochs_only(new: NewBackend) -> None:
    _check(new, _MAPS)


def queries_see_what_a_rollback_restores(new: NewBackend) -> None:
    for state_of, first, later, old, _ in (_VALUES, _LISTS, _MAPS):
        backend = make(new)
        if not isinstance(backend, LiveReads):
            return
        state = state_of(backend)
        with epoch(backend):
            first(backend, state)
        backend.begin_epoch()
        later(backend, state)
        backend.roll_back()
        assert backend.read_live("s", KEYS, before=False) == old
        assert _listed(backend, before=False) == _present(old)


def _check(new: NewBackend, case: tuple[Any, Change, Change, list[Any], list[Any]]) -> None:
    state_of, first, later, old, changed = case
    backend = make(new)
    if not isinstance(backend, LiveReads):
        return
    state = state_of(backend)
    with epoch(backend):
        first(backend, state)
        assert _listed(backend, before=True) == []
        assert backend.read_live("s", KEYS, before=True) == [None] * len(KEYS)
    assert backend.read_live("s", KEYS, before=False) == old
    assert _listed(backend, before=False) == _present(old)
    with epoch(backend):
        later(backend, state)
        assert backend.read_live("s", KEYS, before=True) == old
        assert _listed(backend, before=True) == _present(old)
    # A backend may have given up what was there before; it then says so, and never shows something else.
    assert backend.read_live("s", KEYS, before=True) in (old, None)
    assert _listed(backend, before=True) in (_present(old), None)
    assert backend.read_live("s", KEYS, before=False) == changed
    assert _listed(backend, before=False) == _present(changed)
    first_two = backend.list_live("s", 2, before=False)
    assert first_two is not None and len(first_two) == 2 and set(first_two) <= set(_present(changed))
    with epoch(backend):
        assert backend.read_live("s", KEYS, before=True) == changed


def _listed(backend: Any, *, before: bool) -> list[Any] | None:
    found = backend.list_live("s", 100, before=before)
    return None if found is None else sorted(found)


def _present(values: list[Any]) -> list[str]:
    return [key for key, value in zip(KEYS, values, strict=True) if value is not None]
