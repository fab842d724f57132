"""The settings of checkpoints in a job's configuration."""

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.model.configuration import Configuration
from penstock.model.execution import CheckpointingMode
from penstock.model.options import checkpointing_options as options
from penstock.runtime.snapshots.local_copies import LocalBackup

NOT_WITH_UNALIGNED = "local recovery does not work with unaligned checkpoints; no local copies are made or read"
UNALIGNED_NEEDS = "Unaligned checkpoints can only be used with checkpointing mode EXACTLY_ONCE"


def checkpoint_settings(configuration: Configuration) -> CheckpointSettings | None:
    """The settings of checkpoints; None for a job without an interval, which takes no checkpoints."""
    interval_ms = configuration.get(options.INTERVAL)
    if interval_ms is None:
        return None
    mode = configuration.get(options.MODE)
    return CheckpointSettings(
        interval_ms=interval_ms,
        timeout_ms=configuration.get(options.TIMEOUT),
        min_pause_ms=configuration.get(options.MIN_PAUSE),
        max_concurrent=configuration.get(options.MAX_CONCURRENT),
        retained=configuration.get(options.NUM_RETAINED),
        tolerable_failures=configuration.get(options.TOLERABLE_FAILURES),
        commit_timeout_ms=configuration.get(options.COMMIT_TIMEOUT),
        mode=mode,
        # As in Flink: with AT_LEAST_ONCE unaligned checkpoints are off, and a warning says so.
        unaligned=configuration.get(options.UNALIGNED) and mode is CheckpointingMode.EXACTLY_ONCE,
        aligned_timeout_ms=configuration.get(options.ALIGNED_TIMEOUT),
        max_spool_bytes=configuration.get(options.MAX_SPOOL),
        retention=configuration.get(options.RETENTION),
        retain_finished=configuration.get(options.RETAIN_FINISHED),
        local_backup=configuration.get(options.LOCAL_BACKUP),
        local_backup_dirs=configuration.get(options.LOCAL_BACKUP_DIRECTORIES),
        recover_from_local=configuration.get(options.RECOVER_FROM_LOCAL),
    )


def checkpoint_warnings(configuration: Configuration) -> list[str]:
    """Warnings about settings that contradict each other without being an error."""
    settings = checkpoint_settings(configuration)
    if settings is None:
        return []
    warnings = []
    if not settings.exactly_once and configuration.get(options.UNALIGNED):
        warnings.append(f"{UNALIGNED_NEEDS}; they are off for this job")
    if settings.unaligned and (settings.local_backup or settings.recover_from_local):
        warnings.append(NOT_WITH_UNALIGNED)
    return warnings


def local_backup(settings: CheckpointSettings | None) -> LocalBackup:
    """The local copies that a job makes and reads; none with unaligned checkpoints, as in Flink."""
    if settings is None or settings.unaligned:
        return LocalBackup()
    return LocalBackup(settings.local_backup, settings.recover_from_local, settings.local_backup_dirs)
