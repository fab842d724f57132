"""Queries of the commands: the list of jobs, the status of one, and its logs."""

import heapq
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import msgspec

from penstock.control.driver_log import FILE_NAME
from penstock.control.registry import SUSPENDED, JobRecord, Registry
from penstock.runtime.process.log_lines import LEVELS, line_head
from penstock.runtime.process.log_parts import SPARK_LOG, LogPart, logs_in

RECENT_BYTES = 512 * 1024
READ_BYTES = 16 * 1024
"""Of one file at a time, about."""


class JobSelection(Enum):
    """Which jobs a list shows."""

    RUNNING = "running"
    """Jobs whose driver is alive."""
    NOT_ENDED = "not ended"
    """Also jobs that are suspended or whose driver is gone: they can be resumed."""
    ALL = "all"


@dataclass(frozen=True)
class LogLine:
    """One line of one of a job's log files. A line that continues another one has its time and level."""

    file: str
    text: str
    time: str = ""
    """Empty before the first line with a time."""
    level: str = ""


@dataclass(frozen=True)
class LogSelection:
    """Which lines of a job's logs are shown."""

    level: str = LEVELS[0]
    """The least serious level."""
    last: int | None = None
    """Only so many of the lines that exist; None: all of them."""

    def of(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        """The lines that are serious enough. Lines without a level always are."""
        least = LEVELS.index(self.level)
        return (line for line in lines if not line.level or LEVELS.index(line.level) >= least)


ALL_LINES = LogSelection()


def list_jobs(registry: Registry, selection: JobSelection = JobSelection.NOT_ENDED) -> list[JobRecord]:
    """The selected jobs as they are now, oldest first."""
    return [
        _current(registry, record)
        for record in registry.list()
        if selection is JobSelection.ALL
        or (selection is JobSelection.NOT_ENDED and (not record.ended or record.status == SUSPENDED))
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


def job_logs(
    registry: Registry,
    text: str,
    selection: LogSelection = ALL_LINES,
    pause: Callable[[], object] | None = None,
) -> Iterator[LogLine]:
    """The lines of all logs of a job, in the order of their times.

    With `pause` the logs are followed until the job has ended or its driver is gone; it is called whenever there is
    nothing new.
    """
    record = find_job(registry, text)
    tail = LogTail(Path(record.log_dir))
    # Checked before reading, so that the driver's last lines are read too.
    is_followed = pause is not None and registry.is_running(record)
    known = selection.of(tail.read(last=not is_followed))
    yield from known if selection.last is None else deque(known, maxlen=selection.last)
    while pause is not None and is_followed:
        is_followed = registry.is_running(registry.read(record.job_id))
        some = False
        for line in selection.of(tail.read(last=not is_followed)):
            some = True
            yield line
        if not some and is_followed:
            pause()


def recent_lines(folder: Path, selection: LogSelection, most_bytes: int = RECENT_BYTES) -> list[LogLine]:
    """The selected lines at the end of the logs in a folder, by time. At most `most_bytes` of each file are read."""
    tail = LogTail(folder, most_bytes)
    return list(deque(selection.of(tail.read(last=True)), maxlen=selection.last))


class LogTail:
    """The lines that are new in a log folder since the last read, by time; of equal times those of the driver first.

    What Spark's JVM prints is left out: it has no times and levels of ours.
    """

    def __init__(self, folder: Path, most_bytes: int | None = None) -> None:
        """`most_bytes`: the first read of each log begins so far before its end."""
        self._folder = folder
        self._most_bytes = most_bytes
        self._positions: dict[LogPart, int] = {}
        self._newest: dict[Path, LogLine] = {}

    def read(self, *, last: bool = False) -> Iterator[LogLine]:
        """The complete lines since the last call; with `last` also one without its end."""
        logs = {path: parts for path, parts in logs_in(self._folder).items() if path.name != SPARK_LOG}
        paths = sorted(logs, key=lambda path: (path.name != FILE_NAME, path.name))
        return heapq.merge(*(self._read(path, logs[path], last=last) for path in paths), key=lambda line: line.time)

    def _read(self, path: Path, parts: Sequence[LogPart], *, last: bool) -> Iterator[LogLine]:
        if path not in self._newest:
            self._newest[path] = LogLine(path.name, "")
            self._find_start(parts)
        for part in parts:
            yield from self._read_part(part, last=last or part.is_full)

    def _read_part(self, part: LogPart, *, last: bool) -> Iterator[LogLine]:
        while lines := self._next_lines(part):
            for data in lines:
                if not last and not data.endswith(b"\n"):
                    return
                self._positions[part] = self._positions.get(part, 0) + len(data)
                text = data.decode("utf-8", errors="replace").rstrip("\r\n")
                head = line_head(text) or self._newest[part.log]
                self._newest[part.log] = newest = LogLine(part.log.name, text, head.time, head.level)
                yield newest

    def _next_lines(self, part: LogPart) -> list[bytes]:
        """Some of the lines that were not read yet. The file is closed again: of many attempts there are many files."""
        if (file := part.open()) is None:
            return []
        with file:
            file.seek(self._positions.get(part, 0))
            return file.readlines(READ_BYTES)

    def _find_start(self, parts: Sequence[LogPart]) -> None:
        """Go to the first line that is to be read."""
        left = self._most_bytes
        for part in reversed(parts):
            if left is not None and (file := part.open()) is not None:
                with file:
                    size = file.seek(0, os.SEEK_END)
                    if size > left:
                        file.seek(size - left - 1)
                        self._positions[part] = size - left - 1 + len(file.readline())
                left = max(0, left - size)


def _current(registry: Registry, record: JobRecord) -> JobRecord:
    if registry.is_running(record):
        return record
    return msgspec.structs.replace(record, status=registry.status(record), processes=[])
