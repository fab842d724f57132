"""How a DataFrame becomes a state: the columns that it needs, and the types that they are stored with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.checkpoint.snapshot.readable_state import key_type_of
from penstock.codec.keys import KeyCodec
from penstock.errors import UsageError
from penstock.model.snapshot import OperatorStateInfo, StateTableInfo
from penstock.model.type_information import TypeInformation, as_key_type, list_of, parse_type
from penstock.model.types import TAGGED, resolve_type
from penstock.state.backend.map_keys import map_keys_of
from penstock.state.ttl.stamps import with_ttl, without_ttl

UNTYPED = "untyped"
KINDS = ("value", "list", "map", "reducing", "aggregating")
TEXTS = ("json", "plain")


@dataclass(frozen=True)
class StateTypes:
    """The types that a state is stored with, where they differ from those of the DataFrame's columns.

    A type is written as in a program (`Types.LONG()`, `"bigint"`), or "untyped" for a state or key without a declared
    type. `key` may be a list, for a stream with several key columns. `text` says how to read a text column
    that is stored untyped: as "json", which is what `keyed_state` returns, or as "plain" text.
    """

    key: Any = None
    value: Any = None
    map_key: Any = None
    text: str | None = None
    namespace: Any = None

    def __post_init__(self) -> None:
        if self.text not in (None, *TEXTS):
            raise UsageError(f"text={self.text!r} is not one of 'json' and 'plain'")


def declared_type(spec: Any) -> TypeInformation | None:
    """The type that the user declared, or None."""
    if spec is None:
        return None
    return TAGGED if isinstance(spec, str) and spec == UNTYPED else resolve_type(spec)


def declared_key_type(spec: Any) -> TypeInformation | None:
    """The type of keys that the user declared, or None."""
    declared = declared_type(spec)
    return None if declared is None else as_key_type(declared)


@dataclass(frozen=True)
class KeyedStateSpec:
    """A keyed state to write."""

    uid: str
    name: str
    kind: str | None
    types: StateTypes
    ttl_ms: int | None
    """None: that of the saved state, or no time to live."""


def keyed_info(
    spec: KeyedStateSpec, columns: dict[str, Any], saved: StateTableInfo | None, keys: list[str] | None
) -> StateTableInfo:
    """The description of a keyed state in the manifest.

    Args:
        columns: The DataFrame's columns and their Spark types.
        saved: The state that it replaces.
        keys: The key types of the operator's other states.
    """
    kind = spec.kind or (saved.kind if saved is not None else "value")
    if kind not in KINDS:
        raise UsageError(f"kind={kind!r} is not one of {', '.join(KINDS)}")
    before = without_ttl(saved) if saved is not None and saved.kind == kind else None
    value = declared_type(spec.types.value) or (
        parse_type(before.value_type) if before else resolve_type(columns["value"])
    )
    if kind == "list" and value.name != "LIST":
        value = list_of(value)
    map_key = None
    if kind == "map":
        old = before.map_key_type if before is not None else None
        found = declared_key_type(spec.types.map_key) or (parse_type(old) if old else resolve_type(columns["map_key"]))
        map_keys_of(found)  # refuses a type that cannot be one
        map_key = found.text
    key_types = _key_types(spec.types.key, columns["key"], saved.key_types if saved is not None else keys)
    KeyCodec([parse_type(text) for text in key_types])  # refuses types that cannot be keys
    info = StateTableInfo(spec.uid, spec.name, kind, key_types, value.text, map_key)
    namespace = _namespace_type(spec.types.namespace, columns, saved)
    if namespace is not None:
        KeyCodec([namespace])  # refuses a type that cannot be one
        info = msgspec.structs.replace(info, namespace_type=namespace.text)
    has_ttl = bool(spec.ttl_ms) or (spec.ttl_ms is None and saved is not None and saved.ttl)
    return with_ttl(info) if has_ttl else info


def _namespace_type(spec: Any, columns: dict[str, Any], saved: StateTableInfo | None) -> TypeInformation | None:
    """That of the state that is replaced, or of the column `namespace`; None for a state without namespaces."""
    declared = declared_type(spec)
    if saved is not None and declared is None:
        return None if saved.namespace is None else parse_type(saved.namespace)
    return declared if "namespace" not in columns else declared or resolve_type(columns["namespace"])


def operator_info(
    place: tuple[str, str, str], columns: dict[str, Any], types: StateTypes, saved: OperatorStateInfo | None
) -> OperatorStateInfo:
    """The description of an operator state in the manifest; `place` is its operator uid, mode and name."""
    uid, mode, name = place
    value = declared_type(types.value) or (parse_type(saved.value_type) if saved else resolve_type(columns["value"]))
    map_key = None
    if mode == "broadcast":
        old = saved.map_key_type if saved is not None else None
        found = declared_key_type(types.map_key) or (parse_type(old) if old else resolve_type(columns["map_key"]))
        map_keys_of(found)
        map_key = found.text
    return OperatorStateInfo(uid, name, mode, value.text, map_key, 0)


def require_columns(columns: Sequence[str], required: Sequence[str], what: str) -> None:
    """Raise UsageError unless a DataFrame has these columns."""
    missing = [name for name in required if name not in columns]
    if missing:
        raise UsageError(
            f"the DataFrame of {what} has no column {missing[0]!r}; it needs {', '.join(required)} and has "
            f"{', '.join(columns)}"
        )


def text_form(types: StateTypes, *, is_saved: bool, has_text: bool) -> str:
    """How to read text columns that are stored untyped. The user must say so for a new state with such columns."""
    if types.text is not None:
        return types.text
    if has_text and not is_saved:
        raise UsageError(
            "a text column is stored as an untyped value; pass types=StateTypes(…, text='plain') if the text is the "
            "value itself, or text='json' if it is JSON, as keyed_state() returns it"
        )
    return "json"


def _key_types(given: Any, column: Any, saved: list[str] | None) -> list[str]:
    if given is not None:
        several = given if isinstance(given, list | tuple) else [given]
        return [(declared_key_type(spec) or TAGGED).text for spec in several]
    if saved is not None:
        return saved
    found = resolve_type(column)
    if found.names is not None and found.names == tuple(f"f{n}" for n in range(len(found.names))):
        return [child.text for child in found.children]
    return [found.text]


def key_column_type(info: StateTableInfo) -> TypeInformation:
    """The type of the key column."""
    return key_type_of(info.key_types)
