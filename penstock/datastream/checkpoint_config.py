"""`CheckpointConfig`: PyFlink's getters and setters for checkpoints, kept in the environment's configuration."""

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.datastream.checkpoint_storage import CheckpointStorage, FileSystemCheckpointStorage
from penstock.datastream.state_choices import StateChoices
from penstock.errors import UsageError
from penstock.model.configuration import Configuration
from penstock.model.execution import (
    CheckpointingMode,
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
)
from penstock.model.option import Option
from penstock.model.option_types import RangedType
from penstock.model.options import checkpointing_options
from penstock.model.time import Duration, TimeSpan, milliseconds

__all__ = ["CheckpointConfig", "ExternalizedCheckpointCleanup", "ExternalizedCheckpointRetention"]

T = TypeVar("T")

DISABLED_INTERVAL_MS = -1


class CheckpointConfig:
    """The checkpoint settings of one environment. Setters return the object itself."""

    DEFAULT_MODE = checkpointing_options.MODE.default
    DEFAULT_TIMEOUT = checkpointing_options.TIMEOUT.default
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS = checkpointing_options.MIN_PAUSE.default
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS = checkpointing_options.MAX_CONCURRENT.default

    def __init__(
        self,
        configuration: Configuration,
        effective: Callable[[Configuration], Configuration] | None = None,
        choices: StateChoices | None = None,
    ) -> None:
        """Setters write to `configuration`; getters read `effective(configuration)`, which has all settings."""
        self._configuration = configuration
        self._effective = effective or (lambda own: own)
        self._choices = choices or StateChoices()

    def is_checkpointing_enabled(self) -> bool:
        """Return whether an interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly once or at least once."""
        return self._get(checkpointing_options.MODE)

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> "CheckpointConfig":
        """Set exactly once or at least once."""
        if not isinstance(checkpointing_mode, CheckpointingMode):
            raise TypeError(f"give CheckpointingMode.EXACTLY_ONCE or AT_LEAST_ONCE, not {checkpointing_mode!r}")
        return self._set(checkpointing_options.MODE, checkpointing_mode)

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between the starts of two checkpoints, or -1 without checkpoints."""
        return self._get(checkpointing_options.INTERVAL) or DISABLED_INTERVAL_MS

    def set_checkpoint_interval(self, checkpoint_interval: TimeSpan) -> "CheckpointConfig":
        """Set the time between the starts of two checkpoints: milliseconds, "5s", a Duration or a timedelta."""
        return self._set_duration(checkpointing_options.INTERVAL, checkpoint_interval)

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds after which an incomplete checkpoint is aborted."""
        return self._get(checkpointing_options.TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: TimeSpan) -> "CheckpointConfig":
        """Set the time after which an incomplete checkpoint is aborted, in the forms of `set_checkpoint_interval`."""
        return self._set_duration(checkpointing_options.TIMEOUT, checkpoint_timeout)

    def get_min_pause_between_checkpoints(self) -> int:
        """Minimum milliseconds between the end of a checkpoint and the start of the next one."""
        return self._get(checkpointing_options.MIN_PAUSE)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: TimeSpan) -> "CheckpointConfig":
        """Set the minimum time between two checkpoints, in the forms of `set_checkpoint_interval`."""
        return self._set_duration(checkpointing_options.MIN_PAUSE, min_pause_between_checkpoints)

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be in progress at the same time."""
        return self._get(checkpointing_options.MAX_CONCURRENT)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> "CheckpointConfig":
        """Set how many checkpoints may be in progress at the same time."""
        return self._set_number(checkpointing_options.MAX_CONCURRENT, max_concurrent_checkpoints)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Return whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> "CheckpointConfig":
        """Set whether the first failed checkpoint fails the job. If False, any number may fail."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else 2**31 - 1)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many checkpoints in a row may fail before the job fails."""
        return self._get(checkpointing_options.TOLERABLE_FAILURES)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> "CheckpointConfig":
        """Set how many checkpoints in a row may fail before the job fails."""
        return self._set_number(checkpointing_options.TOLERABLE_FAILURES, tolerable_checkpoint_failure_number)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> "CheckpointConfig":
        """Set which checkpoints are kept when the job is cancelled."""
        if not isinstance(retention_mode, ExternalizedCheckpointRetention):
            raise TypeError(f"give a member of ExternalizedCheckpointRetention, not {retention_mode!r}")
        return self._set(checkpointing_options.RETENTION, retention_mode)

    def enable_externalized_checkpoints(self, cleanup_mode: ExternalizedCheckpointRetention) -> "CheckpointConfig":
        """The old name of `set_externalized_checkpoint_retention`."""
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    def set_externalized_checkpoint_cleanup(self, cleanup_mode: ExternalizedCheckpointRetention) -> "CheckpointConfig":
        """The old name of `set_externalized_checkpoint_retention`."""
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    def get_externalized_checkpoint_cleanup(self) -> ExternalizedCheckpointRetention:
        """The old name of `get_externalized_checkpoint_retention`."""
        return self.get_externalized_checkpoint_retention()

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Which checkpoints are kept when the job is cancelled."""
        chosen = self._get(checkpointing_options.RETENTION)
        return chosen or ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints outlive the job."""
        return self.get_externalized_checkpoint_retention() != (
            ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        )

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints are unaligned: barriers may overtake records."""
        return self._get(checkpointing_options.UNALIGNED)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> "CheckpointConfig":
        """Set whether checkpoints are unaligned: barriers may overtake records."""
        return self._set(checkpointing_options.UNALIGNED, enabled)

    def disable_unaligned_checkpoints(self) -> "CheckpointConfig":
        """Take aligned checkpoints: barriers stay behind the records before them."""
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, aligned_checkpoint_timeout: TimeSpan) -> "CheckpointConfig":
        """Set how long a barrier waits for the records before it, before it overtakes them."""
        return self._set_duration(checkpointing_options.ALIGNED_TIMEOUT, aligned_checkpoint_timeout)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """How long a barrier waits for the records before it, before it overtakes them."""
        return Duration.of_millis(self._get(checkpointing_options.ALIGNED_TIMEOUT))

    def set_alignment_timeout(self, alignment_timeout: TimeSpan) -> "CheckpointConfig":
        """The same as `set_aligned_checkpoint_timeout`."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """The same as `get_aligned_checkpoint_timeout`."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> "CheckpointConfig":
        """Accepted, without effect: nothing here turns unaligned checkpoints off."""
        return self._set(checkpointing_options.FORCE_UNALIGNED, force_unaligned_checkpoints)

    def is_force_unaligned_checkpoints(self) -> bool:
        """What was set with `set_force_unaligned_checkpoints`."""
        return self._get(checkpointing_options.FORCE_UNALIGNED)

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> "CheckpointConfig":
        """Set where checkpoints are stored. A legacy state backend wins over it."""
        if not isinstance(storage, CheckpointStorage):
            raise TypeError(f"give a JobManagerCheckpointStorage or FileSystemCheckpointStorage, not {storage!r}")
        self._choices.storage = storage
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> "CheckpointConfig":
        """Store checkpoints in this folder: the same as `set_checkpoint_storage(FileSystemCheckpointStorage(path))`."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(str(checkpoint_path)))

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """The storage that the program set, or None."""
        return self._choices.storage

    def _get(self, option: Option[T]) -> T:
        return self._effective(self._configuration).get(option)

    def _set(self, option: Option[Any], value: Any) -> "CheckpointConfig":
        self._configuration.set(option, value)
        return self

    def _set_duration(self, option: Option[Any], span: TimeSpan) -> "CheckpointConfig":
        return self._set_number(option, span if isinstance(span, int) else milliseconds(span))

    def _set_number(self, option: Option[Any], number: Any) -> "CheckpointConfig":
        assert isinstance(option.type, RangedType)
        if isinstance(number, bool) or not isinstance(number, int):
            raise UsageError(f"{option.key} is a whole number, not {number!r}")
        option.type.check(number, str(number))
        return self._set(option, number)
