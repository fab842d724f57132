"""The registry: one small file per job of this user, by which commands find running jobs and their processes.

It is a directory of what is there, not a record of what happened: the job log in the checkpoint folder is that. A
driver writes its file about once a second and at every change of status; the file of a driver that was killed stays as
it was, and readers see by the process that nobody is behind it.
"""

import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import psutil

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.clock import Clock, SystemClock
from penstock.errors import JobConflictError, JobNotFoundError, StorageError
from penstock.model.configuration import Configuration
from penstock.model.execution import JobStatus
from penstock.model.options import execution_options, rest_options
from penstock.model.snapshot import StateSize

ENDED = frozenset(status.name for status in JobStatus if status.is_terminal_state())
"""Statuses after which a driver has nothing left to do."""
LOST = "LOST"
"""Shown for a job that has not ended and whose driver is gone."""
SILENCE_LIMIT_MS = execution_options.DRIVER_TIMEOUT.default
"""After so long without a word, a driver on another machine counts as gone."""
CLOCK_SLACK_MS = 2_000


class ProcessRecord(msgspec.Struct, frozen=True):
    """One process of a job."""

    pid: int
    host: str
    role: str
    """driver or taskmanager."""
    subtasks: list[str] = []


class StatusChange(msgspec.Struct, frozen=True):
    """When a job got a status."""

    status: str
    """Name of a JobStatus."""
    at_ms: int


class FailureRecord(msgspec.Struct, frozen=True):
    """Why an attempt of a job ended."""

    at_ms: int
    attempt: int
    error: str
    """Its class."""
    message: str
    root_cause: str | None = None


class JobRecord(msgspec.Struct, frozen=True):
    """What a driver says of its job."""

    job_id: str
    name: str
    status: str
    """Name of a JobStatus."""
    pid: int
    """Of the driver."""
    host: str
    started_ms: int
    updated_ms: int
    log_dir: str
    rest: str | None = None
    """The URL of its control server, while there is one."""
    ended_ms: int | None = None
    attempt: int = 0
    epoch: int = 0
    parallelism: int = 1
    checkpoint_dir: str | None = None
    last_checkpoint: int | None = None
    watermark: int | None = None
    rows: int = 0
    rows_dropped: int = 0
    """Without event time, where `penstock.event-time.null` is `drop`."""
    rows_per_s: float = 0.0
    processes: list[ProcessRecord] = []
    failure: str | None = None
    transitions: list[StatusChange] = []
    """The last statuses, oldest first."""
    failures: list[FailureRecord] = []
    """Of the last sixteen attempts that failed, oldest first."""
    states: list[StateSize] | msgspec.UnsetType = msgspec.UNSET
    """How large each state was at the last checkpoint; only where `penstock status` asks for it."""
    checkpoints: list[CheckpointStats] | msgspec.UnsetType = msgspec.UNSET
    """The last ten checkpoints, oldest first; only where `penstock status` asks for them."""

    @property
    def ended(self) -> bool:
        """Whether the job has come to its end."""
        return self.status in ENDED


class Registry:
    """The job records in one folder. Any number of processes may read and write it at the same time."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.folder = folder
        self._clock = clock or SystemClock()

    def write(self, record: JobRecord) -> None:
        """Replace the job's file in one step; a reader sees the old record or the new one, never a part."""
        self._replace(self._path(record.job_id), msgspec.json.encode(record), record.job_id)

    def write_sizes(self, job_id: str, sizes: list[StateSize]) -> None:
        """Replace what is known of the size of a job's states: a file of its own, written once per checkpoint."""
        self._replace(self._sizes_path(job_id), msgspec.json.encode(sizes), job_id)

    def read_sizes(self, job_id: str) -> list[StateSize]:
        """How large a job's states were at its last checkpoint; empty if nobody has said so."""
        try:
            return msgspec.json.decode(self._sizes_path(job_id).read_bytes(), type=list[StateSize])
        except (OSError, msgspec.MsgspecError):
            return []

    def write_checkpoints(self, job_id: str, checkpoints: Sequence[CheckpointStats]) -> None:
        """Replace what is known of a job's last checkpoints."""
        self._replace(self._checkpoints_path(job_id), msgspec.json.encode(checkpoints), job_id)

    def read_checkpoints(self, job_id: str) -> list[CheckpointStats]:
        """The last ten checkpoints of a job, oldest first; empty if nobody has said so."""
        try:
            return msgspec.json.decode(self._checkpoints_path(job_id).read_bytes(), type=list[CheckpointStats])
        except (OSError, msgspec.MsgspecError):
            return []

    def _replace(self, path: Path, data: bytes, job_id: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{job_id}-")  # mode 0600
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError as error:
            raise StorageError(
                f"cannot write job {job_id} into the registry {str(self.folder)!r}: {error}; "
                f"free the disk or set {rest_options.REGISTRY_DIRECTORY.key} to a folder that can be written"
            ) from error

    def read(self, job_id: str) -> JobRecord:
        """The record of a job by its whole id."""
        path = self._path(job_id)
        try:
            return msgspec.json.decode(path.read_bytes(), type=JobRecord)
        except FileNotFoundError:
            raise JobNotFoundError(f"no job {job_id!r} in the registry {str(self.folder)!r}") from None
        except (OSError, msgspec.DecodeError) as error:
            raise StorageError(f"cannot read the job record {str(path)!r}: {error}; remove the file") from error

    def list(self) -> list[JobRecord]:
        """All records that can be read, oldest job first; `unreadable` says which cannot."""
        records = []
        for path in self.folder.glob("*.json"):
            try:
                records.append(self.read(path.stem))
            except (JobNotFoundError, StorageError):
                continue
        return sorted(records, key=lambda record: (record.started_ms, record.job_id))

    def unreadable(self) -> Iterator[str]:
        """Why records cannot be read, one line for each."""
        for path in sorted(self.folder.glob("*.json")):
            try:
                self.read(path.stem)
            except StorageError as error:
                yield str(error)
            except JobNotFoundError:
                continue  # removed in between, or not named like a job

    def find(self, text: str) -> JobRecord:
        """The one job meant by an id, a unique prefix of one, or the name of a job that is running once."""
        records = self.list()
        exact = [record for record in records if record.job_id == text]
        if exact:
            return exact[0]
        named = [record for record in records if record.name == text]
        by_prefix = [record for record in records if text and record.job_id.startswith(text)]
        found = by_prefix + [record for record in named if record not in by_prefix and self.is_running(record)]
        if len(found) == 1:
            return found[0]
        if found:
            raise JobConflictError(f"{text!r} matches {len(found)} jobs: {_ids(found)}; give the id of one")
        if named:
            raise JobNotFoundError(
                f"no job named {text!r} is running; ended or lost: {_ids(named)}; give the id of one"
            )
        raise JobNotFoundError(f"no job {text!r} in the registry {str(self.folder)!r} (see `penstock list -a`)")

    def is_alive(self, record: JobRecord) -> bool:
        """Whether the driver that wrote the record still exists."""
        if record.host != socket.gethostname():
            return self.silence_ms(record) < SILENCE_LIMIT_MS
        # A process younger than the record's last word only has the driver's old pid.
        started_ms = _process_started_ms(record.pid)
        return started_ms is not None and started_ms <= record.updated_ms + CLOCK_SLACK_MS

    def silence_ms(self, record: JobRecord) -> int:
        """How long ago the driver wrote the record, by the clock of this machine."""
        return self._clock.now_ms() - record.updated_ms

    def is_running(self, record: JobRecord) -> bool:
        """Whether the job has not ended and its driver exists."""
        return not record.ended and self.is_alive(record)

    def status(self, record: JobRecord) -> str:
        """The status to show: LOST if the driver is gone and did not say how the job ended."""
        return record.status if record.ended or self.is_alive(record) else LOST

    def log_dir(self, job_id: str) -> Path:
        """The folder for a job's logs, beside its record."""
        return self.folder / job_id

    def _sizes_path(self, job_id: str) -> Path:
        return self.log_dir(self._path(job_id).stem) / "state-sizes.json"

    def _checkpoints_path(self, job_id: str) -> Path:
        return self.log_dir(self._path(job_id).stem) / "checkpoints.json"

    def _path(self, job_id: str) -> Path:
        if not job_id.isalnum():
            raise JobNotFoundError(f"{job_id!r} is not a job id; ids are 32 hex digits")
        return self.folder / f"{job_id}.json"


def registry_of(configuration: Configuration) -> Registry:
    """The registry that a configuration names, or else the one in the user's state folder."""
    folder = configuration.get(rest_options.REGISTRY_DIRECTORY)
    return Registry(Path(folder).expanduser() if folder else default_folder())


def default_folder() -> Path:
    """Where the registry is when `penstock.registry.dir` is not set."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "penstock" / "registry"


def _process_started_ms(pid: int) -> int | None:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return int(process.create_time() * 1000)
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        return 0


def _ids(records: list[JobRecord]) -> str:
    return ", ".join(record.job_id for record in records)
