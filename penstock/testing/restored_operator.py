"""Which operator of a savepoint a harness starts with, and what follows from that for its settings."""

from typing import Any

from penstock.checkpoint.snapshot.snapshot_location import OpenSnapshot, open_snapshot
from penstock.errors import UsageError
from penstock.graph.window_operation import WINDOW_CONTENTS
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.model.snapshot import StateTableInfo
from penstock.model.type_information import TypeInformation, parse_type
from penstock.runtime.operators.async_operator import STATE_NAME as REQUESTS
from penstock.runtime.operators.interval_join_operator import LEFT_BUFFER, RIGHT_BUFFER
from penstock.state.format.schema_evolution import plain_type
from penstock.testing.clocks import ManualClock

_KEPT = {
    WINDOW_CONTENTS: "record_type",
    "_reduce": "record_type",
    LEFT_BUFFER: "record_type",
    RIGHT_BUFFER: "second_type",
}
"""States with records -> the setting of a harness that declares their type."""


def with_restored_operator(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a harness, with what `restore_from=` adds to them.

    The operator's uid, the types of its key and of records that it keeps, the number of key groups, and a clock that
    shows the time of the snapshot; the program's own settings win.
    """
    path = settings.get("restore_from")
    if path is None:
        return settings
    if "start" in settings:
        raise UsageError("restore_from= and start= both say what the harness starts from; give one of them")
    snapshot = open_snapshot(str(path))
    uid = _find_operator(snapshot, settings)
    found: dict[str, Any] = {"max_parallelism": snapshot.manifest.max_parallelism, **_kept_types(snapshot, uid)}
    if "key_type" not in settings and "key" in settings:
        found["key_types"] = _key_types(snapshot, uid)
    if "clock" not in settings:
        found["clock"] = ManualClock(snapshot.manifest.now_ms)
    return {**found, **settings, "uid": uid, "start": StartOptions(str(path), allow_non_restored=True)}


def _find_operator(snapshot: OpenSnapshot, settings: dict[str, Any]) -> str:
    """The uid of the operator that is named, or of the only one with such state."""
    subtasks = snapshot.manifest.subtasks
    is_keyed = "key" in settings or settings.get("window") is not None  # without a key all records have the same one
    uids = {table.operator_uid for part in subtasks for table in part.tables}
    if not is_keyed:
        uids = {info.operator_uid for part in subtasks for info in part.operator_states}
    known = ", ".join(map(repr, sorted(uids)))
    uid = settings.get("uid")
    if uid in uids:
        return str(uid)
    if uid is not None:
        raise UsageError(
            f"restore_from={snapshot.path!r} has no {_kind(is_keyed=is_keyed)} state of an operator {uid!r}; it has "
            f"that of: {known or 'none'}"
        )
    if len(uids) != 1:
        what = f"{_kind(is_keyed=is_keyed)} state of {len(uids)} operators: {known}; name one with uid="
        raise UsageError(
            f"restore_from={snapshot.path!r} has {what if uids else f'no {_kind(is_keyed=is_keyed)} state'}"
        )
    return uids.pop()


def _kept_types(snapshot: OpenSnapshot, uid: str) -> dict[str, Any]:
    """The types with which operators that the program does not write keep records and accumulators."""
    found: dict[str, Any] = {}
    for part in snapshot.manifest.subtasks:
        for table in part.tables:
            if table.operator_uid == uid and table.name in _KEPT:
                is_accumulator = table.kind == "aggregating"
                found["accumulator_type" if is_accumulator else _KEPT[table.name]] = _record_type(table)
        for info in part.operator_states:
            if (info.operator_uid, info.name) == (uid, REQUESTS):
                found["record_type"] = parse_type(info.value_type).children[0]
    return found


def _record_type(table: StateTableInfo) -> TypeInformation:
    """Of single records, where the state has lists of them."""
    stored = plain_type(table)
    return stored.children[0] if stored.name == "LIST" and table.kind in ("list", "map") else stored


def _kind(*, is_keyed: bool) -> str:
    return "keyed" if is_keyed else "operator"


def _key_types(snapshot: OpenSnapshot, uid: str) -> tuple[Any, ...]:
    tables = (table for part in snapshot.manifest.subtasks for table in part.tables if table.operator_uid == uid)
    return tuple(map(parse_type, next(tables).key_types))
