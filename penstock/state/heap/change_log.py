"""Which entries of a table changed since earlier seals, so that a snapshot can be a delta (PROTOCOL R18)."""

from collections.abc import Collection, Hashable, Iterable

from penstock.model.ids import CheckpointId

MAX_BASES = 100
"""Seals that can still be named as base. One that was pushed out costs a full table, nothing else."""


class ChangeLog:
    """Changed entries, in one dictionary per stretch between two seals.

    Dictionaries keep the order of changes: a seal in that order is the same in every run, and twice as fast as in the
    order of a set, because entries that changed together lie together.
    """

    __slots__ = ("_stretches",)

    def __init__(self) -> None:
        self._stretches: dict[CheckpointId, dict[Hashable, None]] = {}

    def track(self, changed: Iterable[Hashable]) -> None:
        """Note what an epoch changed. Before the first seal nothing is kept."""
        if self._stretches:
            newest = next(reversed(self._stretches.values()))
            newest.update(dict.fromkeys(changed))

    def since(self, base: CheckpointId) -> dict[Hashable, None] | None:
        """What changed since the seal of `base`, or more; None when that is not known. Not to be changed."""
        if base not in self._stretches:
            return None
        ids = list(self._stretches)
        first, *others = [self._stretches[checkpoint_id] for checkpoint_id in ids[ids.index(base) :]]
        if not others:
            return first
        merged = first.copy()
        for stretch in others:
            merged.update(stretch)
        return merged

    def start(self, checkpoint_id: CheckpointId) -> None:
        """From now on changes are changes since this seal."""
        self.forget(checkpoint_id)
        self._stretches[checkpoint_id] = {}
        if len(self._stretches) > MAX_BASES:
            del self._stretches[next(iter(self._stretches))]

    def retain(self, bases: Collection[CheckpointId]) -> None:
        """Only these seals will be named as base: what lies between two of them becomes one stretch."""
        for checkpoint_id in list(self._stretches):
            if checkpoint_id not in bases:
                self.forget(checkpoint_id)

    def forget(self, checkpoint_id: CheckpointId) -> None:
        """A seal that never happened: its changes count as those of the stretch before it."""
        ids = list(self._stretches)
        stretch = self._stretches.pop(checkpoint_id, None)
        if stretch is not None and (index := ids.index(checkpoint_id)) > 0:
            self._stretches[ids[index - 1]].update(stretch)
