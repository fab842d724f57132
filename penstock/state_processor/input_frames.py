"""DataFrames of users as states to write."""

from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.codec.readable import has_untyped
from penstock.errors import UsageError
from penstock.model.snapshot import OperatorStateInfo, StateTableInfo
from penstock.model.type_information import TypeInformation, parse_type
from penstock.spark import state_columns, state_writer
from penstock.spark.state_writer import StoredColumn
from penstock.state.ttl.stamps import without_ttl
from penstock.state_processor.planned_state import Place, PlannedState
from penstock.state_processor.state_types import (
    KeyedStateSpec,
    StateTypes,
    key_column_type,
    keyed_info,
    operator_info,
    require_columns,
    text_form,
)

TIMER_DOMAINS = ("event", "processing")


def keyed_state_of(
    frame: Any, spec: KeyedStateSpec, saved: PlannedState | None, keys: list[str] | None
) -> PlannedState:
    """A keyed state. `saved` is the state that it replaces, `keys` are the key types of its operator."""
    columns = state_columns.column_types(frame)
    what = f"state {spec.name!r} of operator {spec.uid!r}"
    require_columns(list(columns), ["key", "value"], what)
    old = saved.info if saved is not None and isinstance(saved.info, StateTableInfo) else None
    if (spec.kind or (old.kind if old is not None else "value")) == "map":
        require_columns(list(columns), ["key", "map_key", "value"], what)
    info = keyed_info(spec, columns, old, keys)
    if info.namespace is not None:
        require_columns(list(columns), ["key", "namespace", "value"], what)
    if spec.ttl_ms is not None:
        ttl_ms = spec.ttl_ms
    else:
        ttl_ms = saved.ttl_ms if saved is not None else 0
    return PlannedState(info, ttl_ms, None, _stored(frame, info, spec.types, ttl_ms, is_saved=old is not None), frame)


def timers_of_frame(
    frame: Any, domain: str, spec: KeyedStateSpec, saved: PlannedState | None, keys: list[str] | None
) -> PlannedState:
    """The timers of one time domain."""
    columns = state_columns.column_types(frame)
    require_columns(list(columns), ["key", "domain", "timestamp"], f"timers of operator {spec.uid!r}")
    as_values = state_columns.timers_of(frame, domain, TIMER_DOMAINS)
    value_spec = KeyedStateSpec(
        spec.uid,
        spec.name,
        "value",
        StateTypes(spec.types.key, "bigint", None, spec.types.text, _saved_namespace(spec.types, saved)),
        0,
    )
    typed = keyed_info(value_spec, state_columns.column_types(as_values), None, keys)
    if typed.namespace is not None:
        require_columns(list(columns), ["key", "namespace", "domain", "timestamp"], f"timers of {spec.uid!r}")
    info = msgspec.structs.replace(typed, kind="timer", value_type="LONG")
    stored = _stored(as_values, info, spec.types, 0, is_saved=saved is not None)
    return PlannedState(info, 0, None, stored, as_values)


def _saved_namespace(types: StateTypes, saved: PlannedState | None) -> Any:
    """The type that the namespaces of timers have now, unless the user declares another."""
    info = saved.info if saved is not None else None
    if types.namespace is not None or not isinstance(info, StateTableInfo) or info.namespace is None:
        return types.namespace
    return parse_type(info.namespace)


def operator_state_of(
    frame: Any, place: Place, types: StateTypes, states: Mapping[Place, PlannedState]
) -> PlannedState:
    """A list, union or broadcast state."""
    uid, mode, name = place
    columns = state_columns.column_types(frame)
    required = ["map_key", "value"] if mode == "broadcast" else ["value"]
    require_columns(list(columns), required, f"state {name!r} of operator {uid!r}")
    other = next(
        (p for (u, m, n), p in states.items() if (u, n) == (uid, name) and {m, mode} == {"split", "union"}), None
    )
    if other is not None:
        raise UsageError(f"operator {uid!r} has a {other.place[1]} state {name!r}; remove_state() it first")
    saved = states.get(place)
    old = saved.info if saved is not None and isinstance(saved.info, OperatorStateInfo) else None
    info = operator_info(place, columns, types, old)
    stored_types = {"value": parse_type(info.value_type)}
    if info.map_key_type is not None:
        stored_types = {"map_key": parse_type(info.map_key_type), **stored_types}
    text = text_form(types, is_saved=old is not None, has_text=_has_text(frame, stored_types))
    parts = [StoredColumn(column, kind, text, column == "map_key") for column, kind in stored_types.items()]
    order = [frame[column] for column in ("subtask", "position") if column in columns]
    return PlannedState(info, 0, None, state_columns.stored_columns(frame, parts, order), frame)


def _stored(frame: Any, info: StateTableInfo, types: StateTypes, ttl_ms: int, *, is_saved: bool) -> Any:
    """A frame with the stored columns of a keyed state, and the hashes of its keys."""
    plain = without_ttl(info)
    stored_types = {"key": key_column_type(info)}
    if info.namespace is not None:
        stored_types["namespace"] = parse_type(info.namespace)
    if info.map_key_type is not None:
        stored_types["map_key"] = parse_type(info.map_key_type)
    stored_types["value"] = parse_type(plain.value_type)
    text = text_form(types, is_saved=is_saved, has_text=_has_text(frame, stored_types))
    parts = [StoredColumn(name, kind, text, name != "value") for name, kind in stored_types.items()]
    others = []
    if info.ttl:
        name = "expires_at" if ttl_ms else "last_access"
        others = [state_columns.stamps(frame, name, is_list=info.kind == "list")]
    return state_writer.hashed(state_columns.stored_columns(frame, parts, others))


def _has_text(frame: Any, stored: Mapping[str, TypeInformation]) -> bool:
    """Whether a text column is stored untyped."""
    return state_columns.has_text(frame, [name for name, type_info in stored.items() if has_untyped(type_info)])
