"""Writes down the batches of a run, one line of JSON each, as `bench/engine.py` describes."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any


class BatchLog:
    """Used with `with`. A batch is written when the next one comes, or at the end.

    What follows a batch without rows of its own, or only with the closing rows, is part of it: there windows fire.
    """

    def __init__(self, path: Path, closing_rows: int = 0) -> None:
        self.rows = 0
        self.rows_out = 0
        self._closing_rows = closing_rows
        self._file = path.open("w")
        self._held: dict[str, Any] = {}

    def __enter__(self) -> "BatchLog":
        return self

    def add(self, batch: dict[str, Any]) -> None:
        """Note a batch: its `rows`, `rows_out`, `started_ms` and `finished_ms`."""
        self.rows_out += batch["rows_out"]
        if batch["rows"] > self._closing_rows:
            self.rows += batch["rows"]
            self._write()
            self._held = dict(batch)
        elif self._held:
            self._held["rows_out"] += batch["rows_out"]
            if batch["rows"] or batch["rows_out"]:
                self._held["finished_ms"] = batch["finished_ms"]

    def take_back(self, rows_out: int) -> None:
        """Leave so many results out of the last batch: they are not those of the workload."""
        self.rows_out -= rows_out
        self._held["rows_out"] -= rows_out

    def _write(self) -> None:
        if self._held:
            print(json.dumps(self._held), file=self._file, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._write()
        self._file.close()
