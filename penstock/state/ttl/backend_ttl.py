"""The time to live of all states of one backend.

The backend creates the table and the handle of a state's `raw_descriptor`, passes the raw handle to `wrap`, and calls
`begin_epoch`, `end_epoch` and `restart`; it provides `keys_after`. Everything else is here.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from penstock.errors import TypeMismatchError
from penstock.model.descriptors import StateDescriptor
from penstock.model.state import State
from penstock.state.backend.bulk_values import BulkValues
from penstock.state.backend.current_key import CurrentKey
from penstock.state.ttl.cleanup_scan import CleanupScan, KeysAfter
from penstock.state.ttl.rules import EpochClock, SweepSettings, TtlRules
from penstock.state.ttl.stamps import without_expired
from penstock.state.ttl.ttl_bulk_values import TtlBulkValues
from penstock.state.ttl.ttl_map_state import TtlMapState
from penstock.state.ttl.ttl_states import TtlAggregatingState, TtlListState, TtlReducingState, TtlValueState

ExpiringState: TypeAlias = TtlValueState | TtlListState | TtlMapState | TtlReducingState | TtlAggregatingState


class BackendTtl:
    """Clock, wrappers and scans of the states of one backend that have a time to live."""

    def __init__(self, keys_after: KeysAfter, *, on_disk: bool) -> None:
        self.clock = EpochClock()
        self._keys_after = keys_after
        self._on_disk = on_disk
        self._scans: dict[str, CleanupScan] = {}
        self._lists: set[str] = set()

    def wrap(self, descriptor: StateDescriptor, raw: Any, current: CurrentKey) -> State:
        """The state whose entries expire, around the handle of its `raw_descriptor`."""
        rules = TtlRules.of(descriptor)
        assert rules is not None
        name = descriptor.name
        scan = CleanupScan(name, rules, self.clock, current, self._keys_after, on_disk=self._on_disk)
        self._scans[name] = scan
        if descriptor.kind == "list":
            self._lists.add(name)
        state = self._expiring(descriptor.kind, raw, scan, current)
        scan.state = state
        return state

    def _expiring(self, kind: str, raw: Any, scan: CleanupScan, current: CurrentKey) -> ExpiringState:
        if kind == "list":
            return TtlListState(raw, scan, self.clock)
        if kind == "map":
            return TtlMapState(raw, scan, self.clock, current)
        value = TtlValueState(raw, scan, self.clock)
        if kind == "reducing":
            return TtlReducingState(value)
        return TtlAggregatingState(value) if kind == "aggregating" else value

    def bulk_values(self, stored: BulkValues) -> TtlBulkValues:
        """The values of a state that was wrapped, for many keys at once, around the stored pairs."""
        scan = self._scans[stored.name]
        scan.many = values = TtlBulkValues(stored, scan, self.clock)
        return values

    def require_same(self, descriptor: StateDescriptor) -> None:
        """Raise if a state is declared a second time with different rules."""
        scan = self._scans.get(descriptor.name)
        if scan is not None and scan.rules != TtlRules.of(descriptor):
            raise TypeMismatchError(
                f"state {descriptor.name!r} is declared with two different times to live; use one descriptor for both"
            )

    def ttl_ms(self, name: str) -> int:
        """The time to live of a state; 0 if entries do not expire, or if no function has declared the state yet."""
        return self._scans[name].rules.ttl_ms if name in self._scans else 0

    def begin_epoch(self) -> None:
        """Allow removing and refreshing entries. Called after `clock.now_ms` was set."""
        self.clock.in_epoch = True
        for scan in self._scans.values():
            scan.begin_epoch()

    def end_epoch(self) -> None:
        """Do not remove or refresh entries until the next epoch."""
        self.clock.in_epoch = False
        for scan in self._scans.values():
            scan.end_epoch()

    def restart(self) -> None:
        """Start over after entries were restored or rolled back. Ends the epoch."""
        self.clock.in_epoch = False
        for scan in self._scans.values():
            scan.restart()

    def after_records(self, count: int) -> None:
        """Count processed records: with `cleanup_incrementally(…, True)` each is an access."""
        for scan in self._scans.values():
            scan.check_records(count)

    def sweep(self, settings: SweepSettings) -> None:
        """The timed sweep of an epoch: visits the budgeted number of entries of each state that is due."""
        for scan in self._scans.values():
            scan.sweep(settings)

    def next_sweep_ms(self, settings: SweepSettings) -> int | None:
        """When an epoch is needed for the next sweep; None while nothing can expire."""
        due = (scan.due_ms(settings) for scan in self._scans.values())
        return min((due_ms for due_ms in due if due_ms is not None), default=None)

    def take_swept(self) -> list[str]:
        """States of which many entries were removed since the last call, so that a compaction is worthwhile."""
        names = [name for name, scan in self._scans.items() if scan.has_removed]
        for name in names:
            self._scans[name].has_removed = False
        return names

    def snapshot_filter(self, name: str) -> Callable[[Any], Any] | None:
        """A function that returns what a full snapshot keeps of a value (None: nothing); None if it keeps everything.

        For `cleanup_full_snapshot`. It uses the time of the seal and is thread-safe.
        """
        scan = self._scans.get(name)
        if scan is None or not scan.rules.in_full_snapshot:
            return None
        return without_expired(scan.rules, self.clock.now_ms, is_list=name in self._lists)
