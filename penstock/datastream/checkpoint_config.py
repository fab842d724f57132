"""`CheckpointConfig`: the settings of checkpoints, kept in the environment's configuration under Flink's keys."""

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.datastream.checkpoint_storage import CheckpointStorage, FileSystemCheckpointStorage
from penstock.datastream.state_choices import StateChoices
from penstock.errors import UsageError
from penstock.model.configuration import Configuration
from penstock.model.execution import CheckpointingMode, ExternalizedCheckpointRetention
from penstock.model.option import Option
from penstock.model.option_types import RangedType
from penstock.model.options import checkpointing_options
from penstock.model.time import Duration

T = TypeVar("T")

DISABLED_INTERVAL_MS = -1


class CheckpointConfig:
    """Reads and writes the checkpoint settings of one environment. Setters return the object itself."""

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
        """Writes to `configuration`; reads what holds once other settings are merged in, `effective(configuration)`."""
        self._configuration = configuration
        self._effective = effective or (lambda own: own)
        self._choices = choices or StateChoices()

    def is_checkpointing_enabled(self) -> bool:
        """Whether an interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly once or at least once."""
        return self._get(checkpointing_options.MODE)

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> "CheckpointConfig":
        """Choose between exactly once and at least once."""
        if not isinstance(checkpointing_mode, CheckpointingMode):
            raise TypeError(f"give CheckpointingMode.EXACTLY_ONCE or AT_LEAST_ONCE, not {checkpointing_mode!r}")
        return self._set(checkpointing_options.MODE, checkpointing_mode)

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between the starts of checkpoints; -1 without checkpoints."""
        return self._get(checkpointing_options.INTERVAL) or DISABLED_INTERVAL_MS

    def set_checkpoint_interval(self, checkpoint_interval: int) -> "CheckpointConfig":
        """Take a checkpoint every so many milliseconds."""
        return self._set_number(checkpointing_options.INTERVAL, checkpoint_interval)

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds after which an unfinished checkpoint is given up."""
        return self._get(checkpointing_options.TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> "CheckpointConfig":
        """Give up a checkpoint after so many milliseconds."""
        return self._set_number(checkpointing_options.TIMEOUT, checkpoint_timeout)

    def get_min_pause_between_checkpoints(self) -> int:
        """Milliseconds between the end of a checkpoint and the start of the next."""
        return self._get(checkpointing_options.MIN_PAUSE)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> "CheckpointConfig":
        """Leave at least so many milliseconds between checkpoints."""
        return self._set_number(checkpointing_options.MIN_PAUSE, min_pause_between_checkpoints)

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be under way at once."""
        return self._get(checkpointing_options.MAX_CONCURRENT)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> "CheckpointConfig":
        """Allow so many checkpoints at once."""
        return self._set_number(checkpointing_options.MAX_CONCURRENT, max_concurrent_checkpoints)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> "CheckpointConfig":
        """Let the first failed checkpoint fail the job, or none."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else 2**31 - 1)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many failed checkpoints in a row the job survives."""
        return self._get(checkpointing_options.TOLERABLE_FAILURES)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> "CheckpointConfig":
        """Survive so many failed checkpoints in a row."""
        return self._set_number(checkpointing_options.TOLERABLE_FAILURES, tolerable_checkpoint_failure_number)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> "CheckpointConfig":
        """Choose what happens to checkpoints when the job is cancelled."""
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
        """What happens to checkpoints when the job is cancelled."""
        chosen = self._get(checkpointing_options.RETENTION)
        return chosen or ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether a retention has been chosen."""
        return self.get_externalized_checkpoint_retention() != (
            ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        )

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake records."""
        return self._get(checkpointing_options.UNALIGNED)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> "CheckpointConfig":
        """Let barriers overtake records."""
        return self._set(checkpointing_options.UNALIGNED, enabled)

    def disable_unaligned_checkpoints(self) -> "CheckpointConfig":
        """Keep barriers behind the records before them."""
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, aligned_checkpoint_timeout: Duration) -> "CheckpointConfig":
        """Let a barrier overtake records after this time."""
        return self._set_number(checkpointing_options.ALIGNED_TIMEOUT, aligned_checkpoint_timeout.to_milliseconds())

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """The time after which a barrier overtakes records."""
        return Duration.of_millis(self._get(checkpointing_options.ALIGNED_TIMEOUT))

    def set_alignment_timeout(self, alignment_timeout: Duration) -> "CheckpointConfig":
        """The same as `set_aligned_checkpoint_timeout`."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """The same as `get_aligned_checkpoint_timeout`."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> "CheckpointConfig":
        """Keep unaligned checkpoints on where they are usually switched off."""
        return self._set(checkpointing_options.FORCE_UNALIGNED, force_unaligned_checkpoints)

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether unaligned checkpoints are kept on where they are usually switched off."""
        return self._get(checkpointing_options.FORCE_UNALIGNED)

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> "CheckpointConfig":
        """Keep checkpoints there, unless a legacy state backend says otherwise."""
        if not isinstance(storage, CheckpointStorage):
            raise TypeError(f"give a JobManagerCheckpointStorage or FileSystemCheckpointStorage, not {storage!r}")
        self._choices.storage = storage
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> "CheckpointConfig":
        """Keep checkpoints in this folder: the same as `set_checkpoint_storage(FileSystemCheckpointStorage(path))`."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(str(checkpoint_path)))

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """The storage that the program has set, or None."""
        return self._choices.storage

    def _get(self, option: Option[T]) -> T:
        return self._effective(self._configuration).get(option)

    def _set(self, option: Option[Any], value: Any) -> "CheckpointConfig":
        self._configuration.set(option, value)
        return self

    def _set_number(self, option: Option[Any], number: Any) -> "CheckpointConfig":
        assert isinstance(option.type, RangedType)
        if isinstance(number, bool) or not isinstance(number, int):
            raise UsageError(f"{option.key} is a whole number, not {number!r}")
        option.type.check(number, str(number))
        return self._set(option, number)
