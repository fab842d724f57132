"""Deletes the entries of a state that a program no longer has."""

from typing import Any

from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor, ValueStateDescriptor
from penstock.model.snapshot import StateTableInfo
from penstock.model.type_information import parse_type
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.ttl.stamps import without_ttl


def open_discarded(backend: KeyedBackend, name: str) -> Any:
    """The handle of a value, list or map state that is to be discarded; None if the backend has none of this name."""
    info = backend.info(name)
    if info is None or info.kind not in ("value", "list", "map"):
        return None
    return backend.handle(name) if backend.is_declared(name) else backend.table(_descriptor(info))


def clear_all(backend: KeyedBackend, name: str, handle: Any) -> None:
    """Delete the entries of all keys in a state. Called in an epoch."""
    for key in backend.keys_with(name):
        backend.keys.key = key
        handle.clear()
    backend.keys.clear()


def _descriptor(info: StateTableInfo) -> StateDescriptor:
    """Reads the state as it was saved, without its time to live."""
    plain = without_ttl(info)
    value_type = parse_type(plain.value_type)
    if plain.kind == "map":
        return MapStateDescriptor(info.name, parse_type(plain.map_key_type or ""), value_type)
    if plain.kind == "list":
        return ListStateDescriptor(info.name, value_type.children[0])
    return ValueStateDescriptor(info.name, value_type)
