"""Logs that go on in a new file when they are full: `driver.log.1`, `driver.log.2`, then `driver.log`, the newest.

Numbers grow and are not used again, so a reader finds its place in a part under the same number later. The newest part
has the number after those of the full ones; at least one of these is kept, which says it.
"""

import fcntl
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from penstock.model.configuration import Configuration
from penstock.model.options.log_options import LOG_BACKUPS, LOG_MAX_SIZE
from penstock.runtime.process.log_lines import open_log

SPARK_LOG = "spark.log"
"""What Spark's JVM prints, in the folder of a job's logs."""
KEPT_ATTEMPTS = 10
_FULL = re.compile(r"(.+\.log)\.([1-9][0-9]*)")
_OF_ATTEMPT = re.compile(r"taskmanager-([0-9]+)-[0-9]+\.log(\.[0-9]+)?")


class LogLimits(msgspec.Struct, frozen=True):
    """How large a log grows."""

    max_bytes: int = 0
    """Of each part; 0: no limit."""
    backups: int = 2
    """How many full parts are kept."""

    @staticmethod
    def of(configuration: Configuration) -> "LogLimits":
        """The limits that are set."""
        return LogLimits(configuration.get(LOG_MAX_SIZE), configuration.get(LOG_BACKUPS))

    def is_full(self, descriptor: int) -> bool:
        """Whether the next line belongs into a new part."""
        return bool(self.max_bytes) and os.fstat(descriptor).st_size >= self.max_bytes


NO_LIMITS = LogLimits()


@dataclass(frozen=True)
class LogPart:
    """One file of a log, whatever its name is by now."""

    log: Path
    """The name of the newest part."""
    number: int
    is_full: bool = field(compare=False)
    """Nothing more is written to it, except by a process that has inherited it."""

    def open(self) -> BinaryIO | None:
        """The file, to be read; None if it does not exist, because it was removed or not begun."""
        if (full := _opened(full_path(self.log, self.number))) is not None:
            return full
        newest = _opened(self.log)
        if not any(number >= self.number for number in _numbers(self.log)):
            return newest
        if newest is not None:  # a later part: this one became full meanwhile
            newest.close()
        return _opened(full_path(self.log, self.number))


def open_within(path: Path, limits: LogLimits) -> BinaryIO:
    """A log to append to, which only its owner can read: a new part of it if the last one is full."""
    file = open_log(path)
    if not limits.is_full(file.fileno()):
        return file
    with file:
        end_part(path, file.fileno(), limits)
    return open_log(path)


def end_part(path: Path, descriptor: int, limits: LogLimits) -> None:
    """Give the open file of a log the next number, unless another process has done so; remove parts that are too old.

    A file that cannot be renamed is written on.
    """
    with suppress(OSError):
        if not (_is_locked(descriptor) and os.path.samestat(os.fstat(descriptor), path.stat())):
            return
        numbers = _numbers(path)
        number = numbers[-1] + 1 if numbers else 1
        path.rename(full_path(path, number))
        for old in [*numbers, number][: -limits.backups]:
            full_path(path, old).unlink(missing_ok=True)


def logs_in(folder: Path) -> dict[Path, list[LogPart]]:
    """The logs of a folder by their paths, each with its parts, oldest first."""
    found: dict[Path, list[int]] = {}
    for name in _names(folder):
        if (full := _FULL.fullmatch(name)) is not None:
            found.setdefault(folder / full[1], []).append(int(full[2]))
        elif name.endswith(".log"):
            found.setdefault(folder / name, [])
    return {log: _parts(log, numbers) for log, numbers in found.items()}


def parts_of(log: Path) -> list[LogPart]:
    """The parts of one log, oldest first. The newest may not exist."""
    return _parts(log, _numbers(log))


def log_size(log: Path) -> tuple[int, float] | None:
    """The bytes of all parts and the time of the last change; None if there is no such log."""
    sizes, times = [], []
    for part in parts_of(log):
        if (file := part.open()) is not None:
            with file:
                found = os.fstat(file.fileno())
            sizes.append(found.st_size)
            times.append(found.st_mtime)
    return (sum(sizes), max(times)) if times else None


def end_of_log(log: Path, most_bytes: int) -> bytes:
    """The last bytes of a log, from as many of its parts as that takes."""
    found: list[bytes] = []
    for part in reversed(parts_of(log)):
        if most_bytes > 0 and (file := part.open()) is not None:
            with file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - most_bytes))
                found.insert(0, file.read(most_bytes))
            most_bytes -= len(found[0])
    return b"".join(found)


def taskmanager_log(attempt: int | str, index: int | str) -> str:
    """The name of the log of a TaskManager."""
    return f"taskmanager-{attempt}-{index}.log"


def remove_old_attempts(folder: Path) -> None:
    """Remove the logs of all attempts but the newest."""
    found = {name: int(match[1]) for name in _names(folder) if (match := _OF_ATTEMPT.fullmatch(name)) is not None}
    kept = sorted(set(found.values()))[-KEPT_ATTEMPTS:]
    for name, attempt in found.items():
        if attempt not in kept:
            with suppress(OSError):
                (folder / name).unlink()


def full_path(log: Path, number: int) -> Path:
    """The name of a full part."""
    return log.with_name(f"{log.name}.{number}")


def _parts(log: Path, numbers: Iterable[int]) -> list[LogPart]:
    full = [LogPart(log, number, is_full=True) for number in sorted(numbers)]
    return [*full, LogPart(log, full[-1].number + 1 if full else 1, is_full=False)]


def _numbers(log: Path) -> list[int]:
    """Of the full parts, sorted."""
    matches = (_FULL.fullmatch(name) for name in _names(log.parent))
    return sorted(int(match[2]) for match in matches if match is not None and match[1] == log.name)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _is_locked(descriptor: int) -> bool:
    """Lock a file until it is closed; False if another process has."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks: then two processes that do this at once may lose lines
    return True
