"""What a job left behind, held against the oracle: the state in its newest checkpoint, and its finished files."""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.snapshot.manifest import file_paths, load_manifest, verify_file
from penstock.model.snapshot import NativeName, OwnTables, StateTableInfo, SubtaskSnapshot, files_of_format
from penstock.state.backend.backend_spec import StoredFiles
from penstock.state.format.snapshot_file import read_chain
from penstock.state.format.table_rows import Rows, decode_rows
from penstock.state.operator.operator_file import read_operator_states
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.storage.local import LocalStorage
from tests.faults.events import Expected

_PRINTED = re.compile(r"(?:\d+> )?Row\(id=(None|\d+), key='([^']*)', amount=(\d+), count=(\d+)\)")

Row = dict[str, Any]
Tables = dict[str, dict[Any, Any]]
"""State name -> key (for a map: key and map key) -> value."""


@dataclass(frozen=True)
class Verdict:
    """How many events are missing or there twice, in state or output, and what else is wrong."""

    lost: int
    doubled: int
    wrong: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether state and output are those of the oracle."""
        return not (self.lost or self.doubled or self.wrong)


def judge(expected: Expected, job_folder: Path, output: Path) -> Verdict:
    """The verdict on a job that has finished."""
    return compare(expected, read_state(job_folder), list(read_output(output)))


def compare(expected: Expected, tables: Tables, rows: list[Row]) -> Verdict:
    """The verdict on a state and an output; an event that is lost in both counts twice."""
    in_state = Counter(number for ids in tables.get("ids", {}).values() for number in ids)
    in_output = Counter(row["id"] for row in rows if row["id"] is not None)
    wanted = {number for ids in expected.ids.values() for number in ids}
    found = (in_state, in_output)
    return Verdict(
        lost=sum(len(wanted - counter.keys()) for counter in found),
        doubled=sum(sum(counter.values()) - len(counter) for counter in found),
        wrong=(*_wrong_state(expected, tables), *_wrong_output(expected, rows)),
    )


def _wrong_state(expected: Expected, tables: Tables) -> Iterator[str]:
    seen = {(key, number): True for key, ids in expected.ids.items() for number in ids}
    wanted: Tables = {"count": expected.counts(), "sum": expected.sums, "xor": expected.xors, "seen": seen}
    wanted["taken"] = {"events": len(seen), "ids": sum(number for _, number in seen)}
    for name, values in wanted.items():
        if tables.get(name) != values:
            yield f"state {name!r} differs for {_differences(values, tables.get(name, {}))}"
    ids = {key: set(numbers) for key, numbers in tables.get("ids", {}).items()}
    if ids != expected.ids:
        yield f"state 'ids' differs for {_differences(expected.ids, ids)}"


def _wrong_output(expected: Expected, rows: list[Row]) -> Iterator[str]:
    """Each key counts its events from 1 on, in the order in which it took them, and is closed once with its totals."""
    counts: dict[str, list[int]] = {}
    totals: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        if row["id"] is None:
            totals.setdefault(row["key"], []).append((row["count"], row["amount"]))
        else:
            counts.setdefault(row["key"], []).append(row["count"])
    counted = {key: sorted(values) for key, values in counts.items()}
    wanted_counts = {key: list(range(1, count + 1)) for key, count in expected.counts().items()}
    closed = expected.counts().items() if expected.closed else ()
    wanted_totals = {key: [(count, expected.sums[key])] for key, count in closed}
    if counted != wanted_counts:
        yield f"running counts in the output differ for {_differences(wanted_counts, counted)}"
    if totals != wanted_totals:
        yield f"totals in the output differ for {_differences(wanted_totals, totals)}"


def _differences(wanted: dict[Any, Any], found: dict[Any, Any]) -> str:
    keys = [key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key)]
    return f"{len(keys)} keys, such as {min(keys, key=str)!r}"


def read_output(folder: Path) -> Iterator[Row]:
    """The rows of the finished files."""
    for path in sorted(folder.iterdir()):
        if not path.name.startswith((".", "_")):
            yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def read_printed(path: Path) -> Iterator[Row]:
    """The printed rows. A printed line is shown at least once, so the same line again is the same row."""
    rows = {match.groups(): None for match in map(_PRINTED.fullmatch, path.read_text().splitlines()) if match}
    for number, key, amount, count in rows:
        yield {"id": None if number == "None" else int(number), "key": key, "amount": int(amount), "count": int(count)}


def strays(job_folder: Path, output: Path, retained: int = 1) -> list[str]:
    """Files of a finished job that nobody needs: all that the last checkpoints do not list, and unfinished output."""
    storage = LocalStorage(job_folder)
    needed = set()
    for complete in read_log(storage).lineage[-retained:]:
        needed |= {complete.metadata_path, *file_paths(load_manifest(storage, complete))}
    kept = [path for path in storage.list("") if not path.startswith("log/") and path not in needed]
    parts = output.iterdir() if output.exists() else ()
    return kept + [path.name for path in parts if path.name.startswith((".inprogress", ".pending"))]


def read_state(job_folder: Path) -> Tables:
    """All state in the newest completed checkpoint of a job; of operator state the sum over all subtasks."""
    storage = LocalStorage(job_folder)
    manifest = load_manifest(storage, read_log(storage).lineage[-1])
    tables: Tables = {}
    for snapshot in manifest.subtasks:
        files = [verify_file(storage, file) for file, _ in files_of_format(snapshot.files, OwnTables)]
        for info, table in read_chain(files, snapshot.key_groups, manifest.max_parallelism):
            _apply(tables.setdefault(info.name, {}), info, decode_rows(table, info))
        for info, table in _read_native(storage, snapshot, manifest.max_parallelism):
            _apply(tables.setdefault(info.name, {}), info, decode_rows(table, info))
        if snapshot.operator_file is not None:
            for (_, _, name), rows in read_operator_states(verify_file(storage, snapshot.operator_file)).items():
                totals = tables.setdefault(name, {"events": 0, "ids": 0})
                for row in rows["value"].to_pylist():
                    totals.update({field: totals[field] + row[field] for field in totals})
    return tables


def _read_native(
    storage: LocalStorage, snapshot: SubtaskSnapshot, max_parallelism: int
) -> Iterator[tuple[StateTableInfo, pa.Table]]:
    """The rows of RocksDB's own files."""
    native = files_of_format(snapshot.files, NativeName)
    for uid in {name.operator_uid for _, name in native}:
        files = [file for file, name in native if name.operator_uid == uid]
        infos = [info for info in snapshot.tables if info.operator_uid == uid]
        with tempfile.TemporaryDirectory() as folder:
            stored = StoredFiles(files, infos, lambda file: verify_file(storage, file), Path(folder) / "db")
            yield from RocksDBSpec().read_files(stored, max_parallelism, None)


def _apply(values: dict[Any, Any], info: StateTableInfo, rows: Rows) -> None:
    keys = rows.keys if rows.map_keys is None else list(zip(rows.keys, rows.map_keys, strict=True))
    for index, key in enumerate(keys):
        if rows.deleted is not None and rows.deleted[index]:
            values.pop(key, None)
        else:
            values[key] = rows.values[index]
