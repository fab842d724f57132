"""What an attempt runs, from where it starts, and how it can end."""

import hashlib
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from penstock.checkpoint.checkpoint_settings import CheckpointSettings, WriterIdentity
from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.log.job_log import JobLog
from penstock.checkpoint.savepoints import SavepointPlace
from penstock.graph.job_graph import JobGraph
from penstock.jobmanager.attempt.recovery import Origin
from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.ids import JobId
from penstock.model.snapshot import Manifest
from penstock.storage.storage import Storage


@dataclass(frozen=True)
class AttemptPlan:
    """What an attempt runs, and from where it starts."""

    job_id: str
    number: int
    token: str
    graph: JobGraph
    settings: JobSettings
    storage: Storage | None
    manifest: Manifest | None
    coordinator: CheckpointCoordinator | None
    log: JobLog | None
    log_dir: Path
    origin: Origin = Origin()
    """Where the files of the manifest are."""

    def savepoint_place(self) -> SavepointPlace:
        """Where the attempt's savepoints belong."""
        writer = hashlib.sha256(self.token.encode()).hexdigest()[:16]
        checkpoints = self.settings.checkpoints or CheckpointSettings(None)
        inline = self.settings.storage.limits.max_state_bytes is not None and self.storage is not None
        return SavepointPlace(WriterIdentity(JobId(self.job_id), self.number, writer), inline, checkpoints.timeout_ms)


class Ended(Enum):
    """Why an attempt has ended in order."""

    INPUT = "the input has ended"
    STOPPED = "a savepoint was taken to stop the job"
    CANCELLED = "the job was cancelled"
