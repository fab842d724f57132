"""The registry: one small file per job of this user, in which commands find running jobs and their processes.

It shows the present; the history of a job is in its job log, in the checkpoint folder. A driver writes its file about
once a second and at every change of status. The file of a killed driver stays; readers check whether its process is
alive.
"""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.clock import Clock, SystemClock
from penstock.errors import JobConflictError, JobNotFoundError, StorageError
from penstock.model.configuration import Configuration
from penstock.model.execution import JobStatus
from penstock.model.metric_readings import MergedMetric
from penstock.model.options import execution_options, rest_options
from penstock.model.recent_epoch import RecentEpoch
from penstock.model.snapshot import StateSize
from penstock.model.subtask_work import SubtaskFigures
from penstock.runtime.process.log_lines import make_private_folder

ENDED = frozenset(status.name for status in JobStatus if status.is_terminal_state())
"""Statuses after which a driver has nothing left to do."""
SUSPENDED = JobStatus.SUSPENDED.name
LOST = "LOST"
"""Shown for a job that has not ended and whose driver is gone."""
SILENCE_LIMIT_MS = execution_options.DRIVER_TIMEOUT.default
"""A driver on another machine counts as gone if its record is older than this."""
CLOCK_SLACK_MS = 2_000


class ProcessRecord(msgspec.Struct, frozen=True):
    """One process of a job."""

    pid: int
    host: str
    role: str
    """driver or taskmanager."""
    subtasks: list[str] = []
    id: str = ""
    """Of a TaskManager: it changes with every attempt."""


class StatusChange(msgspec.Struct, frozen=True):
    """When a job entered a status."""

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


class PhaseRecord(msgspec.Struct, frozen=True):
    """What an attempt does before its first epoch is committed."""

    name: str
    done: int = 0
    total: int = 0
    """0: it is not known how much there is to do."""

    def __str__(self) -> str:
        """
        >>> str(PhaseRecord("restoring checkpoint 7", 1, 4))
        'restoring checkpoint 7 (1 of 4)'
        """
        return f"{self.name} ({self.done} of {self.total})" if self.total else self.name


class RescaleRecord(msgspec.Struct, frozen=True):
    """A job was brought to another parallelism while it ran."""

    before: int
    after: int
    checkpoint: int
    """From which it went on."""
    pause_ms: int
    """From its last rows at the old parallelism until it read rows again."""
    at_ms: int
    why: str = ""
    failure: str = ""
    """Why the parallelism is what it was; empty for a rescale that was done."""

    def __str__(self) -> str:
        """
        >>> str(RescaleRecord(2, 4, 7, 1530, 0, "requested"))
        'from 2 to 4 at checkpoint 7, paused for 1.5 s (requested)'
        """
        reason = f" ({self.why})" if self.why else ""
        pause_s = self.pause_ms / 1000
        return f"from {self.before} to {self.after} at checkpoint {self.checkpoint}, paused for {pause_s:.1f} s{reason}"


class JobRecord(msgspec.Struct, frozen=True):
    """What a driver records about its job."""

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
    """The URL of its control server, if it has one."""
    ended_ms: int | None = None
    attempt: int = 0
    phase: PhaseRecord | None = None
    """Of the start of the attempt; None once its first epoch is committed."""
    epoch: int = 0
    parallelism: int = 1
    rescale: RescaleRecord | None = None
    """The last one by this driver."""
    rescales: list[RescaleRecord] = []
    """The last ones by this driver, also those that were given up, oldest first."""
    checkpoint_dir: str | None = None
    last_checkpoint: int | None = None
    state_bytes: int | None = None
    """Of all keyed state, at that checkpoint."""
    watermark: int | None = None
    rows: int = 0
    """Of committed epochs."""
    epoch_rows: int = 0
    """Of the epoch that runs, so far; not in `rows`."""
    has_backlog: bool = False
    """The last epoch has read as many files as it may: more of them wait."""
    rows_dropped: int = 0
    """Rows without event time, if `penstock.event-time.null` is `drop`."""
    rows_late: int = 0
    """Records that windows have dropped because they came too late."""
    rows_per_s: float = 0.0
    processes: list[ProcessRecord] = []
    failure: str | None = None
    transitions: list[StatusChange] = []
    """The last statuses, oldest first."""
    failures: list[FailureRecord] = []
    """Of the last sixteen attempts that failed, oldest first."""
    metrics: list[MergedMetric] = []
    """Of functions, over all subtasks, since the start of the attempt."""
    subtasks: list[SubtaskFigures] = []
    """What each subtask does."""
    last_epoch: RecentEpoch | None = None
    """The last committed epoch, with where its time went."""
    states: list[StateSize] | msgspec.UnsetType = msgspec.UNSET
    """The size of each state at the last checkpoint; only filled for `penstock status`."""
    checkpoints: list[CheckpointStats] | msgspec.UnsetType = msgspec.UNSET
    """The last ten checkpoints, oldest first; only filled for `penstock status`."""

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.status in ENDED


class Registry:
    """The job records in one folder. Any number of processes may read and write it at the same time."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.folder = folder
        self._clock = clock or SystemClock()

    def write(self, record: JobRecord) -> None:
        """Replace the job's file atomically."""
        self._replace(self._path(record.job_id), msgspec.json.encode(record), record.job_id)

    def write_sizes(self, job_id: str, sizes: list[StateSize]) -> None:
        """Replace the sizes of a job's states. They are in a file of their own, written once per checkpoint."""
        self._replace(self._sizes_path(job_id), msgspec.json.encode(sizes), job_id)

    def read_sizes(self, job_id: str) -> list[StateSize]:
        """The sizes of a job's states at its last checkpoint; empty if they are not known."""
        try:
            return msgspec.json.decode(self._sizes_path(job_id).read_bytes(), type=list[StateSize])
        except (OSError, msgspec.MsgspecError):
            return []

    def write_checkpoints(self, job_id: str, checkpoints: Sequence[CheckpointStats]) -> None:
        """Replace the statistics of a job's last checkpoints."""
        self._replace(self._checkpoints_path(job_id), msgspec.json.encode(checkpoints), job_id)

    def read_checkpoints(self, job_id: str) -> list[CheckpointStats]:
        """The last ten checkpoints of a job, oldest first; empty if they are not known."""
        try:
            return msgspec.json.decode(self._checkpoints_path(job_id).read_bytes(), type=list[CheckpointStats])
        except (OSError, msgspec.MsgspecError):
            return []

    def _replace(self, path: Path, data: bytes, job_id: str) -> None:
        try:
            make_private_folder(path.parent)
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
                f"free disk space, or set {rest_options.REGISTRY_DIRECTORY.key} to a writable folder"
            ) from error

    def read(self, job_id: str) -> JobRecord:
        """The record of the job with this full id."""
        path = self._path(job_id)
        try:
            return msgspec.json.decode(path.read_bytes(), type=JobRecord)
        except FileNotFoundError:
            raise JobNotFoundError(f"no job {job_id!r} in the registry {str(self.folder)!r}") from None
        except (OSError, msgspec.DecodeError) as error:
            raise StorageError(f"cannot read the job record {str(path)!r}: {error}; remove the file") from error

    def list(self) -> list[JobRecord]:
        """All readable records, oldest job first; `unreadable` has the others."""
        records = []
        for path in self.folder.glob("*.json"):
            try:
                records.append(self.read(path.stem))
            except (JobNotFoundError, StorageError):
                continue
        return sorted(records, key=lambda record: (record.started_ms, record.job_id))

    def unreadable(self) -> Iterator[str]:
        """One line for each unreadable record: why it cannot be read."""
        for path in sorted(self.folder.glob("*.json")):
            try:
                self.read(path.stem)
            except StorageError as error:
                yield str(error)
            except JobNotFoundError:
                continue  # removed meanwhile, or not the file of a job

    def find(self, text: str) -> JobRecord:
        """The job with this id, this unique prefix of an id, or this name, if one running or suspended job has it."""
        records = self.list()
        exact = [record for record in records if record.job_id == text]
        if exact:
            return exact[0]
        named = [record for record in records if record.name == text]
        by_prefix = [record for record in records if text and record.job_id.startswith(text)]
        found = by_prefix + [record for record in named if record not in by_prefix and self.is_running(record)]
        found = found or [record for record in named if record.status == SUSPENDED]
        if len(found) == 1:
            return found[0]
        if found:
            raise JobConflictError(f"{text!r} matches {len(found)} jobs: {_ids(found)}; give the id of one")
        if named:
            raise JobNotFoundError(
                f"no job named {text!r} is running; suspended, ended or lost: {_ids(named)}; give the id of one"
            )
        raise JobNotFoundError(f"no job {text!r} in the registry {str(self.folder)!r} (see `penstock list -a`)")

    def forget(self, text: str) -> JobRecord:
        """Remove the record and the logs of the job with this id, this unique prefix of one, or this unique name.

        Raises JobConflictError if its driver runs. Checkpoints and savepoints are not touched.
        """
        found = [record for record in self.list() if text and text in (record.job_id, record.name)]
        found = found or [record for record in self.list() if text and record.job_id.startswith(text)]
        if not found:
            raise JobNotFoundError(f"no job {text!r} in the registry {str(self.folder)!r} (see `penstock list -a`)")
        if len(found) > 1:
            raise JobConflictError(f"{text!r} matches {len(found)} jobs: {_ids(found)}; give the id of one")
        record = found[0]
        if self.is_running(record):
            raise JobConflictError(
                f"job {record.job_id} is {record.status}, and its driver (process {record.pid} on {record.host}) is "
                f"alive; cancel or stop the job first"
            )
        try:
            shutil.rmtree(self.log_dir(record.job_id), ignore_errors=True)
            self._path(record.job_id).unlink(missing_ok=True)  # last: what is left of a crash can be forgotten again
        except OSError as error:
            raise StorageError(f"cannot remove job {record.job_id} from the registry: {error}") from error
        return record

    def is_alive(self, record: JobRecord) -> bool:
        """Whether the driver that wrote the record still exists."""
        if record.host != socket.gethostname():
            return self.silence_ms(record) < SILENCE_LIMIT_MS
        # A process that is younger than the record has only reused the driver's pid.
        started_ms = _process_started_ms(record.pid)
        return started_ms is not None and started_ms <= record.updated_ms + CLOCK_SLACK_MS

    def silence_ms(self, record: JobRecord) -> int:
        """The age of the record, by this machine's clock."""
        return self._clock.now_ms() - record.updated_ms

    def is_running(self, record: JobRecord) -> bool:
        """Whether the job has not ended and its driver exists."""
        return not record.ended and self.is_alive(record)

    def status(self, record: JobRecord) -> str:
        """The status to show: LOST if the driver is gone but the job has not ended."""
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
    """The registry that the configuration names; by default the one in the user's state folder."""
    folder = configuration.get(rest_options.REGISTRY_DIRECTORY)
    return Registry(Path(folder).expanduser() if folder else default_folder())


def default_folder() -> Path:
    """The registry's folder if `penstock.registry.dir` is not set."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "penstock" / "registry"


def _process_started_ms(pid: int) -> int | None:
    import psutil  # a list of jobs that have ended needs none

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
