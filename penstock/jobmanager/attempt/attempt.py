"""One attempt of a job: what it runs, what it starts from, and where it records what becomes true."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from penstock.checkpoint.checkpoint_settings import WriterIdentity
from penstock.checkpoint.no_checkpoints import AttemptLog, Coordinator
from penstock.checkpoint.snapshot.snapshot_location import OpenSnapshot
from penstock.graph.job_graph import JobGraph
from penstock.model.snapshot import Manifest
from penstock.storage.storage import Storage


@dataclass(frozen=True)
class JobIdentity:
    """What the job log says about a job."""

    job_id: str
    name: str
    program: str


@dataclass(frozen=True)
class Origin:
    """What an attempt starts from: by default from nothing."""

    manifest: Manifest | None = None
    """Under the program's uids."""
    snapshot: OpenSnapshot | None = None
    """Where its files are, if they are not in the job's own folder."""
    path: str = ""
    """The address of that snapshot, as it is in the log."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Uids inside the files -> what the program calls them now."""

    @property
    def epoch(self) -> int:
        """The last epoch before this attempt."""
        return self.manifest.epoch if self.manifest is not None else 0

    @property
    def storage(self) -> Storage | None:
        """Of a snapshot outside the job's folder; None: the job's own."""
        return self.snapshot.storage if self.snapshot is not None else None


@dataclass(frozen=True)
class Attempt:
    """An attempt that owns its job. A job without checkpoints has a log and a coordinator that do nothing."""

    job: JobIdentity
    graph: JobGraph
    writer: WriterIdentity
    token: str
    log: AttemptLog
    coordinator: Coordinator
    storage: Storage | None = None
    """Where checkpoints are written; None for a job without checkpoints."""
    origin: Origin = Origin()

    @property
    def number(self) -> int:
        """Grows by one with each attempt of the job."""
        return self.writer.attempt

    @property
    def manifest(self) -> Manifest | None:
        """What is restored; None if the job starts from nothing."""
        return self.origin.manifest

    @property
    def starts_from(self) -> str:
        """What the attempt restores, in words."""
        if self.manifest is None:
            return "nothing"
        what = "savepoint" if self.manifest.savepoint else f"checkpoint {self.manifest.checkpoint_id}"
        return f"{what} at {self.origin.path}" if self.origin.path else what


class Ended(Enum):
    """Why an attempt has ended cleanly."""

    INPUT = "the input has ended"
    STOPPED = "a savepoint was taken to stop the job"
    CANCELLED = "the job was cancelled"
    SUSPENDED = "the job was suspended: nothing in its log says that it has ended"
