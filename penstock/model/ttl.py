"""`StateTtlConfig`: how long the entries of a state live, as in PyFlink."""

from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

from penstock.errors import UsageError
from penstock.model.time import Duration, Time

DEFAULT_PERIODIC_COMPACTION = Duration.of_days(30)


class StateTtlConfig:
    """How long the entries of a state live after their last access. `new_builder` makes it.

    >>> config = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()
    >>> config.get_ttl().to_milliseconds(), config.is_enabled()
    (3600000, True)
    """

    class UpdateType(Enum):
        """What extends the life of an entry."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Whether expired entries that have not been removed yet are returned."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """The kind of time in which entries expire."""

        ProcessingTime = 0

    class CleanupStrategies:
        """When expired entries are removed, other than when they are read."""

        class Strategies(Enum):
            """The strategies for the removal of expired entries."""

            FULL_STATE_SCAN_SNAPSHOT = 0
            INCREMENTAL_CLEANUP = 1
            ROCKSDB_COMPACTION_FILTER = 2

        class CleanupStrategy:
            """What all strategies are."""

        class EmptyCleanupStrategy(CleanupStrategy):
            """A strategy without settings."""

        class IncrementalCleanupStrategy(CleanupStrategy):
            """Checks some entries at each state access."""

            def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
                if cleanup_size <= 0:
                    raise UsageError(f"cleanup_size is {cleanup_size}; it must be positive")
                self._cleanup_size = cleanup_size
                self._run_cleanup_for_every_record = bool(run_cleanup_for_every_record)

            def get_cleanup_size(self) -> int:
                """How many entries are checked each time."""
                return self._cleanup_size

            def run_cleanup_for_every_record(self) -> bool:
                """Whether entries are checked at each record too."""
                return self._run_cleanup_for_every_record

        class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
            """In Flink, removes expired entries when RocksDB compacts; here, sweeps remove them."""

            def __init__(
                self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
            ) -> None:
                self._query_time_after_num_entries = query_time_after_num_entries
                self._periodic_compaction_time = periodic_compaction_time or DEFAULT_PERIODIC_COMPACTION

            def get_query_time_after_num_entries(self) -> int:
                """After how many entries the clock is read again. It has no effect."""
                return self._query_time_after_num_entries

            def get_periodic_compaction_time(self) -> Duration:
                """The age at which files are compacted. It has no effect."""
                return self._periodic_compaction_time

        EMPTY_STRATEGY = EmptyCleanupStrategy()

        def __init__(
            self,
            strategies: Mapping["StateTtlConfig.CleanupStrategies.Strategies", "CleanupStrategy"],
            is_cleanup_in_background: bool,
        ) -> None:
            self._strategies = dict(strategies)
            self._is_cleanup_in_background = is_cleanup_in_background

        def is_cleanup_in_background(self) -> bool:
            """Whether the default strategies of the backend are on."""
            return self._is_cleanup_in_background

        def in_full_snapshot(self) -> bool:
            """Whether full snapshots omit expired entries."""
            return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

        def get_incremental_cleanup_strategy(self) -> IncrementalCleanupStrategy | None:
            """The settings of incremental cleanup, or None if it is off."""
            default = self.IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None
            found = self._strategies.get(self.Strategies.INCREMENTAL_CLEANUP, default)
            assert found is None or isinstance(found, self.IncrementalCleanupStrategy)
            return found

        def get_rocksdb_compact_filter_cleanup_strategy(self) -> RocksdbCompactFilterCleanupStrategy | None:
            """The settings of cleanup in RocksDB, or None if it is off."""
            default = self.RocksdbCompactFilterCleanupStrategy(1000) if self._is_cleanup_in_background else None
            found = self._strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER, default)
            assert found is None or isinstance(found, self.RocksdbCompactFilterCleanupStrategy)
            return found

    class Builder:
        """Collects the settings of a StateTtlConfig."""

        def __init__(self, ttl: Time) -> None:
            self._ttl = ttl
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[StateTtlConfig.CleanupStrategies.Strategies, CleanupStrategy] = {}

        def set_update_type(self, update_type: "StateTtlConfig.UpdateType") -> "StateTtlConfig.Builder":
            """What extends the life of an entry."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> "StateTtlConfig.Builder":
            """Only writes extend the life of an entry."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> "StateTtlConfig.Builder":
            """Reads extend the life of an entry too."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: "StateTtlConfig.StateVisibility") -> "StateTtlConfig.Builder":
            """Whether expired entries that have not been removed yet are returned."""
            self._visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> "StateTtlConfig.Builder":
            """An expired entry that has not been removed yet is returned once."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> "StateTtlConfig.Builder":
            """An expired entry is treated as absent."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: "StateTtlConfig.TtlTimeCharacteristic"
        ) -> "StateTtlConfig.Builder":
            """The kind of time in which entries expire."""
            self._characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> "StateTtlConfig.Builder":
            """Entries expire in processing time."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def cleanup_full_snapshot(self) -> "StateTtlConfig.Builder":
            """Full snapshots omit expired entries."""
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.FULL_STATE_SCAN_SNAPSHOT] = strategies.EMPTY_STRATEGY
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> "StateTtlConfig.Builder":
            """Check this many entries at each state access, and optionally at each record."""
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.INCREMENTAL_CLEANUP] = strategies.IncrementalCleanupStrategy(
                cleanup_size, run_cleanup_for_every_record
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
        ) -> "StateTtlConfig.Builder":
            """Remove expired entries from RocksDB. Sweeps remove them, so both parameters have no effect."""
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.ROCKSDB_COMPACTION_FILTER] = (
                strategies.RocksdbCompactFilterCleanupStrategy(query_time_after_num_entries, periodic_compaction_time)
            )
            return self

        def disable_cleanup_in_background(self) -> "StateTtlConfig.Builder":
            """Turn the default strategies of the backend off. Those that were set explicitly stay on."""
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: Time) -> "StateTtlConfig.Builder":
            """How long entries live."""
            self._ttl = ttl
            return self

        def build(self) -> "StateTtlConfig":
            """The configuration."""
            cleanup = StateTtlConfig.CleanupStrategies(self._strategies, self._is_cleanup_in_background)
            return StateTtlConfig(self._update_type, self._visibility, self._characteristic, self._ttl, cleanup)

    def __init__(
        self,
        update_type: "StateTtlConfig.UpdateType",
        state_visibility: "StateTtlConfig.StateVisibility",
        ttl_time_characteristic: "StateTtlConfig.TtlTimeCharacteristic",
        ttl: Time,
        cleanup_strategies: "StateTtlConfig.CleanupStrategies",
    ) -> None:
        if ttl.to_milliseconds() <= 0:
            raise UsageError(f"the time to live is {ttl.to_milliseconds()} ms; it must be positive")
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Time) -> "StateTtlConfig.Builder":
        """A builder for entries with this time to live."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> "StateTtlConfig.UpdateType":
        """What extends the life of an entry."""
        return self._update_type

    def get_state_visibility(self) -> "StateTtlConfig.StateVisibility":
        """Whether expired entries that have not been removed yet are returned."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """How long entries live."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> "StateTtlConfig.TtlTimeCharacteristic":
        """The kind of time in which entries expire."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Whether entries expire at all."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> "StateTtlConfig.CleanupStrategies":
        """When expired entries are removed, other than when they are read."""
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig<update_type={self._update_type}, state_visibility={self._state_visibility},"
            f"ttl_time_characteristic ={self._ttl_time_characteristic},ttl={self._ttl}>"
        )


CleanupStrategy: TypeAlias = (
    StateTtlConfig.CleanupStrategies.EmptyCleanupStrategy
    | StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy
    | StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy
)
