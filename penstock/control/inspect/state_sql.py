"""SQL over a snapshot with DuckDB: a schema per operator, a table per state. It sees nothing but the snapshot.

DuckDB itself reads the files of a canonical savepoint whose columns are all typed, as far as the query needs them.
Every other state that the query names is read into memory first.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.checkpoint.snapshot.readable_state import ReadableState, readable
from penstock.checkpoint.snapshot.stored_snapshot import KeyedState, State, StoredSnapshot
from penstock.errors import UsageError
from penstock.model.snapshot import TableFile
from penstock.storage.address import parse_address

BATCH_ROWS = 10_000
RAW_NAME = "_raw"
"""The table of raw state, which has no name."""


def query_snapshot(snapshot: StoredSnapshot, query: str) -> tuple[list[str], Iterator[list[tuple[Any, ...]]]]:
    """The names of a query's columns, and its rows in batches. Only one SELECT: other statements could write."""
    try:
        import duckdb
    except ImportError as error:
        raise UsageError(
            "SQL over snapshots needs DuckDB, which is not installed; install it with `pip install 'penstock[sql]'`"
        ) from error
    if not query.isascii() and query.encode(errors="replace").decode() != query:
        raise UsageError("the query cannot run: it is not valid Unicode")
    connection = duckdb.connect(":memory:")
    try:
        statements = connection.extract_statements(query)
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            raise UsageError(f"the query cannot run: it is not one SELECT\n{_tables_text(snapshot)}")
        _open_views(connection, snapshot, query)
        result = connection.execute(statements[0])
        names = [column[0] for column in result.description]
    except duckdb.Error as error:
        raise UsageError(f"the query cannot run: {error}\n{_tables_text(snapshot)}") from error
    return names, _batches(result)


def _batches(result: Any) -> Iterator[list[tuple[Any, ...]]]:
    """The rows in batches. DuckDB computes some of them only now."""
    import duckdb

    try:
        while rows := result.fetchmany(BATCH_ROWS):
            yield rows
    except duckdb.Error as error:
        raise UsageError(f"the query cannot run: {error}") from error


def _tables_text(snapshot: StoredSnapshot) -> str:
    names = _view_names(snapshot.states())
    return f"Tables are: {', '.join(names)}"


def _view_names(states: Sequence[State]) -> list[str]:
    """The table name of each state. DuckDB ignores case, so names that differ only in case get numbers."""
    plain = [(state.uid, table_name(state)) for state in states]
    counts = Counter(_folded(place) for place in plain)
    taken = set(counts)
    found = []
    for uid, name in plain:
        place, number = (uid, name), 0
        while counts[_folded((uid, name))] > 1 and _folded(place) in taken:
            number += 1
            place = uid, f"{name}_{number}"
        taken.add(_folded(place))
        found.append(f"{_quoted(place[0])}.{_quoted(place[1])}")
    return found


def _folded(place: tuple[str, str]) -> tuple[str, str]:
    return place[0].lower(), place[1].lower()


def table_name(state: State) -> str:
    """The name of a state's table."""
    return state.name or RAW_NAME


def _open_views(connection: Any, snapshot: StoredSnapshot, query: str) -> None:
    """Create a view of each state, then disable access to everything else."""
    connection.execute("SET autoinstall_known_extensions = false; SET autoload_known_extensions = false")
    connection.execute("SET python_enable_replacements = false")
    states = snapshot.states()
    local = [_own_files(snapshot, readable(state)) for state in states]
    paths = [path for files in local for path in files]
    if paths:
        connection.execute(f"SET allowed_paths = {_texts(paths)}")
    for number, (state, files, name) in enumerate(zip(states, local, _view_names(states), strict=True)):
        selected = readable(state)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(state.uid)}")
        if files:
            columns = ", ".join(_quoted(column.name) for column in selected.columns)
            source = f"(SELECT {columns} FROM read_parquet({_texts(files)}, hive_partitioning = false))"
        else:
            source = f"_rows_{number}"
            is_named = _is_named(state, query)
            connection.register(source, _rows(snapshot, selected, is_named=is_named))
            if not is_named:  # a query that reaches it all the same must not see it empty
                nulls = ", ".join("NULL" for _ in selected.columns)
                source += f" UNION ALL SELECT {nulls} WHERE error('write the name of the table in the query')"
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {source}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _own_files(snapshot: StoredSnapshot, selected: ReadableState) -> list[str]:
    """The files that DuckDB can read itself; none unless it can read all."""
    root = parse_address(snapshot.storage.uri)
    state = selected.state
    if not isinstance(state, KeyedState) or not isinstance(root, Path) or not selected.is_as_stored or state.info.ttl:
        return []
    found = []
    for part in state.parts:
        for file in part.snapshot.files:
            if not isinstance(file.format, TableFile):
                return []
            if file.format.state == (state.uid, "keyed", state.name):
                if file.inline is not None:
                    return []
                found.append(str(root / file.path))
    # DuckDB would take square brackets and the like for a pattern.
    return found if not any(sign in path for path in found for sign in "*?[]{}") else []


def _is_named(state: State, query: str) -> bool:
    """Whether the query may use this state; a state that it does not name is not read."""
    return table_name(state).lower() in query.lower().replace('""', '"')


def _rows(snapshot: StoredSnapshot, selected: ReadableState, *, is_named: bool) -> pa.Table:
    tables = list(selected.read(snapshot.storage)) if is_named else []
    return pa.concat_tables(tables) if tables else selected.schema.empty_table()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _texts(values: list[str]) -> str:
    return "[" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + "]"
