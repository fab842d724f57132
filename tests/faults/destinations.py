"""Where a job under fault writes to, as a reader sees it that shares nothing with the sinks and looks all the time.

What a reader sees "at once" is one transaction of a database, one version of a table, or one file.
"""

import functools
import json
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import hdfs_native
import psycopg
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from penstock.model.types import resolve_type
from tests.connectors.table_formats import Delta, Iceberg
from tests.faults.ends import ROW
from tests.faults.outcome import Row

COLUMNS = ("id", "key", "amount", "count")
SELECT = f"SELECT {', '.join(COLUMNS)} FROM"
Seen = set[tuple[int | str, int]]
"""The markers of checkpoints, or the names of files, each with the number of rows, or of bytes, that came with it."""


class Destination(ABC):
    """A table or folder with the rows of one sink."""

    @property
    @abstractmethod
    def sink(self) -> str:
        """In the words of `tests/faults/ends.py`."""

    @abstractmethod
    def look(self) -> Iterable[tuple[int | str, int]]:
        """What a reader sees now, read at once; nothing before the first commit."""

    @abstractmethod
    def rows(self) -> list[Row]:
        """All rows."""

    @abstractmethod
    def is_committing(self) -> bool:
        """Whether a commit has written something that no reader sees yet."""


class SqliteOutput(Destination):
    def __init__(self, path: Path, table: str = "tally", key: str = "") -> None:
        self._path = path
        self._table = table
        self._key = key
        self._journal = path.with_name(f"{path.name}-journal")

    @property
    def sink(self) -> str:
        return _words("sqlite", str(self._path), self._table, self._key)

    def look(self) -> Iterable[tuple[int | str, int]]:
        """In one statement, which is one snapshot; nothing while the database is locked."""
        if not self._path.exists():
            return []
        try:
            with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as database:
                return database.execute(_state(self._table)).fetchall()
        except sqlite3.OperationalError:
            return []

    def rows(self) -> list[Row]:
        with closing(sqlite3.connect(self._path)) as database:
            return _as_rows(database.execute(f"{SELECT} {self._table}").fetchall())

    def is_committing(self) -> bool:
        """Whether there is a rollback journal."""
        return self._journal.exists() and self._journal.stat().st_size > 0


class PostgresOutput(Destination):
    """A table in a database of its own: every session of a sink that is there belongs to the job."""

    def __init__(self, url: str, table: str = "tally", key: str = "") -> None:
        self._url = url
        self._table = table
        self._key = key

    @property
    def sink(self) -> str:
        return _words("postgres", self._url, self._table, self._key)

    def look(self) -> Iterable[tuple[int | str, int]]:
        try:
            return self._ask(_state(self._table))
        except psycopg.errors.UndefinedTable:
            return []

    def rows(self) -> list[Row]:
        return _as_rows(self._ask(f"{SELECT} {self._table}"))

    def is_committing(self) -> bool:
        """Whether a transaction is open that has begun to copy rows."""
        return bool(
            self._ask(
                "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'penstock' "
                "AND backend_xid IS NOT NULL AND query LIKE 'COPY%'"
            )
        )

    def _ask(self, statement: str) -> list[Any]:
        with psycopg.connect(self._url) as connection:
            return connection.execute(statement).fetchall()


class DeltaOutput(Destination):
    sink = "delta"

    def __init__(self, folder: Path) -> None:
        self._format = Delta(folder)

    def look(self) -> Iterable[tuple[int | str, int]]:
        try:
            table = DeltaTable(self._format.path)
        except TableNotFoundError:
            return []
        log = Path(self._format.path, "_delta_log", f"{table.version():020}.json")
        markers = [action["txn"]["version"] for action in _actions(log) if "txn" in action]
        return [(marker, table.to_pyarrow_dataset().count_rows()) for marker in markers]

    def rows(self) -> list[Row]:
        return self._format.rows()

    def is_committing(self) -> bool:
        """Whether there is a data file that no version of the table has."""
        versions = Path(self._format.path, "_delta_log").glob("*.json")
        added = {action["add"]["path"] for version in versions for action in _actions(version) if "add" in action}
        return any(path.name not in added for path in Path(self._format.path).glob("*.parquet"))


class IcebergOutput(Destination):
    sink = "iceberg"

    def __init__(self, folder: Path) -> None:
        self._format = Iceberg(folder)
        self._format.sink().check(resolve_type(ROW))  # makes a catalog for the reader

    def look(self) -> Iterable[tuple[int | str, int]]:
        try:
            table = self._format.table()
        except (NoSuchTableError, NoSuchNamespaceError):
            return []
        newest = table.current_snapshot()
        if newest is None or newest.summary is None:
            return []
        return [(int(newest.summary["penstock.marker"] or -1), table.scan().count())]

    def rows(self) -> list[Row]:
        return self._format.rows()

    def is_committing(self) -> bool:
        """Whether there are data files that the newest metadata does not count."""
        newest = max(self._format.folder.glob("w/*/table/metadata/*.metadata.json"), default=None)
        if newest is None:
            return False
        found = sum(1 for _ in newest.parent.with_name("data").glob("*.parquet"))
        try:
            return found > _file_count(newest)
        except (FileNotFoundError, json.JSONDecodeError):  # replaced, or being written
            return False


class FileOutput(Destination, ABC):
    """A folder of part files. Each is read when it is first seen: a reader that takes every file once sees all rows."""

    sink = "file"

    def __init__(self) -> None:
        self._read_names: set[str] = set()

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """The files of the folder, hidden ones too."""

    @abstractmethod
    def read(self, name: str) -> bytes: ...

    def look(self) -> Iterable[tuple[int | str, int]]:
        """Names and sizes of the finished files, and what could be read of new ones."""
        found = {name: size for name, size in self.sizes().items() if _is_finished(name)}
        read = {name: len(self.read(name)) for name in found.keys() - self._read_names}
        self._read_names |= read.keys()
        return [*found.items(), *read.items()]

    def rows(self) -> list[Row]:
        names = filter(_is_finished, self.sizes())
        return [json.loads(line) for name in names for line in self.read(name).splitlines()]

    def is_committing(self) -> bool:
        """Whether a part has the marker of its commit, and is still pending."""
        names = self.sizes().keys()
        return any(name.replace(".committed-", ".pending-") in names for name in names if name.startswith(".committed"))


class LocalOutput(FileOutput):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def sizes(self) -> dict[str, int]:
        found = {}
        for path in self._folder.iterdir():
            try:
                found[path.name] = path.stat().st_size
            except FileNotFoundError:  # renamed meanwhile
                continue
        return found

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()


class HdfsOutput(FileOutput):
    def __init__(self, address: str, folder: str) -> None:
        super().__init__()
        self._client = hdfs_native.Client(address)
        self._folder = folder

    def sizes(self) -> dict[str, int]:
        try:
            found = list(self._client.list_status(self._folder))
        except FileNotFoundError:
            return {}
        return {status.path.rpartition("/")[2]: status.length for status in found}

    def read(self, name: str) -> bytes:
        return self._client.read(f"{self._folder}/{name}").read()


# ---- a reader that looks all the time


@contextmanager
def polled(look: Callable[[], Iterable[tuple[int | str, int]]]) -> Iterator[Seen]:
    """What a reader sees while the block runs, and at its end."""
    seen: Seen = set()
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(0.02):
            seen.update(look())

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        yield seen
    finally:
        ended.set()
        reader.join()
    seen.update(look())


def require_whole(seen: Seen) -> None:
    """Each marker came with one number of rows, each file with one size, and a higher marker with no fewer rows."""
    names = [name for name, _ in seen]
    assert len(names) > 1, "the reader saw no checkpoint come"
    assert len(set(names)) == len(names), f"a part of a checkpoint was visible: {sorted(seen, key=str)}"
    counts = [count for _, count in sorted(pair for pair in seen if isinstance(pair[0], int))]
    assert counts == sorted(counts)


def _words(*words: str) -> str:
    return "=".join(word for word in words if word)


def _state(table: str) -> str:
    """The newest marker and the number of rows, once there is a commit."""
    return (
        f"SELECT marker, (SELECT count(*) FROM {table}) FROM "
        f"(SELECT max(marker) AS marker FROM penstock_commits) AS newest WHERE marker >= 0"
    )


def _as_rows(found: Iterable[Any]) -> list[Row]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in found]


def _is_finished(name: str) -> bool:
    return not name.startswith((".", "_"))


@functools.cache
def _actions(version: Path) -> list[Row]:
    """Of one version of a Delta table, which never changes."""
    return [json.loads(line) for line in version.read_text(encoding="utf-8").splitlines()]


@functools.cache
def _file_count(metadata: Path) -> int:
    """How many data files a version of an Iceberg table has."""
    content = json.loads(metadata.read_text(encoding="utf-8"))
    summaries = [
        snapshot["summary"]
        for snapshot in content["snapshots"]
        if snapshot["snapshot-id"] == content["current-snapshot-id"]
    ]
    return int(summaries[0]["total-data-files"]) if summaries else 0
