"""`Savepoint`: the states of a snapshot as DataFrames, and new savepoints from DataFrames (features S1 to S6)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from penstock.checkpoint.snapshot.readable_state import DeclaredTypes, readable
from penstock.checkpoint.snapshot.stored_snapshot import StoredSnapshot, open_stored
from penstock.control.inspect.state_rows import summarise
from penstock.errors import UsageError
from penstock.model.key_groups import DEFAULT_KEY_GROUPS, MAX_KEY_GROUPS
from penstock.model.operator_ids import operator_id
from penstock.model.snapshot import OperatorStateInfo, StateTableInfo
from penstock.model.time import TimeDomain
from penstock.spark import state_frames
from penstock.spark.session import require_classic
from penstock.state.timers import TIMER_NAMES
from penstock.state_processor.input_frames import keyed_state_of, operator_state_of, timers_of_frame
from penstock.state_processor.planned_state import Place, PlannedState
from penstock.state_processor.savepoint_files import write_savepoint
from penstock.state_processor.state_types import KeyedStateSpec, StateTypes, declared_type

DOMAINS = {"event": TIMER_NAMES[TimeDomain.EVENT_TIME], "processing": TIMER_NAMES[TimeDomain.PROCESSING_TIME]}
"""The name of a time domain -> the name of its timer table."""


@dataclass(frozen=True)
class Savepoint:
    """A savepoint that exists, or one that `write` will make. Immutable: `with_…` returns another one.

    >>> sp = Savepoint.load(spark, "savepoint-4f1c2a-0b1c2d3e4f50")                         # doctest: +SKIP
    >>> fixed = sp.keyed_state("running-total", "total").where("value >= 0")                # doctest: +SKIP
    >>> sp.with_keyed_state("running-total", "total", fixed).write("savepoints/")           # doctest: +SKIP
    """

    spark: Any
    max_parallelism: int
    parallelism: int
    """The parallelism of new operators; those of the loaded snapshot keep theirs."""
    base: StoredSnapshot | None = None
    states: Mapping[Place, PlannedState] = field(default_factory=dict)
    uids: Mapping[str, str | None] = field(default_factory=dict)
    """Operator -> its uid in the loaded snapshot; None for a new one."""

    # ---- making one

    @staticmethod
    def load(spark: Any, path: str, *, verify: bool = False) -> "Savepoint":
        """A savepoint of either format, or a checkpoint (`chk-N` of a job's folder).

        Every file must exist with the right size; `verify` also checks the hash of each one.
        """
        require_classic(spark)
        base = open_stored(path)
        if verify:
            base.verify()
        states = {(state.uid, state.mode, state.name): PlannedState.kept(state) for state in base.states()}
        uids: dict[str, str | None] = {uid: uid for uid in base.operator_uids()}
        return Savepoint(spark, base.manifest.max_parallelism, _default_parallelism(spark), base, states, uids)

    @staticmethod
    def new(spark: Any, max_parallelism: int = DEFAULT_KEY_GROUPS, *, parallelism: int | None = None) -> "Savepoint":
        """An empty savepoint. A job that starts from it reads its sources from the beginning.

        `parallelism` is the number of files per state; a job may start from it at any parallelism.
        """
        require_classic(spark)
        _require_groups(max_parallelism)
        parts = min(parallelism or _default_parallelism(spark), max_parallelism)
        return Savepoint(spark, max_parallelism, parts)

    # ---- reading

    def metadata(self) -> Any:
        """A DataFrame with a row per operator of the loaded snapshot."""
        snapshot = self._loaded()
        number, groups = snapshot.manifest.checkpoint_id, snapshot.manifest.max_parallelism
        rows = [
            (
                number,
                None,
                o.operator,
                operator_id(o.operator),
                o.parallelism,
                groups,
                o.subtask_states,
                0,
                o.size_bytes,
            )
            for o in summarise(snapshot, count_rows=False).operators
        ]
        return state_frames.metadata_frame(self.spark, rows, state_frames.METADATA_DDL)

    def operators(self) -> Any:
        """A DataFrame with a row per state of the loaded snapshot: its operator, kind, types, rows and bytes."""
        rows = [msgspec.structs.astuple(state) for state in summarise(self._loaded(), count_rows=False).states]
        if any(namespace for *_, namespace in rows):
            namespaced = [(*row, namespace or None) for *row, namespace in rows]
            return state_frames.metadata_frame(self.spark, namespaced, state_frames.NAMESPACED_STATES_DDL)
        return state_frames.metadata_frame(self.spark, [row[:-1] for row in rows], state_frames.STATES_DDL)

    def keyed_state(
        self, uid: str, name: str, *, key_type: Any = None, value_type: Any = None, map_key_type: Any = None
    ) -> Any:
        """A DataFrame with `key_group`, `key`, `map_key` of a map, `value`, and `expires_at` of a state with TTL.

        A state with namespaces has `namespace` after `key`.

        Untyped keys and values are JSON text, unless the `…_type` arguments declare their types. If the snapshot does
        not record the time to live, the last column is `last_access`.
        """
        return self._frame(uid, name, "keyed", (key_type, map_key_type, value_type))

    def keyed_states(self, uid: str) -> Any:
        """All keyed states of an operator as one DataFrame: `key_group`, `key`, a column per state."""
        found = [
            (planned.name, planned.info.kind, self.keyed_state(uid, planned.name))
            for planned in self._of(uid)
            if isinstance(planned.info, StateTableInfo) and planned.info.kind != "timer"
        ]
        if not found:
            raise UsageError(f"operator {uid!r} has no keyed state")
        return state_frames.joined_states(found)

    def operator_state(self, uid: str, name: str, *, value_type: Any = None) -> Any:
        """The elements of a list state: `subtask`, `position`, `value`."""
        return self._frame(uid, name, "split", (None, None, value_type))

    def union_state(self, uid: str, name: str, *, value_type: Any = None) -> Any:
        """The elements of a union list state: `subtask`, `position`, `value`."""
        return self._frame(uid, name, "union", (None, None, value_type))

    def broadcast_state(self, uid: str, name: str, *, map_key_type: Any = None, value_type: Any = None) -> Any:
        """The entries of a broadcast state: `subtask`, `position`, `map_key`, `value`."""
        return self._frame(uid, name, "broadcast", (None, map_key_type, value_type))

    def timers(self, uid: str, *, key_type: Any = None) -> Any:
        """Pending timers: `key_group`, `key`, `domain` (event or processing), `timestamp` in milliseconds.

        Timers with namespaces have `namespace` after `key`.
        """
        self._require(uid)
        found = [
            (domain, self.keyed_state(uid, name, key_type=key_type))
            for domain, name in DOMAINS.items()
            if (uid, "keyed", name) in self.states
        ]
        if not found:
            raise UsageError(f"operator {uid!r} has no timers: it has no keyed state")
        return state_frames.timers_frame(found)

    # ---- changing

    def with_keyed_state(
        self,
        uid: str,
        name: str,
        frame: Any,
        kind: str | None = None,
        *,
        types: StateTypes | None = None,
        ttl: Any = None,
    ) -> "Savepoint":
        """Replace the state of that name, or add it.

        Args:
            uid: The operator; it is added if it does not exist.
            name: The state's name.
            frame: `key`, `value`, for a map `map_key`, with namespaces `namespace`, and with a time to live optionally
                `expires_at`. Other columns are ignored; key groups are recomputed.
            kind: value, list, map, reducing or aggregating. Default: that of the replaced state, or value.
            types: Where they differ from those of the replaced state and of the columns.
            ttl: Time to live: `Time`, `Duration` or milliseconds; 0 for none. Default: that of the replaced state.
        """
        spec = KeyedStateSpec(uid, name, kind, types or StateTypes(), _milliseconds(ttl))
        saved = self.states.get((uid, "keyed", name))
        return self._with(keyed_state_of(frame, spec, saved, self._key_types(uid)))

    def with_operator_state(self, uid: str, name: str, frame: Any, *, types: StateTypes | None = None) -> "Savepoint":
        """Put or add a list state; `frame` has `value`, and may say `subtask` and `position`."""
        return self._with(operator_state_of(frame, (uid, "split", name), types or StateTypes(), self.states))

    def with_union_state(self, uid: str, name: str, frame: Any, *, types: StateTypes | None = None) -> "Savepoint":
        """Put or add a union list state; `frame` has `value`, and may say `subtask` and `position`."""
        return self._with(operator_state_of(frame, (uid, "union", name), types or StateTypes(), self.states))

    def with_broadcast_state(self, uid: str, name: str, frame: Any, *, types: StateTypes | None = None) -> "Savepoint":
        """Put or add a broadcast state; `frame` has `map_key` and `value`."""
        return self._with(operator_state_of(frame, (uid, "broadcast", name), types or StateTypes(), self.states))

    def with_timers(self, uid: str, frame: Any, *, types: StateTypes | None = None) -> "Savepoint":
        """Replace all timers of an operator; `frame` has `key`, `domain`, `timestamp`, and may have `namespace`."""
        made = self
        for domain, name in DOMAINS.items():
            saved = self.states.get((uid, "keyed", name))
            spec = KeyedStateSpec(uid, name, "timer", types or StateTypes(), None)
            made = made._with(timers_of_frame(frame, domain, spec, saved, self._key_types(uid)))
        return made

    def remove_operator(self, uid: str) -> "Savepoint":
        """This savepoint without an operator and its state."""
        self._require(uid)
        states = {place: planned for place, planned in self.states.items() if place[0] != uid}
        return replace(self, states=states, uids={name: old for name, old in self.uids.items() if name != uid})

    def remove_state(self, uid: str, name: str) -> "Savepoint":
        """This savepoint without a state. If a keyed and an operator state share the name, both go."""
        gone = [place for place in self.states if (place[0], place[2]) == (uid, name)]
        if not gone:
            self._planned(uid, name, None)
        return replace(self, states={place: planned for place, planned in self.states.items() if place not in gone})

    def rename_operator(self, old: str, new: str) -> "Savepoint":
        """This savepoint with another uid for an operator."""
        self._require(old)
        if new in self.uids:
            raise UsageError(f"there is an operator {new!r} already; remove it first, or choose another uid")
        if not new:
            raise UsageError("the new uid is empty")
        states = {
            (new if uid == old else uid, mode, name): planned.renamed(new) if uid == old else planned
            for (uid, mode, name), planned in self.states.items()
        }
        uids = {new if uid == old else uid: before for uid, before in self.uids.items()}
        return replace(self, states=states, uids=uids)

    def with_max_parallelism(self, max_parallelism: int) -> "Savepoint":
        """This savepoint with another number of key groups; every key moves to its new one."""
        _require_groups(max_parallelism)
        raw = sorted({uid for (uid, mode, _) in self.states if mode == "raw_keyed"})
        if raw and max_parallelism != self.max_parallelism:
            raise UsageError(f"operator {raw[0]!r} has raw state by key group, whose bytes cannot be split again")
        parallelism = min(self.parallelism, max_parallelism)
        return replace(self, max_parallelism=max_parallelism, parallelism=parallelism)

    def write(self, target_dir: str) -> str:
        """Write a canonical savepoint into a new folder below `target_dir`; its path.

        The manifest comes last: a folder without `_metadata` is the leftover of a failed write.
        """
        return write_savepoint(self.spark, self, target_dir)

    # ---- helpers

    def _loaded(self) -> StoredSnapshot:
        if self.base is None:
            raise UsageError("this savepoint is not written yet; write it, then load the path that write() returns")
        return self.base

    def _frame(self, uid: str, name: str, mode: str, types: tuple[Any, Any, Any]) -> Any:
        planned = self._planned(uid, name, mode)
        if planned.shown is not None:
            return planned.shown
        assert planned.state is not None
        key, map_key, value = map(declared_type, types)
        return state_frames.state_frame(
            self.spark, self._loaded(), readable(planned.state, DeclaredTypes(key, map_key, value))
        )

    def _planned(self, uid: str, name: str, mode: str | None) -> PlannedState:
        self._require(uid)
        planned = self.states.get((uid, mode or "", name))
        if planned is None:
            known = sorted(
                {repr(other) for (owner, kind, other) in self.states if owner == uid and kind == (mode or kind)}
            )
            raise UsageError(f"operator {uid!r} has no such state {name!r}; there are: {', '.join(known) or 'none'}")
        return planned

    def _require(self, uid: str) -> None:
        if uid not in self.uids:
            raise UsageError(f"there is no operator {uid!r}; there are: {', '.join(map(repr, self.uids)) or 'none'}")

    def _of(self, uid: str) -> list[PlannedState]:
        self._require(uid)
        return [planned for place, planned in self.states.items() if place[0] == uid]

    def _key_types(self, uid: str) -> list[str] | None:
        """The key types of an operator, if one of its states has them."""
        infos = [planned.info for place, planned in self.states.items() if place[0] == uid]
        return next((info.key_types for info in infos if isinstance(info, StateTableInfo)), None)

    def _with(self, planned: PlannedState) -> "Savepoint":
        info = planned.info
        keys = self._key_types(info.operator_uid)
        if isinstance(info, StateTableInfo) and keys is not None and keys != info.key_types:
            others = [
                p
                for p in self._of(info.operator_uid)
                if p.name != info.name and not isinstance(p.info, OperatorStateInfo)
            ]
            if others:
                raise UsageError(
                    f"the keys of operator {info.operator_uid!r} are {', '.join(keys)}, those of state {info.name!r} "
                    f"would be {', '.join(info.key_types)}; an operator has one type of keys"
                )
        states = {**self.states, planned.place: planned}
        return replace(self, states=states, uids={info.operator_uid: None, **self.uids})


def _default_parallelism(spark: Any) -> int:
    return max(1, int(spark.sparkContext.defaultParallelism))


def _require_groups(max_parallelism: int) -> None:
    if not 1 <= max_parallelism <= MAX_KEY_GROUPS:
        raise UsageError(f"max parallelism {max_parallelism} is not between 1 and {MAX_KEY_GROUPS}")


def _milliseconds(ttl: Any) -> int | None:
    if ttl is None or isinstance(ttl, int):
        return ttl
    for name in ("to_milliseconds", "to_millis"):
        if hasattr(ttl, name):
            return int(getattr(ttl, name)())
    raise UsageError(f"ttl={ttl!r} is not a Time, a Duration or a number of milliseconds")
