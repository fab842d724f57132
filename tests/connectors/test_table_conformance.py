"""The sinks of table formats in the conformance suite. Each commit of the table fails before and after its effect."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog

from penstock.connectors.delta import delta_log
from penstock.model.sink import Sink
from penstock.testing.conformance_sink import CHECKS, SinkSystem
from tests.connectors.table_formats import Delta, Iceberg

Check = Callable[[SinkSystem], None]
SLOW = {
    "delta": {"a_crash_between_any_two_steps_is_recovered", "a_crash_within_any_call_is_recovered"},
    "iceberg": {check.__name__ for check in CHECKS} - {"a_lost_reply_is_found_out", "a_later_attempt_commits"},
}
"""Checks that run in `make test-all` only."""


def checks(format_name: str) -> list[Any]:
    return [
        pytest.param(check, id=check.__name__, marks=pytest.mark.full if check.__name__ in SLOW[format_name] else ())
        for check in CHECKS
    ]


class Tables(SinkSystem):
    """One table. Nothing waits in it: rows that are not committed are with the checkpoint."""

    def leftovers(self) -> Sequence[object]:
        return []

    def _failing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **named: self.faults.call(function, *args, **named)


class DeltaTables(Tables):
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.table = Delta(folder)
        monkeypatch.setattr(delta_log, "write_deltalake", self._failing(write_deltalake))
        monkeypatch.setattr(delta_log, "_create", self._failing(delta_log._create))

    def sink(self) -> Sink:
        return self.table.sink()

    def rows(self) -> list[tuple[int, int]]:
        found = []
        for entry in sorted(Path(self.table.path, "_delta_log").glob("*.json")):
            for action in map(json.loads, entry.read_text(encoding="utf-8").splitlines()):
                if "add" in action:
                    rows = pq.read_table(Path(self.table.path, action["add"]["path"])).to_pylist()
                    found += [(row["id"], row["value"]) for row in rows]
        return found

    def clear(self) -> None:
        shutil.rmtree(self.table.path, ignore_errors=True)


class IcebergTables(Tables):
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.table = Iceberg(folder)
        monkeypatch.setattr(SqlCatalog, "commit_table", self._failing(SqlCatalog.commit_table))

    def sink(self) -> Sink:
        return self.table.sink()

    def rows(self) -> list[tuple[int, int]]:
        if not load_catalog("test", **self.table.properties).table_exists(self.table.NAME):
            return []
        entries = self.table.table().inspect.entries().sort_by("sequence_number").to_pylist()
        files = [entry["data_file"]["file_path"].removeprefix("file://") for entry in entries]
        return [(row["id"], row["value"]) for file in files for row in pq.read_table(file).to_pylist()]

    def clear(self) -> None:
        catalog = load_catalog("test", **self.table.properties)
        if catalog.table_exists(self.table.NAME):
            catalog.drop_table(self.table.NAME)


@pytest.mark.parametrize("check", checks("delta"))
def test_q5_delta(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(DeltaTables(tmp_path, monkeypatch))


@pytest.mark.parametrize("check", checks("iceberg"))
def test_q5_iceberg(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(IcebergTables(tmp_path, monkeypatch))
