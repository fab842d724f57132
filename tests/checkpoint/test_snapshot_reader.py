"""The rows of checkpoints and savepoints as tables, from every backend, without Spark."""

import pickle
import sys
from collections import Counter
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.checkpoint.snapshot import table_reader
from penstock.checkpoint.snapshot.manifest import verify_file
from penstock.checkpoint.snapshot.readable_state import DeclaredTypes, readable
from penstock.checkpoint.snapshot.stored_snapshot import KeyedState, StoredSnapshot, open_stored
from penstock.checkpoint.snapshot.table_reader import ranges_of
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import CheckpointCorruptError, SnapshotNotFoundError, UsageError
from penstock.model.snapshot import InlineLimits, StateFile
from penstock.storage.local import LocalStorage
from penstock.storage.storage import Storage
from penstock.testing import CHECKPOINT, Harness
from penstock.testing.clocks import START_MS
from tests.checkpoint.snapshots import FAR_MS, FORMS, RECORDS, TOTALS, TTL_MS, checkpoint
from tests.checkpoint.snapshots import snapshot as saved

BACKENDS = ("hashmap", "rocksdb")


def rows(snapshot: StoredSnapshot, name: str, uid: str = "function") -> list[dict[str, Any]]:
    state = readable(snapshot.state(uid, name))
    return [row for table in state.read(snapshot.storage) for row in table.to_pylist()]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_s1_every_kind_of_state_is_read(tmp_path: Path, backend: str, form: str) -> None:
    snapshot = open_stored(saved(tmp_path / "job", form, backend, Types.STRING()))
    assert snapshot.kind == form and snapshot.operator_uids() == ["function"]
    snapshot.verify()
    assert {row["key"]: row["value"] for row in rows(snapshot, "total")} == TOTALS
    seen = {key: [n for k, n in RECORDS if k == key] for key in TOTALS}
    assert {row["key"]: row["value"] for row in rows(snapshot, "seen")} == seen
    last = {(key, "odd" if n % 2 else "even"): n for key, n in RECORDS}
    assert {(row["key"], row["map_key"]): row["value"] for row in rows(snapshot, "counts")} == last
    assert {row["key"]: row["value"] for row in rows(snapshot, "least")} == {k: min(v) for k, v in seen.items()}
    assert {row["key"]: row["value"] for row in rows(snapshot, "recent")} == {k: v[-1] for k, v in seen.items()}
    stamps, life = ("expires_at", TTL_MS) if form == "canonical" else ("last_access", 0)
    at = datetime.fromtimestamp((START_MS + life) / 1000, timezone.utc)
    assert all(row[stamps] == [at] * len(row["value"]) for row in rows(snapshot, "trail"))
    assert all(row[stamps] == at for row in rows(snapshot, "recent"))
    for name, base in (("_timers_event", 1_000_000), ("_timers_processing", FAR_MS)):
        assert {(row["key"], row["value"] - base) for row in rows(snapshot, name)} == set(RECORDS)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_s1_operator_union_and_broadcast_state_are_read(tmp_path: Path, backend: str, form: str) -> None:
    snapshot = open_stored(saved(tmp_path / "job", form, backend))
    handled = rows(snapshot, "handled")
    assert [row["subtask"] for row in handled] == [0, 1] and sum(row["value"] for row in handled) == len(RECORDS)
    assert [row["value"] for row in rows(snapshot, "everywhere")] == [
        f'{{"$tuple": ["records", {row["value"]}]}}' for row in handled
    ]
    assert [(row["map_key"], row["value"]) for row in rows(snapshot, "rules")] == [("limit", 7)]


def test_rows_are_in_the_order_of_key_group_and_key_and_there_once(tmp_path: Path) -> None:
    snapshot = open_stored(checkpoint(tmp_path / "job"))
    keys = [(row["key_group"], row["key"]) for row in rows(snapshot, "total")]
    assert len(set(keys)) == len(keys) == 50
    assert [group for group, _ in keys] == sorted(group for group, _ in keys)


@pytest.mark.parametrize("key_type", [None, Types.STRING()], ids=["untyped", "typed"])
def test_savepoints_of_both_backends_are_the_same_tables_row_for_row(tmp_path: Path, key_type: Any) -> None:
    tables = []
    for backend in BACKENDS:
        folder = Path(saved(tmp_path / backend, "canonical", backend, key_type))
        files = list(folder.rglob("*.parquet"))
        # By folder and subtask: the last part of a file's name is random.
        named = {path.relative_to(folder).as_posix().rpartition("-")[0]: pq.read_table(path) for path in files}
        assert len(named) == len(files)
        tables.append(named)
    assert len(tables[0]) == 23 and tables[0].keys() == tables[1].keys()
    for name, table in tables[0].items():
        assert table.equals(tables[1][name], check_metadata=True), name


def test_large_files_are_read_a_range_of_key_groups_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = open_stored(checkpoint(tmp_path / "job", key_type=Types.STRING()))
    whole = rows(snapshot, "total")
    monkeypatch.setattr(table_reader, "SLICE_BYTES", 1000)
    monkeypatch.setattr(table_reader, "HELD_BYTES", 10)
    tables = list(snapshot.state("function", "total").read(snapshot.storage))
    assert len(tables) > 2 and rows(snapshot, "total") == whole


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_some_key_groups_are_read_and_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, form: str
) -> None:
    snapshot = open_stored(saved(tmp_path / "job", form, backend, Types.STRING()))
    state = snapshot.state("function", "total")
    assert isinstance(state, KeyedState)
    whole = pa.concat_tables(state.read(snapshot.storage)).to_pylist()
    reads: Counter[int] = Counter()

    def verified(storage: Storage, file: StateFile) -> bytes:
        reads[id(file)] += 1
        return verify_file(storage, file)

    monkeypatch.setattr(table_reader, "verify_file", verified)
    for groups in ([], [3], [1, 3, 14], [15, 0, 7, 8, 9]):
        reads.clear()
        found = [row for table in state.read_groups(snapshot.storage, groups) for row in table.to_pylist()]
        assert [row for row in found if row["key_group"] in groups] == [r for r in whole if r["key_group"] in groups]
        assert all(row in whole for row in found) and len({row["key"] for row in found}) == len(found)
        assert set(reads.values()) <= {1} and bool(reads) == bool(groups)


def test_many_key_groups_are_a_few_ranges() -> None:
    assert ranges_of([]) == []
    assert ranges_of([5]) == [(5, 5)]
    assert ranges_of(range(100)) == [(0, 99)]
    found = ranges_of([*range(0, 200, 2), *range(1000, 2000, 100)])
    assert len(found) == table_reader.MOST_RANGES
    assert found[-10:] == [(group, group) for group in range(1000, 2000, 100)]
    assert all(any(first <= group <= last for first, last in found) for group in range(0, 200, 2))


def test_untyped_keys_are_json_or_what_they_are_declared_to_be(tmp_path: Path) -> None:
    snapshot = open_stored(checkpoint(tmp_path / "job"))
    assert {row["key"] for row in rows(snapshot, "total")} == {f'"{key}"' for key in TOTALS}
    declared = readable(snapshot.state("function", "total"), DeclaredTypes(key=Types.STRING()))
    found = [row for table in declared.read(snapshot.storage) for row in table.to_pylist()]
    assert {row["key"]: row["value"] for row in found} == TOTALS
    with pytest.raises(UsageError, match="has the type DOUBLE"):
        readable(snapshot.state("function", "total"), DeclaredTypes(value=Types.LONG()))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_parts_that_were_stored_in_an_older_schema_are_read_in_the_newer(
    tmp_path: Path, backend: str, form: str
) -> None:
    snapshot = open_stored(saved(tmp_path / "job", form, backend, Types.STRING()))
    state = snapshot.state("function", "least")
    assert isinstance(state, KeyedState)
    wider = msgspec.structs.replace(state.info, value_type="BIG_INT")
    parts = tuple(replace(part, info=wider) for part in state.parts)
    found = [row for table in KeyedState(wider, parts).read(snapshot.storage) for row in table.to_pylist()]
    assert {row["key"]: row["value"] for row in found} == {row["key"]: row["value"] for row in rows(snapshot, "least")}
    assert isinstance(found[0]["value"], Decimal) and not KeyedState(wider, parts).is_uniform


def test_names_that_are_not_there_are_answered_with_those_that_are(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "job")
    snapshot = open_stored(path + "/_metadata")
    with pytest.raises(UsageError, match="did you mean 'function'"):
        snapshot.state("functoin", "total")
    with pytest.raises(UsageError, match="did you mean 'total'"):
        snapshot.state("function", "totl")
    with pytest.raises(SnapshotNotFoundError, match="Cannot find meta data file"):
        open_stored(str(tmp_path))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    limits = InlineLimits(inline_bytes=0)
    made = Harness.keyed(Blob(), key=lambda record: record, storage=LocalStorage(folder), limits=limits)
    made.feed([*range(50), CHECKPOINT])
    manifest = made.manifest
    assert manifest is not None
    (file,) = manifest.subtasks[0].files
    data = bytearray((folder / file.path).read_bytes())
    data[-100] ^= 1
    (folder / file.path).chmod(0o600)
    (folder / file.path).write_bytes(bytes(data))
    snapshot = open_stored(str(folder / f"chk-{manifest.checkpoint_id}"))
    with pytest.raises(CheckpointCorruptError, match=file.path):
        rows(snapshot, "blob")
    with pytest.raises(CheckpointCorruptError, match=file.path):
        snapshot.verify()


class Blob(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.blob = runtime_context.get_state(ValueStateDescriptor("blob", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.blob.update(Fraction(value))
        return []


@pytest.mark.parametrize("backend", BACKENDS)
def test_pickled_state_is_bytes_and_nothing_of_it_runs(tmp_path: Path, backend: str) -> None:
    made = Harness.keyed(Blob(), key=lambda record: record, storage=LocalStorage(tmp_path), backend=backend)
    made.feed([1, 2, CHECKPOINT])
    assert made.manifest is not None
    snapshot = open_stored(str(tmp_path / f"chk-{made.manifest.checkpoint_id}"))
    opened: Counter[str] = Counter()
    sys.addaudithook(lambda event, arguments: opened.update([event] if is_watched else []))
    is_watched = True
    values = [row["value"] for row in rows(snapshot, "blob")]
    assert all(isinstance(value, bytes) for value in values) and not opened["pickle.find_class"]
    assert {pickle.loads(value) for value in values} == {1, 2} and opened["pickle.find_class"]
    is_watched = False
