"""What a StateTtlConfig says, in the form in which the states with a time to live read it."""

from dataclasses import dataclass

from penstock.model.descriptors import StateDescriptor
from penstock.model.options import state_options
from penstock.model.ttl import StateTtlConfig


class EpochClock:
    """The time by which entries expire: `now` of the running epoch, or of the last one between two epochs.

    Whoever runs the epochs sets `now_ms` before `begin_epoch`. It is meant never to go back (PROTOCOL I-6); where it
    does, entries live longer, and none expires that would not have.
    """

    __slots__ = ("in_epoch", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0
        self.in_epoch = False
        """Expired entries are removed, and reads prolong lives, only in an epoch: only then can it be undone."""


@dataclass(frozen=True)
class TtlRules:
    """How entries of one state expire, and who removes them."""

    ttl_ms: int
    refreshes_on_read: bool
    shows_expired: bool
    """An expired entry that is still there is returned by the read that removes it."""
    in_full_snapshot: bool
    """Full snapshots leave expired entries out."""
    checks_per_access: int
    """State keys that each access looks at, on a backend in memory; 0: none."""
    every_record: bool
    """And each record too."""
    in_background: bool
    """The ways that are on by default were not switched off."""
    by_compaction: bool
    """On a backend on disk expired entries go without being read."""

    @staticmethod
    def of(descriptor: StateDescriptor) -> "TtlRules | None":
        """The rules of a state; None where nothing expires."""
        config = descriptor.ttl_config
        if config is None or not config.is_enabled():
            return None
        cleanup = config.get_cleanup_strategies()
        incremental = cleanup.get_incremental_cleanup_strategy()
        return TtlRules(
            ttl_ms=config.get_ttl().to_milliseconds(),
            refreshes_on_read=config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite,
            shows_expired=config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp,
            in_full_snapshot=cleanup.in_full_snapshot(),
            checks_per_access=0 if incremental is None else incremental.get_cleanup_size(),
            every_record=incremental is not None and incremental.run_cleanup_for_every_record(),
            in_background=cleanup.is_cleanup_in_background(),
            by_compaction=cleanup.get_rocksdb_compact_filter_cleanup_strategy() is not None,
        )

    @property
    def unread_ms(self) -> int:
        """The age at which an entry that nobody reads is removed.

        One that may be shown once more is left for a second time to live: otherwise cleanup would nearly always come
        before the read that is to find it.
        """
        return 2 * self.ttl_ms if self.shows_expired else self.ttl_ms

    def is_expired(self, stamp_ms: int | None, now_ms: int) -> bool:
        """Whether an entry has lived its time. One without a stamp has not begun to."""
        return stamp_ms is not None and stamp_ms + self.ttl_ms <= now_ms


@dataclass(frozen=True)
class SweepSettings:
    """How fast the timed sweep works: so many entries of each state of a subtask, and then a pause."""

    entries: int = state_options.SWEEP_ENTRIES.default
    """`penstock.state.ttl.sweep-entries`; 0: no timed sweep."""
    interval_ms: int = state_options.SWEEP_INTERVAL.default
    """`penstock.state.ttl.sweep-interval`"""
