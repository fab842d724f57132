"""Checkpoints: job log, manifests, coordinator, garbage collection and restore."""

from penstock.checkpoint.commits import SinkCommitter
from penstock.checkpoint.coordinator import CheckpointCoordinator, CheckpointListenerHook
from penstock.checkpoint.history import CheckpointStats
from penstock.checkpoint.job_folders import find_jobs
from penstock.checkpoint.log import JobLog
from penstock.checkpoint.pending import EpochRecord
from penstock.checkpoint.restore import (
    choose_restore,
    finish_open_deletes,
    plan_restore,
    record_restore,
    recover_sinks,
)
from penstock.checkpoint.settings import CheckpointSettings, WriterIdentity
from penstock.checkpoint.view import LogView

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
    "plan_restore",
    "record_restore",
    "recover_sinks",
]
