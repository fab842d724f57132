"""What a job's configuration says about its checkpoints (features K1 to K14)."""

import re
from pathlib import Path

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.model.configuration import Configuration
from penstock.model.execution import SNAPSHOT_COMPRESSION, CheckpointingMode, ExternalizedCheckpointRetention
from penstock.model.options import parse_duration_ms, parse_size_bytes
from penstock.runtime.snapshots.local_copies import LocalBackup

_CHK = "execution.checkpointing."
NOT_WITH_UNALIGNED = "local recovery does not go with unaligned checkpoints; no local copies are made or read"
UNALIGNED_NEEDS = "Unaligned checkpoints can only be used with checkpointing mode EXACTLY_ONCE"


def checkpoint_settings(configuration: Configuration) -> CheckpointSettings | None:
    """The settings of checkpoints; None without an interval: then there are none."""
    interval_ms = duration_ms(configuration, _CHK + "interval")
    if interval_ms is None:
        return None
    mode = CheckpointingMode[_word(configuration, "mode", "EXACTLY_ONCE")]
    retention = _word(configuration, "externalized-checkpoint-retention", "")
    spool = configuration.get_string("penstock.unaligned.max-spool", "")
    defaults = CheckpointSettings
    return CheckpointSettings(
        interval_ms=interval_ms,
        timeout_ms=duration_ms(configuration, _CHK + "timeout") or defaults.timeout_ms,
        min_pause_ms=duration_ms(configuration, _CHK + "min-pause") or 0,
        max_concurrent=configuration.get_integer(_CHK + "max-concurrent-checkpoints", 1),
        retained=configuration.get_integer(_CHK + "num-retained", 1),
        tolerable_failures=configuration.get_integer(_CHK + "tolerable-failed-checkpoints", 0),
        commit_timeout_ms=_or(duration_ms(configuration, "penstock.sink.commit-timeout"), defaults.commit_timeout_ms),
        mode=mode,
        # As in Flink: with AT_LEAST_ONCE unaligned checkpoints are off, and a warning says so.
        unaligned=_flag(configuration, "unaligned.enabled") and mode is CheckpointingMode.EXACTLY_ONCE,
        aligned_timeout_ms=duration_ms(configuration, _CHK + "aligned-checkpoint-timeout") or 0,
        max_spool_bytes=parse_size_bytes(spool) if spool else defaults.max_spool_bytes,
        retention=ExternalizedCheckpointRetention[retention] if retention else None,
        retain_finished=configuration.get_boolean("penstock.checkpoint.retain-finished", default_value=False),
        local_backup=_flag(configuration, "local-backup.enabled"),
        local_backup_dirs=local_folders(configuration.get_string(_CHK + "local-backup.dirs", "")),
        recover_from_local=configuration.get_boolean("execution.state-recovery.from-local", default_value=False),
    )


def checkpoint_warnings(configuration: Configuration) -> list[str]:
    """What is said about settings that do not go together and are not refused."""
    settings = checkpoint_settings(configuration)
    if settings is None:
        return []
    warnings = []
    if not settings.exactly_once and _flag(configuration, "unaligned.enabled"):
        warnings.append(f"{UNALIGNED_NEEDS}; they are off for this job")
    if settings.unaligned and (settings.local_backup or settings.recover_from_local):
        warnings.append(NOT_WITH_UNALIGNED)
    return warnings


def local_backup(settings: CheckpointSettings | None) -> LocalBackup:
    """The local copies that a job makes and reads; none with unaligned checkpoints, as in Flink."""
    if settings is None or settings.unaligned:
        return LocalBackup()
    return LocalBackup(settings.local_backup, settings.recover_from_local, settings.local_backup_dirs)


def snapshot_compression(configuration: Configuration) -> bool | None:
    """Whether snapshots are compressed; None where it is not set."""
    if not configuration.contains_key(SNAPSHOT_COMPRESSION):
        return None
    return configuration.get_boolean(SNAPSHOT_COMPRESSION, default_value=False)


def local_folders(text: str) -> tuple[str, ...]:
    """The folders in a setting that may name several."""
    folders = re.split(r"[,:;]", text.replace("file://", ""))
    return tuple(str(Path(folder.strip()).expanduser().absolute()) for folder in folders if folder.strip())


def duration_ms(configuration: Configuration, key: str) -> int | None:
    """A span of time; None where it is not set."""
    text = configuration.get_string(key, "")
    return parse_duration_ms(text) if text else None


def _word(configuration: Configuration, name: str, default: str) -> str:
    return configuration.get_string(_CHK + name, default).strip().upper().replace("-", "_")


def _flag(configuration: Configuration, name: str) -> bool:
    return configuration.get_boolean(_CHK + name, default_value=False)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
