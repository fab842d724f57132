"""A StateTtlConfig in the form that states with a time to live use."""

from dataclasses import dataclass

from penstock.model.descriptors import StateDescriptor
from penstock.model.options import state_options
from penstock.model.ttl import StateTtlConfig


class EpochClock:
    """The time by which entries expire: `now` of the running epoch, or of the last one between two epochs.

    The subtask sets `now_ms` before `begin_epoch`. It should never decrease (PROTOCOL I-6); if it does, entries live
    longer, and none expires too early.
    """

    __slots__ = ("in_epoch", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0
        self.in_epoch = False
        """Reads remove and refresh entries only in an epoch, because only then it can be undone."""


@dataclass(frozen=True)
class TtlRules:
    """How entries of one state expire, and how they are removed."""

    ttl_ms: int
    refreshes_on_read: bool
    shows_expired: bool
    """An expired entry that is still there is returned by the read that removes it."""
    in_full_snapshot: bool
    """Full snapshots leave expired entries out."""
    checks_per_access: int
    """The number of state keys that each access checks, in a backend in memory."""
    every_record: bool
    """Whether each record counts as an access."""
    in_background: bool
    """Whether the default cleanup strategies are enabled."""
    by_compaction: bool
    """Whether a backend on disk removes expired entries that nobody reads."""

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

        An entry that may be returned once more is kept for twice the time to live. Otherwise cleanup would nearly
        always come before the read.
        """
        return 2 * self.ttl_ms if self.shows_expired else self.ttl_ms

    def is_expired(self, stamp_ms: int | None, now_ms: int) -> bool:
        """Whether an entry has expired. One without a stamp has not."""
        return stamp_ms is not None and stamp_ms + self.ttl_ms <= now_ms


@dataclass(frozen=True)
class SweepSettings:
    """The speed of the timed sweep: a number of entries of each state of a subtask per interval."""

    entries: int = state_options.SWEEP_ENTRIES.default
    """`penstock.state.ttl.sweep-entries`; 0: no timed sweep."""
    interval_ms: int = state_options.SWEEP_INTERVAL.default
    """`penstock.state.ttl.sweep-interval`"""
