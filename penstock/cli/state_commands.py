"""`penstock state ls|show|diff|sql|export`: the state in a snapshot as data, without Spark."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import typer

from penstock.checkpoint.snapshot.readable_state import ReadableState
from penstock.checkpoint.snapshot.stored_snapshot import State, StoredSnapshot, open_stored
from penstock.cli.count_texts import bytes_text, count_of_rows
from penstock.cli.flags import DEFAULT_LIMIT, DebugFlag, JsonFlag
from penstock.codec.tagged_json import from_json
from penstock.control.inspect.state_diff import SnapshotDiff, StateDiff, diff_snapshots
from penstock.control.inspect.state_export import export
from penstock.control.inspect.state_rows import (
    RowSelection,
    SnapshotSummary,
    StateSummary,
    find_state,
    plain_rows,
    summarise,
)
from penstock.control.inspect.state_sql import query_snapshot
from penstock.control.terminal import MODE, print_result, table
from penstock.errors import UsageError

app = typer.Typer(name="state", help="Inspect savepoints and checkpoints.", no_args_is_help=True, rich_markup_mode=None)
LS_COLUMNS = ("OPERATOR", "STATE", "KIND", "SCHEMA", "ROWS", "BYTES")
CELL_CHARACTERS = 200

PathArgument = Annotated[str, typer.Argument(metavar="PATH", help="A savepoint, or chk-N of a job's folder.")]
OperatorFlag = Annotated[str, typer.Option("--operator", metavar="UID", help="The operator's uid.")]
StateFlag = Annotated[str, typer.Option("--state", metavar="NAME", help="The state's name.")]
KeyFlag = Annotated[str | None, typer.Option("--key", metavar="K", help="Only this key.")]
KindFlag = Annotated[
    str | None, typer.Option("--kind", help="keyed, list, union or broadcast, if the name is ambiguous.")
]


@app.command("ls")
def ls(
    *,
    path: PathArgument,
    no_rows: Annotated[bool, typer.Option("--no-rows", help="Do not read files to count rows.")] = False,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """List operators and states: kind, schema, rows, bytes."""
    summary = summarise(open_stored(path), count_rows=not no_rows)
    print_result(summary_text(summary), summary)


@app.command("show")
def show(  # noqa: PLR0913 - the parameters are the command's flags
    *,
    path: PathArgument,
    operator: OperatorFlag,
    state: StateFlag,
    key: KeyFlag = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of rows.")] = DEFAULT_LIMIT,
    kind: KindFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Show the rows of a state, or of one key."""
    snapshot, found = _open(path, operator, state, kind)
    selection = RowSelection.of(snapshot, found, key)
    rows, is_cut = _first_rows(selection, limit)
    documents = list(plain_rows(rows, selection.readable))
    text = rows_text(rows, selection.readable) if len(rows) else "no rows"
    if is_cut:
        text += f"\n… the first {limit} rows; --limit shows more, `penstock state export` writes all"
    print_result(text, {"rows": documents, "more": is_cut})


@app.command("diff")
def diff(
    *,
    before: Annotated[str, typer.Argument(metavar="A", help="A savepoint or checkpoint.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Another savepoint or checkpoint.")],
    examples: Annotated[int, typer.Option("--examples", min=0, help="Rows to show of each state.")] = 3,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Show the differences between two snapshots."""
    found = diff_snapshots(open_stored(before), open_stored(after), examples)
    print_result(diff_text(found), found)


@app.command("sql")
def sql(
    *,
    path: PathArgument,
    query: Annotated[str, typer.Argument(metavar="QUERY", help='Such as: select * from "uid"."state"')],
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Run SQL over a snapshot: a schema per operator, a table per state. Needs penstock[sql]."""
    names, batches = query_snapshot(open_stored(path), query)
    rows = [row for batch in batches for row in batch]
    documents = [dict(zip(names, map(_document, row), strict=True)) for row in rows] if MODE.json else []
    print_result(table(names, [list(map(cell_text, row)) for row in rows]) if names else "done", documents)


@app.command("export")
def export_state(  # noqa: PLR0913 - the parameters are the command's flags
    *,
    path: PathArgument,
    operator: OperatorFlag,
    state: StateFlag,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="A new .parquet, .csv or .json file.")],
    key: KeyFlag = None,
    kind: KindFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Write a state to one Parquet, CSV or JSON file."""
    snapshot, found = _open(path, operator, state, kind)
    rows = export(RowSelection.of(snapshot, found, key), to)
    print_result(f"{count_of_rows(rows)} written to {to}", {"rows": rows, "file": str(to)})


def _open(path: str, operator: str, state: str, kind: str | None) -> tuple[StoredSnapshot, State]:
    if kind not in (None, "keyed", "list", "union", "broadcast", "raw", "raw_keyed"):
        raise UsageError(f"--kind {kind!r} is not one of keyed, list, union, broadcast, raw, raw_keyed")
    snapshot = open_stored(path)
    return snapshot, find_state(snapshot, operator, state, kind)


def _first_rows(selection: RowSelection, limit: int) -> tuple[pa.Table, bool]:
    """The first rows, and whether there are more. Reads no more files than needed."""
    found, count = [selection.readable.schema.empty_table()], 0
    for part in selection.tables():
        found.append(part)
        count += len(part)
        if count > limit:
            break
    return pa.concat_tables(found).slice(0, limit), count > limit


def summary_text(summary: SnapshotSummary) -> str:
    """The summary as text."""
    what = "checkpoint" if summary.kind == "checkpoint" else f"{summary.kind} savepoint"
    head = f"{what} {summary.checkpoint_id} of job {summary.job_id}, max parallelism {summary.max_parallelism}"
    operators = [
        [cell_text(o.operator), str(o.parallelism), str(o.subtask_states), bytes_text(o.size_bytes)]
        for o in summary.operators
    ]
    parts = [head, table(("OPERATOR", "PARALLELISM", "WITH STATE", "BYTES"), operators)]
    if summary.states:
        parts.append(table(LS_COLUMNS, [_state_row(state) for state in summary.states]))
    return "\n\n".join(parts)


def _state_row(state: StateSummary) -> list[str]:
    sides = [part for part in (state.key, state.namespace or None, state.map_key, state.value) if part is not None]
    ttl = "" if state.ttl_ms is None else " ttl" + (f" {state.ttl_ms} ms" if state.ttl_ms else "")
    rows = "-" if state.rows is None else str(state.rows)
    size = "-" if state.size_bytes is None else bytes_text(state.size_bytes)
    schema = cell_text(" -> ".join(sides) + ttl)
    return [cell_text(state.operator), cell_text(state.state or "-"), state.kind, schema, rows, size]


def rows_text(rows: pa.Table, selected: ReadableState) -> str:
    """Rows as text, with untyped values as Python literals."""
    columns = []
    for column in selected.columns:
        is_untyped = column.type.kind == "tagged"
        values = rows[column.name].to_pylist()
        columns.append([cell_text(_python_text(v) if is_untyped and v is not None else v) for v in values])
    names = [column.name for column in selected.columns]
    return table(names, [list(row) for row in zip(*columns, strict=True)])


def _python_text(text: str) -> str:
    return repr(from_json(text))


def diff_text(found: SnapshotDiff) -> str:
    """The differences as text."""
    if found.is_empty:
        return "no differences"
    lines = [f"operator added    {cell_text(uid)}" for uid in found.operators_added]
    lines += [f"operator removed  {cell_text(uid)}" for uid in found.operators_removed]
    for state in found.states:
        lines += _state_diff_lines(state)
    return "\n".join(lines)


def _state_diff_lines(state: StateDiff) -> list[str]:
    counts = f"+{state.rows_added} -{state.rows_removed} ~{state.rows_changed} rows"
    if state.change == "schema":
        counts = "rows not compared: keys or columns differ"
    lines = [f"state {state.change:<8}    {cell_text(state.operator)} {cell_text(state.state or '-')}: {counts}"]
    if state.schema_before is not None:
        lines += [f"    - {cell_text(state.schema_before)}", f"    + {cell_text(state.schema_after)}"]
        lines.append(f"    {cell_text(state.schema_change)}")
    for example in state.examples:
        lines += [f"    {sign} {_line(row)}" for sign, row in (("-", example.before), ("+", example.after)) if row]
    return lines


def _line(row: dict[str, Any]) -> str:
    return cell_text(", ".join(f"{name} {value}" for name, value in row.items()))


def cell_text(value: object) -> str:
    """A value as one short line without control characters.

    >>> cell_text("red \\x1b[31m alert\\n")
    'red \\\\x1b[31m alert\\\\n'
    """
    text = value if isinstance(value, str) else "null" if value is None else str(value)
    if len(text) > CELL_CHARACTERS:
        text = f"{text[:CELL_CHARACTERS]}… ({len(text)} characters)"
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def _document(value: Any) -> Any:
    """A value from DuckDB in a form that JSON can hold."""
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError):
        return str(value)
    return value
