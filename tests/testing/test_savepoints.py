"""Savepoints on the harness: taken, stopped with, and what a crash in the middle leaves (features N1 to N9)."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.checkpoint.snapshot.manifest import decode_manifest, state_files, verify_file
from penstock.common import Time, Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.errors import CheckpointFailedError
from penstock.failpoint import Failpoint
from penstock.model.functions import RuntimeContext
from penstock.model.snapshot import InlineLimits, Manifest, NativeName, OwnTables, TableFile
from penstock.model.state import MapState
from penstock.storage.local import LocalStorage
from penstock.testing import CHECKPOINT, Harness, MemorySink, Watermark
from tests.sim.schedule import armed

BACKENDS = ("hashmap", "rocksdb")
SAVEPOINT = re.compile(r"savepoint-[0-9a-f]{6}-[0-9a-f]{12}")


class Everything(KeyedProcessFunction):
    """A function with a state of each kind that has a table of its own, and a timer per record."""

    def open(self, ctx: RuntimeContext) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.by_size: MapState[str, int] = ctx.get_map_state(
            MapStateDescriptor("by size", Types.STRING(), Types.LONG())
        )
        recent = ListStateDescriptor("recent=all", Types.LONG())
        recent.enable_time_to_live(StateTtlConfig.new_builder(Time.minutes(5)).build())
        self.recent = ctx.get_list_state(recent)

    def process_element(self, record: tuple[str, int], ctx: Any) -> Iterable[Any]:
        key, amount = record
        self.total.update((self.total.value() or 0) + amount)
        self.seen.add(amount)
        self.by_size.put("large" if amount > 5 else "small", amount)
        self.recent.add(amount)
        ctx.timer_service().register_event_time_timer(1000 + amount)
        yield key, self.total.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield "fired", timestamp


def everything(backend: str = "hashmap", **settings: Any) -> Harness:
    return Harness.keyed(
        Everything(), key=lambda r: r[0], key_type=Types.STRING(), parallelism=2, backend=backend, **settings
    )


def manifest_of(path: str) -> Manifest:
    return decode_manifest((Path(path) / "_metadata").read_bytes(), path)


def tables_of(path: str) -> dict[tuple[str, str, str], pa.Table]:
    """The tables of a canonical savepoint, by plain pyarrow."""
    found: dict[tuple[str, str, str], list[pa.Table]] = {}
    for file in state_files(manifest_of(path)):
        assert isinstance(file.format, TableFile)
        found.setdefault(file.format.state, []).append(pq.read_table(Path(path) / file.path))
    return {place: pa.concat_tables(parts) for place, parts in found.items()}


def crash(place: str) -> Failpoint:
    return Failpoint(place, "raise")


RECORDS = [("ada", 1), ("bob", 7), CHECKPOINT, ("ada", 3), ("cleo", 9), ("dan", 2)]


def test_n1_a_savepoint_is_a_folder_with_metadata_and_tables(tmp_path: Path) -> None:
    path = everything().feed(RECORDS).savepoint(tmp_path)
    assert SAVEPOINT.fullmatch(Path(path).name) and Path(path).parent == tmp_path
    assert Path(path).name[10:16] == manifest_of(path).job_id[:6]
    names = {place[2] for place in tables_of(path)}
    assert names == {"total", "seen", "by size", "recent=all", "_timers_event", "_timers_processing"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_n1_with_jobmanager_storage_everything_is_in_metadata(tmp_path: Path, backend: str) -> None:
    harness = everything(backend, limits=InlineLimits(max_state_bytes=1 << 20))
    path = harness.feed(RECORDS).savepoint(tmp_path)
    assert [file.name for file in Path(path).rglob("*") if file.is_file()] == ["_metadata"]
    assert all(file.inline is not None for file in state_files(manifest_of(path)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_n2_the_job_goes_on_and_nothing_of_it_is_in_the_savepoint(tmp_path: Path, backend: str) -> None:
    harness = everything(backend).feed(RECORDS)
    path = harness.savepoint(tmp_path)
    harness.feed([("ada", 100)])
    assert harness.state("total", "ada") == 104
    rows = tables_of(path)["function", "keyed", "total"].to_pylist()
    assert {row["key"]: row["value"] for row in rows} == {"ada": 4, "bob": 7, "cleo": 9, "dan": 2}


def test_n2_a_savepoint_is_not_used_for_recovery_and_lists_no_transaction(tmp_path: Path) -> None:
    sink = MemorySink()
    harness = everything(sink=sink).feed(RECORDS)
    path = harness.savepoint(tmp_path)
    assert manifest_of(path).committables == []
    assert len(sink.rows) == 5  # those of the checkpoint at whose barrier it was taken are committed
    for file in Path(path).rglob("*"):
        if file.is_file():
            file.unlink()
    harness.crash().feed([("ada", 1)])
    assert harness.state("total", "ada") == 5


def test_n3_after_a_stop_nothing_is_taken_and_everything_is_committed(tmp_path: Path) -> None:
    sink = MemorySink()
    harness = everything(sink=sink).feed(RECORDS)
    path = harness.savepoint(tmp_path, then="stop")
    assert len(sink.rows) == 5
    with pytest.raises(Exception, match="ended"):
        harness.feed([("ada", 1)])
    assert "fired" not in {row[0] for row in sink.rows}
    assert len(tables_of(path)["function", "keyed", "_timers_event"]) == 5


def test_n4_drain_fires_all_timers_before_the_savepoint(tmp_path: Path) -> None:
    sink = MemorySink()
    path = everything(sink=sink).feed([Watermark(10), *RECORDS]).savepoint(tmp_path, then="stop", drain=True)
    fired = sorted(row[1] for row in sink.rows if row[0] == "fired")
    assert fired == [1001, 1002, 1003, 1007, 1009]
    assert len(tables_of(path)["function", "keyed", "_timers_event"]) == 0


def test_n4_a_drain_that_fails_leaves_event_time_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = MemorySink()
    harness = everything(sink=sink).feed([*RECORDS, CHECKPOINT])

    def broken(*_: object) -> None:
        raise OSError("no space left on device")

    for owned in harness._host._owned.values():
        monkeypatch.setattr(owned.savepoints, "write", broken)
    with pytest.raises(CheckpointFailedError, match="no space left"):
        harness.savepoint(tmp_path, then="stop", drain=True)
    assert len(sink.rows) == 5  # no timer has fired for anybody to see
    harness.feed([Watermark(1003), ("ada", 50), CHECKPOINT])
    assert sorted(row[1] for row in sink.rows if row[0] == "fired") == [1001, 1002, 1003]


def test_n5_a_savepoint_that_cannot_be_written_leaves_the_job_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = everything().feed(RECORDS)
    folder = tmp_path / "full"
    folder.mkdir()

    class Broken(LocalStorage):
        def put_new(self, path: str, data: bytes) -> None:
            raise OSError("no space left on device")

    for owned in harness._host._owned.values():
        monkeypatch.setattr(owned.savepoints, "_open_storage", Broken)
    with pytest.raises(CheckpointFailedError, match="no space left"):
        harness.savepoint(folder, then="cancel")
    assert list(folder.rglob("_metadata")) == []
    harness.feed([("ada", 1), CHECKPOINT])
    assert harness.state("total", "ada") == 5
    assert harness._attempt.log.view().stopping is None


def test_n7_the_hash_of_every_file_holds_wherever_the_folder_is(tmp_path: Path) -> None:
    path = Path(everything().feed(RECORDS).savepoint(tmp_path / "here"))
    moved = tmp_path / "elsewhere"
    path.rename(moved)
    files = list(state_files(manifest_of(str(moved))))
    assert len(files) == 12 and all(verify_file(LocalStorage(moved), file) for file in files)


def test_n8_both_backends_write_the_same_tables(tmp_path: Path) -> None:
    paths = [everything(backend).feed(RECORDS).savepoint(tmp_path) for backend in BACKENDS]
    hashmap, rocksdb = map(tables_of, paths)
    assert hashmap.keys() == rocksdb.keys()
    for place, table in hashmap.items():
        assert table.equals(rocksdb[place]), place


def test_n8_the_same_bytes(tmp_path: Path) -> None:
    digests = []
    for backend in BACKENDS:
        manifest = manifest_of(everything(backend).feed(RECORDS).savepoint(tmp_path))
        digests.append(sorted(file.sha256 for file in state_files(manifest)))
    assert digests[0] == digests[1]


def test_n2_the_history_of_checkpoints_shows_it(tmp_path: Path) -> None:
    harness = everything().feed(RECORDS)
    path = harness.savepoint(tmp_path)
    last = harness._attempt.coordinator.history()[-1]
    assert (last.savepoint, last.path, last.checkpoint_type) == ("canonical", path, "SAVEPOINT")


@pytest.mark.parametrize("backend", BACKENDS)
def test_n9_native_has_the_files_of_the_backend(tmp_path: Path, backend: str) -> None:
    manifest = manifest_of(everything(backend).feed(RECORDS).savepoint(tmp_path, format="native"))
    assert manifest.savepoint == "native"
    files = [file for snapshot in manifest.subtasks for file in snapshot.files]
    written = NativeName if backend == "rocksdb" else OwnTables
    assert files and all(isinstance(file.format, written) and file.path.startswith("native/") for file in files)


def test_state_that_no_function_asks_for_any_more_is_in_the_savepoint_once(tmp_path: Path) -> None:
    class Less(Everything):
        def open(self, ctx: RuntimeContext) -> None:
            self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

        def process_element(self, record: tuple[str, int], ctx: Any) -> Iterable[Any]:
            self.total.update((self.total.value() or 0) + record[1])
            yield record

    old = everything().feed([("ada", 1), CHECKPOINT, ("ada", 2), CHECKPOINT])
    new = Harness.keyed(
        Less(), key=lambda r: r[0], key_type=Types.STRING(), parallelism=1, storage=old.storage, clock=old.clock
    )
    rows = tables_of(new.savepoint(tmp_path))["function", "keyed", "seen"].to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == [("ada", [1, 2])]


@pytest.mark.parametrize("side", ["before", "after"])
def test_c28_a_crash_before_metadata_leaves_no_savepoint_and_loses_nothing(tmp_path: Path, side: str) -> None:
    sink = MemorySink()
    harness = everything(sink=sink).feed(RECORDS)
    with armed([crash(f"C28.{side}")]), pytest.raises(CheckpointFailedError, match="attempt of the job has ended"):
        harness.savepoint(tmp_path)
    assert harness.crashes == 1
    assert list(tmp_path.rglob("_metadata")) == []
    path = harness.feed([("ada", 10)]).savepoint(tmp_path)
    rows = tables_of(path)["function", "keyed", "total"].to_pylist()
    assert {row["key"]: row["value"] for row in rows} == {"ada": 14, "bob": 7, "cleo": 9, "dan": 2}
    assert len(sink.rows) == 6


@pytest.mark.parametrize("place", ["C28.before", "C28.after", "C19.before", "C20.before", "C17.after", "C12.before"])
def test_an_attempt_that_finds_a_stop_completes_it(tmp_path: Path, place: str) -> None:
    """PROTOCOL R30."""
    sink = MemorySink()
    harness = everything(sink=sink).feed(RECORDS)
    with armed([crash(place)]):
        path = harness.savepoint(tmp_path, then="stop")
    assert harness.crashes == 1
    assert len(list(tmp_path.rglob("_metadata"))) == 1
    rows = tables_of(path)["function", "keyed", "total"].to_pylist()
    counted = {row["key"]: row["value"] for row in rows}
    position = manifest_of(path).sources.batch_id
    fed = [record for record in RECORDS[:position] if isinstance(record, tuple)]
    assert sum(counted.values()) == sum(amount for _, amount in fed)  # the state is that of the position
    assert len(sink.rows) == len(fed)
