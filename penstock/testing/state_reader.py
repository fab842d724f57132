"""Reads the state of a key, for tests."""

from typing import Any

from penstock.model.key_groups import key_group_of
from penstock.model.state import ListState, MapState, ValueState
from penstock.state.backend.keyed_backend import KeyedBackend


def owns(backend: KeyedBackend, key: Any) -> bool:
    """Whether the key belongs to this backend's key groups."""
    codec = backend.key_codec
    group = key_group_of(codec.hash(codec.to_state_key(key)), backend.max_parallelism)
    return backend.key_groups[0] <= group <= backend.key_groups[1]


def read_state(backend: KeyedBackend, name: str, key: Any) -> Any:
    """The state of a key: a value, a list, a dict or an aggregation result. Restores the current key."""
    keys = backend.keys
    before, keys.key = keys.key, backend.key_codec.to_state_key(key)
    try:
        handle = backend.handle(name)
        if isinstance(handle, ValueState):
            return handle.value()
        if isinstance(handle, MapState):
            return dict(handle.items())
        return list(handle.get()) if isinstance(handle, ListState) else handle.get()
    finally:
        keys.key = before
