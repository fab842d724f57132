"""`CheckpointConfig`: the settings of checkpoints, kept in the environment's configuration under Flink's keys."""

from collections.abc import Callable
from typing import Any

from penstock.datastream.checkpoint_storage import CheckpointStorage, FileSystemCheckpointStorage
from penstock.datastream.state_choices import StateChoices
from penstock.errors import UsageError
from penstock.model.configuration import Configuration
from penstock.model.execution import CheckpointingMode, ExternalizedCheckpointRetention
from penstock.model.options import OPTIONS, parse_duration_ms
from penstock.model.time import Duration

_PREFIX = "execution.checkpointing."
INTERVAL = _PREFIX + "interval"
MODE = _PREFIX + "mode"
TIMEOUT = _PREFIX + "timeout"
MIN_PAUSE = _PREFIX + "min-pause"
MAX_CONCURRENT = _PREFIX + "max-concurrent-checkpoints"
TOLERABLE_FAILURES = _PREFIX + "tolerable-failed-checkpoints"
RETENTION = _PREFIX + "externalized-checkpoint-retention"
UNALIGNED = _PREFIX + "unaligned.enabled"
FORCE_UNALIGNED = _PREFIX + "unaligned.forced"
ALIGNED_TIMEOUT = _PREFIX + "aligned-checkpoint-timeout"

DISABLED_INTERVAL_MS = -1
DEFAULT_TIMEOUT_MS = 600_000


class CheckpointConfig:
    """Reads and writes the checkpoint settings of one environment. Setters return the object itself."""

    DEFAULT_MODE = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT = DEFAULT_TIMEOUT_MS
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS = 1

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
        return CheckpointingMode[self._text(MODE, self.DEFAULT_MODE.name).upper().replace("-", "_")]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> "CheckpointConfig":
        """Choose between exactly once and at least once."""
        if not isinstance(checkpointing_mode, CheckpointingMode):
            raise TypeError(f"give CheckpointingMode.EXACTLY_ONCE or AT_LEAST_ONCE, not {checkpointing_mode!r}")
        return self._set(MODE, checkpointing_mode.name)

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between the starts of checkpoints; -1 without checkpoints."""
        return self._duration(INTERVAL, DISABLED_INTERVAL_MS)

    def set_checkpoint_interval(self, checkpoint_interval: int) -> "CheckpointConfig":
        """Take a checkpoint every so many milliseconds."""
        return self._set_ms(INTERVAL, checkpoint_interval)

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds after which an unfinished checkpoint is given up."""
        return self._duration(TIMEOUT, DEFAULT_TIMEOUT_MS)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> "CheckpointConfig":
        """Give up a checkpoint after so many milliseconds."""
        return self._set_ms(TIMEOUT, checkpoint_timeout)

    def get_min_pause_between_checkpoints(self) -> int:
        """Milliseconds between the end of a checkpoint and the start of the next."""
        return self._duration(MIN_PAUSE, 0)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> "CheckpointConfig":
        """Leave at least so many milliseconds between checkpoints."""
        return self._set_ms(MIN_PAUSE, min_pause_between_checkpoints)

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be under way at once."""
        return self._number(MAX_CONCURRENT, 1)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> "CheckpointConfig":
        """Allow so many checkpoints at once."""
        return self._set_count(MAX_CONCURRENT, max_concurrent_checkpoints)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> "CheckpointConfig":
        """Let the first failed checkpoint fail the job, or none."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else 2**31 - 1)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many failed checkpoints in a row the job survives."""
        return self._number(TOLERABLE_FAILURES, 0)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> "CheckpointConfig":
        """Survive so many failed checkpoints in a row."""
        return self._set_count(TOLERABLE_FAILURES, tolerable_checkpoint_failure_number)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> "CheckpointConfig":
        """Choose what happens to checkpoints when the job is cancelled."""
        if not isinstance(retention_mode, ExternalizedCheckpointRetention):
            raise TypeError(f"give a member of ExternalizedCheckpointRetention, not {retention_mode!r}")
        return self._set(RETENTION, retention_mode.name)

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
        default = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS.name
        return ExternalizedCheckpointRetention[self._text(RETENTION, default).upper().replace("-", "_")]

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether a retention has been chosen."""
        return self.get_externalized_checkpoint_retention() != (
            ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        )

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake records."""
        return self._flag(UNALIGNED)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> "CheckpointConfig":
        """Let barriers overtake records."""
        return self._set(UNALIGNED, _boolean(enabled))

    def disable_unaligned_checkpoints(self) -> "CheckpointConfig":
        """Keep barriers behind the records before them."""
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, aligned_checkpoint_timeout: Duration) -> "CheckpointConfig":
        """Let a barrier overtake records after this time."""
        return self._set_ms(ALIGNED_TIMEOUT, aligned_checkpoint_timeout.to_milliseconds())

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """The time after which a barrier overtakes records."""
        return Duration.of_millis(self._duration(ALIGNED_TIMEOUT, 0))

    def set_alignment_timeout(self, alignment_timeout: Duration) -> "CheckpointConfig":
        """The same as `set_aligned_checkpoint_timeout`."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """The same as `get_aligned_checkpoint_timeout`."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> "CheckpointConfig":
        """Keep unaligned checkpoints on where they are usually switched off."""
        return self._set(FORCE_UNALIGNED, _boolean(force_unaligned_checkpoints))

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether unaligned checkpoints are kept on where they are usually switched off."""
        return self._flag(FORCE_UNALIGNED)

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

    def _set(self, key: str, value: str) -> "CheckpointConfig":
        self._configuration.set_string(key, value)
        return self

    def _set_ms(self, key: str, milliseconds: Any) -> "CheckpointConfig":
        _check_least(key, milliseconds)
        return self._set(key, f"{milliseconds} ms")

    def _set_count(self, key: str, count: Any) -> "CheckpointConfig":
        _check_least(key, count)
        self._configuration.set_integer(key, count)
        return self

    def _text(self, key: str, default: str) -> str:
        return self._effective(self._configuration).get_string(key, default)

    def _number(self, key: str, default: int) -> int:
        return self._effective(self._configuration).get_integer(key, default)

    def _flag(self, key: str) -> bool:
        return self._effective(self._configuration).get_boolean(key, False)

    def _duration(self, key: str, default_ms: int) -> int:
        text = self._text(key, "")
        return parse_duration_ms(text) if text else default_ms


def _check_least(key: str, value: Any) -> None:
    option = OPTIONS[key]
    least = option.least or 0
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{option.too_small or f'{key} must be {least} or more'}, not {value!r}")


def _boolean(value: bool) -> str:
    return "true" if value else "false"
