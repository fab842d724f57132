"""SQL over a snapshot with DuckDB: a schema per operator, a table per state. It sees nothing but the snapshot.

Files of a canonical savepoint whose columns all have types are read by DuckDB itself, as far as the query needs them;
every other state that the query names is read into memory first.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.checkpoint.readable_state import ReadableState, readable
from penstock.checkpoint.stored_snapshot import KeyedState, State, StoredSnapshot
from penstock.errors import UsageError
from penstock.storage.address import parse_address

BATCH_ROWS = 10_000
RAW_NAME = "_raw"
"""The table of raw state, which has no name."""


def query_snapshot(snapshot: StoredSnapshot, query: str) -> tuple[list[str], Iterator[list[tuple[Any, ...]]]]:
    """The names of a query's columns, and its rows, some at a time."""
    try:
        import duckdb
    except ImportError as error:
        raise UsageError(
            "SQL over snapshots needs DuckDB, which is not installed; install it with `pip install 'penstock[sql]'`"
        ) from error
    connection = duckdb.connect(":memory:")
    try:
        _open_views(connection, snapshot, query)
        result = connection.execute(query)
        names = [column[0] for column in result.description or ()]
    except duckdb.Error as error:
        tables = ", ".join(_quoted(state.uid) + "." + _quoted(table_name(state)) for state in snapshot.states())
        raise UsageError(f"the query cannot run: {error}\nTables are: {tables}") from error
    return names, iter(lambda: result.fetchmany(BATCH_ROWS), [])


def table_name(state: State) -> str:
    """What a state's table is called."""
    return state.name or RAW_NAME


def _open_views(connection: Any, snapshot: StoredSnapshot, query: str) -> None:
    """Make a view of each state, then shut everything else off."""
    connection.execute("SET autoinstall_known_extensions = false; SET autoload_known_extensions = false")
    connection.execute("SET python_enable_replacements = false")
    states = snapshot.states()
    local = [_own_files(snapshot, readable(state)) for state in states]
    paths = [path for files in local for path in files]
    if paths:
        connection.execute(f"SET allowed_paths = {_texts(paths)}")
    for number, (state, files) in enumerate(zip(states, local, strict=True)):
        selected = readable(state)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(state.uid)}")
        if files:
            columns = ", ".join(_quoted(column.name) for column in selected.columns)
            source = f"(SELECT {columns} FROM read_parquet({_texts(files)}, hive_partitioning = false))"
        else:
            source = f"_rows_{number}"
            connection.register(source, _rows(snapshot, selected, is_wanted=_is_named(state, query)))
        name = f"{_quoted(state.uid)}.{_quoted(table_name(state))}"
        connection.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM {source}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _own_files(snapshot: StoredSnapshot, selected: ReadableState) -> list[str]:
    """The files that DuckDB can read without us; none if there are any that it cannot."""
    root = parse_address(snapshot.storage.uri)
    state = selected.state
    if not isinstance(state, KeyedState) or not isinstance(root, Path) or not selected.is_as_stored or state.info.ttl:
        return []
    found = []
    for part in state.parts:
        for file in part.snapshot.files:
            if file.table is None:
                return []
            if (file.table.operator_uid, file.table.name) == (state.uid, state.name):
                if file.inline is not None:
                    return []
                found.append(str(root / file.path))
    # Square brackets and the like would be taken for a pattern.
    return found if not any(sign in path for path in found for sign in "*?[]{}") else []


def _is_named(state: State, query: str) -> bool:
    """Whether the query can be about this state; what it does not name is not read."""
    return table_name(state).lower() in query.lower()


def _rows(snapshot: StoredSnapshot, selected: ReadableState, *, is_wanted: bool) -> pa.Table:
    tables = list(selected.read(snapshot.storage)) if is_wanted else []
    return pa.concat_tables(tables) if tables else selected.schema.empty_table()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _texts(values: list[str]) -> str:
    return "[" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + "]"
