"""Reads the state of a key and the metrics of functions, for tests."""

from collections.abc import Iterable
from typing import Any

from penstock.model.key_groups import key_group_of
from penstock.model.metric_readings import MergedMetric, merge_readings
from penstock.model.state import ListState, MapState, ValueState
from penstock.runtime.process.subtask_host import SubtaskHost
from penstock.runtime.task import Subtask
from penstock.state.backend.keyed_backend import KeyedBackend


def owns(backend: KeyedBackend, key: Any) -> bool:
    """Whether the key belongs to this backend's key groups."""
    codec = backend.key_codec
    group = key_group_of(codec.hash(codec.to_state_key(key)), backend.max_parallelism)
    return backend.key_groups[0] <= group <= backend.key_groups[1]


def backends_of(host: SubtaskHost, uid: str) -> list[KeyedBackend]:
    """The keyed state of an operator, in all of its subtasks."""
    found = (subtask.backends.get(uid) for subtask in host.subtasks())
    return [backend for backend in found if backend is not None]


def find_state(backends: Iterable[KeyedBackend], name: str, key: Any, namespace: Any = None) -> Any:
    """`read_state` of the backend that owns the key; None without one."""
    owner = next((backend for backend in backends if owns(backend, key)), None)
    return None if owner is None else read_state(owner, name, key, namespace)


def list_keys(backend: KeyedBackend, name: str) -> list[Any]:
    """The keys with entries in a state, as users know them; each once, whatever its namespaces."""
    info = backend.info(name)
    found = backend.keys_with(name) if backend.is_declared(name) else []
    if info is not None and info.namespace is not None:
        found = list(dict.fromkeys(key for key, _ in found))
    return list(map(backend.key_codec.to_user_key, found))


def read_state(backend: KeyedBackend, name: str, key: Any, namespace: Any = None) -> Any:
    """The value, list, dict or result of a key, in a namespace if one is given. The current key stays what it was."""
    keys, scope = backend.keys, backend.scope
    before = keys.key, scope.key
    keys.key = backend.key_codec.to_state_key(key)
    if namespace is not None and backend.namespace_codec is not None:
        backend.set_current_namespace(backend.namespace_codec.to_state_key(namespace))
    try:
        handle = backend.handle(name)
        if isinstance(handle, ValueState):
            return handle.value()
        if isinstance(handle, MapState):
            return dict(handle.items())
        return list(handle.get()) if isinstance(handle, ListState) else handle.get()
    finally:
        keys.key, scope.key = before


def metrics_of(subtasks: Iterable[Subtask]) -> dict[str, Any]:
    """Metrics of functions merged over subtasks, by name."""
    readings = ((task.place.index, reading) for task in subtasks for reading in task.info.metrics.readings())
    return {metric.name: _value_of(metric) for metric in merge_readings(readings)}


def _value_of(metric: MergedMetric) -> Any:
    if metric.kind == "gauge":
        return metric.values
    return metric.figures if metric.kind == "distribution" else metric.figures["count"]
