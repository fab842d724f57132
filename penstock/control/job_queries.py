"""Queries of the commands: the list of jobs, the status of one, and its logs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import msgspec

from penstock.control.driver_log import FILE_NAME
from penstock.control.registry import JobRecord, Registry


class JobSelection(Enum):
    """Which jobs a list shows."""

    RUNNING = "running"
    """Jobs whose driver is alive."""
    NOT_ENDED = "not ended"
    """Also jobs whose driver is gone: they can be resumed."""
    ALL = "all"


@dataclass(frozen=True)
class LogLine:
    """One line of one of a job's log files."""

    file: str
    text: str


def list_jobs(registry: Registry, selection: JobSelection = JobSelection.NOT_ENDED) -> list[JobRecord]:
    """The selected jobs as they are now, oldest first."""
    return [
        _current(registry, record)
        for record in registry.list()
        if selection is JobSelection.ALL
        or (selection is JobSelection.NOT_ENDED and not record.ended)
        or registry.is_running(record)
    ]


def find_job(registry: Registry, text: str) -> JobRecord:
    """The job with this id, this unique prefix of an id, or this name if one running job has it."""
    return registry.find(text)


def job_status(registry: Registry, text: str) -> JobRecord:
    """The job as it is now: status LOST if its driver is gone, processes only while it runs, sizes of its states."""
    record = _current(registry, find_job(registry, text))
    states, checkpoints = registry.read_sizes(record.job_id), registry.read_checkpoints(record.job_id)
    return msgspec.structs.replace(record, states=states, checkpoints=checkpoints)


def job_logs(registry: Registry, text: str, pause: Callable[[], object] | None = None) -> Iterator[LogLine]:
    """The lines of a job's logs, file by file.

    With `pause` the logs are followed until the job has ended or its driver is gone; it is called whenever there is
    nothing new.
    """
    record = find_job(registry, text)
    tail = LogTail(Path(record.log_dir))
    # Checked before reading, so that the driver's last lines are read too.
    while pause is not None and registry.is_running(record):
        some = False
        for line in tail.read():
            some = True
            yield line
        if not some:
            pause()
        record = registry.read(record.job_id)
    yield from tail.read(last=True)


class LogTail:
    """The lines that are new in a log folder since the last read, those of the driver first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._positions: dict[Path, int] = {}

    def read(self, *, last: bool = False) -> Iterator[LogLine]:
        """The complete lines since the last call; with `last` also one without its end."""
        for path in sorted(self._folder.glob("*.log"), key=lambda path: (path.name != FILE_NAME, path.name)):
            with path.open("rb") as file:
                file.seek(self._positions.get(path, 0))
                for line in file:
                    if not last and not line.endswith(b"\n"):
                        break
                    self._positions[path] = self._positions.get(path, 0) + len(line)
                    yield LogLine(path.name, line.decode("utf-8", errors="replace").rstrip("\r\n"))


def _current(registry: Registry, record: JobRecord) -> JobRecord:
    if registry.is_running(record):
        return record
    return msgspec.structs.replace(record, status=registry.status(record), processes=[])
