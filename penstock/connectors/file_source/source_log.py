"""The log of a file source: which files each number of its offset stands for, in the format of Spark's own source.

`N` holds the files of number N, and every tenth, `N.compact`, those of all numbers up to N: a line `v1`, and one JSON
document for each file. As long as the format is Spark's, a job may change between this reader and Spark's (PROTOCOL
R19). A file is on disk before its number is used, and is never changed.
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.connectors.file_source.listing import SourceFile, address_of, path_of
from penstock.errors import CheckpointError
from penstock.model.ids import new_nonce

VERSION = "v1"
COMPACT = ".compact"
INTERVAL = 10
"""Numbers from one compaction to the next, if the log does not say otherwise."""
KEPT = 40
"""Numbers whose files are kept beside the last two compactions: Spark's setting in `session.RETENTION`."""


@dataclass(frozen=True)
class LoggedFile:
    """A file that a number stands for."""

    path: str
    number: int


class SourceLog:
    """The log in one folder. One process writes it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        self._plain = {int(name) for name in names if name.isdigit()}
        stems = [name.removesuffix(COMPACT) for name in names if name.endswith(COMPACT)]
        self._compactions = sorted(int(stem) for stem in stems if stem.isdigit())
        self.last = max([-1, *self._plain, *self._compactions])
        """The newest number; -1 if there is none."""
        self._interval = interval_of(self._compactions)
        begin = self._compactions[-1] + 1 if self._compactions else 0
        if not self._plain.issuperset(range(begin, self.last + 1)):
            raise CheckpointError(f"entries up to {self.last} of the source log {str(folder)!r} are gone")

    def files(self) -> Iterator[str]:
        """The paths of all files that were ever read."""
        for line in self._lines_up_to(self.last):
            yield path_of(json.loads(line)["path"])

    def files_between(self, after: int, up_to: int) -> list[LoggedFile]:
        """The files of the numbers after one, up to and including another, in order."""
        return [file for number in range(after + 1, up_to + 1) for file in self._files_of(number)]

    def append(self, files: Sequence[SourceFile]) -> int:
        """Write the next number. When this returns, it is on disk."""
        number = self.last + 1
        lines = [
            json.dumps(
                {"path": address_of(file.path), "timestamp": file.modified_ms, "batchId": number},
                ensure_ascii=False,
                separators=(",", ":"),
            )
            for file in files
        ]
        if (number + 1) % self._interval:
            self._write(str(number), lines)
            self._plain.add(number)
        else:
            self._write(f"{number}{COMPACT}", [*self._lines_up_to(number - 1), *lines])
            self._compactions.append(number)
            self._drop_old(number)
        self.last = number
        return number

    def _files_of(self, number: int) -> list[LoggedFile]:
        is_plain = number in self._plain
        if not is_plain and number not in self._compactions:
            raise CheckpointError(f"entry {number} of the source log {str(self._folder)!r} is gone")
        entries: list[dict[str, Any]] = list(map(json.loads, self._lines(f"{number}{'' if is_plain else COMPACT}")))
        return [LoggedFile(path_of(entry["path"]), number) for entry in entries if entry["batchId"] == number]

    def _lines_up_to(self, number: int) -> Iterator[str]:
        """The entries of all numbers: those of the newest compaction, and what follows it."""
        begin = 0
        if self._compactions:
            begin = self._compactions[-1] + 1
            yield from self._lines(f"{begin - 1}{COMPACT}")
        for later in range(begin, number + 1):
            yield from self._lines(str(later))

    def _lines(self, name: str) -> list[str]:
        lines = (self._folder / name).read_text(encoding="utf-8").split("\n")
        if lines[0] != VERSION:
            raise CheckpointError(f"the source log {str(self._folder / name)!r} is not of version {VERSION}")
        return list(filter(None, lines[1:]))

    def _write(self, name: str, lines: Sequence[str]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        new = self._folder / f".{name}.{new_nonce()}.tmp"
        with new.open("w", encoding="utf-8", newline="") as file:
            file.write("\n".join([VERSION, *lines]))
            file.flush()
            os.fsync(file.fileno())
        new.rename(self._folder / name)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _drop_old(self, number: int) -> None:
        """Delete what neither a batch that is planned again nor a position needs."""
        begin = min([number - KEPT, *self._compactions[-2:-1]])
        for old in sorted(self._plain):
            if old < begin:
                (self._folder / str(old)).unlink(missing_ok=True)
                self._plain.discard(old)
        for old in [compaction for compaction in self._compactions if compaction < begin]:
            (self._folder / f"{old}{COMPACT}").unlink(missing_ok=True)
            self._compactions.remove(old)


def interval_of(compactions: Sequence[int]) -> int:
    """How many numbers lie between two compactions, by those that there are: Spark's rule.

    >>> interval_of([]), interval_of([9, 19]), interval_of([4]), interval_of([29]), interval_of([11])
    (10, 10, 5, 10, 12)
    """
    if not compactions:
        return INTERVAL
    if len(compactions) > 1:
        return compactions[-1] - compactions[-2]
    count = compactions[0] + 1
    if count <= INTERVAL:
        return count
    return next((divisor for divisor in range(INTERVAL, count // 2 + 1) if count % divisor == 0), count)
