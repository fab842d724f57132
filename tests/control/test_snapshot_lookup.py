"""Queries of snapshots: how much of one is read, and how many are answered at a time."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.checkpoint.snapshot.stored_snapshot import StoredSnapshot, open_stored
from penstock.common import Types
from penstock.control.inspect import snapshot_lookup
from penstock.control.inspect.snapshot_lookup import SnapshotLookup, scan
from penstock.control.state_query import MAX_QUERIES, QueryAdmission, StateQuery
from penstock.errors import RequestRefusedError
from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.functions import KeyedProcessFunction
from penstock.model.key_groups import spark_hash
from penstock.model.snapshot import StateTableInfo
from penstock.state.format.table_rows import Rows, encode_rows, key_codec_of
from penstock.testing import Harness
from tests.checkpoint.snapshots import FORMS
from tests.checkpoint.snapshots import snapshot as saved

VALUES = StateTableInfo("op", "total", "value", ["STRING"], "LONG")
MAPS = StateTableInfo("op", "seen", "map", ["STRING"], "LONG", map_key_type="STRING")


def table(info: StateTableInfo, entries: list[Any]) -> pa.Table:
    """A part of a snapshot. An entry of a map is (key, map key, value)."""
    maps = [entry[1] for entry in entries] if info.map_key_type is not None else None
    rows = Rows([entry[0] for entry in entries], maps, [entry[-1] for entry in entries], None)
    return pa.Table.from_batches(list(encode_rows(rows, info, key_codec_of(info))))


class Parts:
    """Parts of a snapshot that know how many of them were read."""

    def __init__(self, *tables: pa.Table) -> None:
        self._tables = tables
        self.read = 0

    def __iter__(self) -> Iterator[pa.Table]:
        for part in self._tables:
            self.read += 1
            yield part


def test_a_scan_reads_no_more_parts_than_it_needs() -> None:
    parts = Parts(*(table(VALUES, [(f"{number}-{index}", index) for index in range(3)]) for number in range(50)))
    texts, more = scan(VALUES, parts, 4, None)
    assert ([bytes(text) for text in texts], more) == (
        [b'["0-0",0]', b'["0-1",1]', b'["0-2",2]', b'["1-0",0]'],
        True,
    )
    assert parts.read == 2


def test_a_scan_of_maps_shows_whole_maps_whatever_part_they_are_in() -> None:
    parts = Parts(
        table(MAPS, [("a", "x", 1), ("b", "x", 1)]),
        table(MAPS, [("b", "y", 2)]),
        table(MAPS, [("b", "z", 3), ("c", "x", 1)]),
        table(MAPS, [("d", "x", 1)]),
        table(MAPS, [("e", "x", 1)]),
    )
    texts, more = scan(MAPS, parts, 2, None)
    assert [bytes(text) for text in texts] == [b'["a",{"x":1}]', b'["b",{"x":1,"y":2,"z":3}]']
    assert (more, parts.read) == (True, 4)
    texts, more = scan(MAPS, parts, 9, None)
    assert (len(texts), more) == (5, False)


def test_a_scan_goes_on_behind_entries_that_have_expired() -> None:
    parts = Parts(table(VALUES, [("old", 1), ("older", 2)]), table(VALUES, [("new", 30)]))
    texts, more = scan(VALUES, parts, 1, lambda value: value if value > 9 else None)
    assert ([bytes(text) for text in texts], more) == ([b'["new",30]'], False)


class Count(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + 1)
        yield value


def test_a_scan_of_a_savepoint_leaves_the_files_of_other_subtasks_unread(tmp_path: Path) -> None:
    harness = Harness.keyed(Count(), key=lambda record: record, key_type=Types.STRING(), parallelism=4)
    harness.feed([f"key-{number}" for number in range(100)])
    path = harness.savepoint(tmp_path)
    *_, last = (file for subtask in open_stored(path).manifest.subtasks for file in subtask.files if file.path)
    place = Path(path, last.path)
    place.write_bytes(bytes(len(place.read_bytes())))  # whoever reads it finds it damaged
    found = SnapshotLookup().read(path, "function", "total", StateQuery(limit=3))
    assert (len(found.values), found.more) == (3, True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_keys_of_a_state_that_is_too_large_to_be_held_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, form: str
) -> None:
    path = saved(tmp_path / "job", form, backend, Types.STRING())
    whole, apart = SnapshotLookup(), SnapshotLookup()
    for name in ("total", "counts", "seen"):
        for keys in ((b'"k7"',), (b'"k1"', b'"absent"', b'"k49"', b'"k1"'), tuple(b'"k%d"' % n for n in range(50))):
            expected = whole.read(path, "function", name, StateQuery(keys))
            with monkeypatch.context() as patch:
                patch.setattr(snapshot_lookup, "HELD_BYTES", 100)
                for _ in range(2):
                    assert apart.read(path, "function", name, StateQuery(keys)) == expected
    assert whole._held is not None and apart._held is None


def test_of_a_large_state_only_the_files_with_the_key_groups_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_lookup, "HELD_BYTES", 100)
    harness = Harness.keyed(Count(), key=lambda record: record, key_type=Types.STRING(), parallelism=4)
    harness.feed([f"key-{number}" for number in range(100)])
    path = harness.savepoint(tmp_path)
    snapshot = open_stored(path)
    for subtask in snapshot.manifest.subtasks:
        for file in subtask.files:
            place = Path(path, file.path or "")
            kept = place.read_bytes()
            place.write_bytes(bytes(len(kept)))  # whoever reads it finds it damaged
            others = [
                number
                for number in range(100)
                if not subtask.key_groups[0] <= group_of(number, snapshot) <= subtask.key_groups[1]
            ]
            keys = tuple(b'"key-%d"' % number for number in others)
            found = SnapshotLookup().read(path, "function", "total", StateQuery(keys))
            assert [bytes(value) for value in found.values] == [b"1"] * len(keys) and len(keys) > 50
            place.write_bytes(kept)


def group_of(number: int, snapshot: StoredSnapshot) -> int:
    return spark_hash([f"key-{number}"], [Types.STRING()]) % snapshot.manifest.max_parallelism


def test_s14_eight_queries_are_admitted_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.control.state_query.ADMISSION_LIMIT_S", 0.0)
    admission = QueryAdmission()
    with ExitStack() as stack:
        for _ in range(MAX_QUERIES):
            stack.enter_context(admission.admitted())
        with pytest.raises(RequestRefusedError, match="8 queries"), admission.admitted():
            pass
    with admission.admitted():
        pass
