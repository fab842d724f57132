"""Which entries of a table changed since earlier seals, so that a snapshot can be a delta (PROTOCOL R18)."""

from collections.abc import Collection, Hashable, Iterable

from penstock.model.ids import CheckpointId

MAX_BASES = 100
"""The number of seals that can be named as base. If an older one is named, the table is sealed in full."""


class ChangeLog:
    """Changed entries, in one dictionary for each interval between two seals.

    Dictionaries keep the order of changes. A seal in this order is deterministic, and twice as fast as in the order of
    a set, because entries that changed together are close in memory.
    """

    __slots__ = ("_intervals",)

    def __init__(self) -> None:
        self._intervals: dict[CheckpointId, dict[Hashable, None]] = {}

    def track(self, changed: Iterable[Hashable]) -> None:
        """Record the changes of an epoch. Before the first seal nothing is recorded."""
        if self._intervals:
            newest = next(reversed(self._intervals.values()))
            newest.update(dict.fromkeys(changed))

    def since(self, base: CheckpointId) -> dict[Hashable, None] | None:
        """At least the changes since the seal of `base`; None if they are unknown. Not to be modified."""
        if base not in self._intervals:
            return None
        ids = list(self._intervals)
        first, *others = [self._intervals[checkpoint_id] for checkpoint_id in ids[ids.index(base) :]]
        if not others:
            return first
        merged = first.copy()
        for interval in others:
            merged.update(interval)
        return merged

    def start(self, checkpoint_id: CheckpointId) -> None:
        """Begin a new interval with this seal."""
        self.forget(checkpoint_id)
        self._intervals[checkpoint_id] = {}
        if len(self._intervals) > MAX_BASES:
            del self._intervals[next(iter(self._intervals))]

    def retain(self, bases: Collection[CheckpointId]) -> None:
        """Only these seals may be named as base: the intervals between two of them are merged."""
        for checkpoint_id in list(self._intervals):
            if checkpoint_id not in bases:
                self.forget(checkpoint_id)

    def forget(self, checkpoint_id: CheckpointId) -> None:
        """Undo a seal: its changes are added to the interval before it."""
        ids = list(self._intervals)
        interval = self._intervals.pop(checkpoint_id, None)
        if interval is not None and (index := ids.index(checkpoint_id)) > 0:
            self._intervals[ids[index - 1]].update(interval)
