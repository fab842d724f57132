"""The files of an epoch divided into tasks: consecutive ones together, and large ones into several parts."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from penstock.errors import SourceFileLostError
from penstock.model.units import KIB, MIB

LARGE_BYTES = 4 * MIB
"""A larger file may be divided."""
TASK_BYTES = 512 * KIB
"""A task with less costs more than it saves."""


@dataclass(frozen=True)
class FilePart:
    """A whole file, or a range of it that can be read alone."""

    path: str
    size_bytes: int
    start: int = 0
    stop: int | None = None
    """Of row groups in Parquet, of bytes in text; None: the end of the file."""


Divide = Callable[[FilePart, int], list[FilePart]]
"""The consecutive parts of a large file, of about so many bytes each."""


def whole_file(path: str) -> FilePart:
    """The file as it is now. Raises SourceFileLostError if it is gone."""
    try:
        return FilePart(path, os.stat(path).st_size)
    except FileNotFoundError:
        raise SourceFileLostError(
            f"the source file {path!r} has gone before it was read; put it back and resume the job, or resume it "
            f"without the file, and its rows are missing"
        ) from None


def tasks_of(files: Sequence[FilePart], slots: int, divide: Divide) -> list[list[FilePart]]:
    """The files for at most `slots` tasks of about the same size. Each task gets consecutive files, in order."""
    total = sum(file.size_bytes for file in files)
    share = max(1, total // slots)
    parts: list[FilePart] = []
    for file in files:
        is_large = slots > 1 and file.size_bytes > max(LARGE_BYTES, share // 2)
        parts += divide(file, max(LARGE_BYTES // 2, share // 4)) if is_large else [file]
    total = sum(part.size_bytes for part in parts)
    count = max(1, min(slots, len(parts), -(-total // TASK_BYTES)))
    tasks: list[list[FilePart]] = [[] for _ in range(count)]
    before = 0
    for part in parts:
        middle = before + part.size_bytes / 2
        _append(tasks[min(count - 1, int(middle * count / total)) if total else 0], part)
        before += part.size_bytes
    return [task for task in tasks if task]


def _append(task: list[FilePart], part: FilePart) -> None:
    """Add a part; one that continues the last one makes that longer."""
    if task and task[-1].path == part.path and task[-1].stop == part.start:
        task[-1] = replace(task[-1], stop=part.stop, size_bytes=task[-1].size_bytes + part.size_bytes)
    else:
        task.append(part)
