"""Checkpoints: job log, manifests, coordinator, garbage collection and restore."""

from penstock.checkpoint.checkpoint_settings import CheckpointSettings, WriterIdentity
from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.job_folders import find_jobs
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.log.log_view import LogView
from penstock.checkpoint.pending_checkpoint import EpochRecord
from penstock.checkpoint.publication import CheckpointListenerHook
from penstock.checkpoint.restore.redistribution import snapshots_to_load
from penstock.checkpoint.restore.restore_choice import choose_restore, finish_open_deletes, record_restore
from penstock.checkpoint.restore.sink_recovery import recover_sinks
from penstock.checkpoint.sink_commits import SinkCommitter
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats

__all__ = [
    "CheckpointCoordinator",
    "CheckpointListenerHook",
    "CheckpointSettings",
    "CheckpointStats",
    "EpochRecord",
    "JobLog",
    "LogView",
    "SinkCommitter",
    "WriterIdentity",
    "choose_restore",
    "find_jobs",
    "finish_open_deletes",
    "record_restore",
    "recover_sinks",
    "snapshots_to_load",
]
