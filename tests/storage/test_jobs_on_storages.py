"""Whole jobs in the harness, with their checkpoints on each kind of storage (features J1, J2, J4, H1)."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.snapshot.manifest import file_paths, load_manifest
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.errors import CheckpointFailedError, FencedError, LogCorruptError
from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.functions import RuntimeContext
from penstock.model.snapshot import InlineLimits
from penstock.runtime.snapshots import snapshot_writer
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.storage import LocalStorage, MemoryStorage, Storage, conditional_put, open_storage
from penstock.testing import CHECKPOINT, CRASH, Harness, MemorySink
from tests.storage.s3_server import Faults, faulty_proxy

MIB = 1024 * 1024
PRINTABLE = bytes(33 + byte % 94 for byte in range(256))
IN_JOBMANAGER = InlineLimits(max_state_bytes=5 * MIB)


class Last(KeyedProcessFunction):
    """Keeps the last text of each key, and counts them."""

    def open(self, ctx: RuntimeContext) -> None:
        self.text = ctx.get_state(ValueStateDescriptor("text", Types.STRING()))
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, record: Any, ctx: Any) -> Any:
        self.text.update(record[1])
        self.count.update((self.count.value() or 0) + 1)
        yield record[0], self.count.value()


def job(storage: Storage, limits: InlineLimits | None = None, **settings: Any) -> Harness:
    return Harness.keyed(Last(), key=lambda record: record[0], storage=storage, limits=limits, **settings)


@pytest.fixture(params=["local", "memory", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "local":
        return LocalStorage(tmp_path / "job")
    return MemoryStorage() if request.param == "memory" else open_storage(request.getfixturevalue("s3_uri"))


def text(mark: str, size: int) -> str:
    """Text that does not compress below the size."""
    noise = random.Random(mark).randbytes(size).translate(PRINTABLE)
    return mark + noise.decode("ascii") + noise[::4].decode("ascii")


def records(keys: int, size: int, mark: str = "x") -> list[tuple[str, str]]:
    return [(f"key {number}", text(f"{mark}{number}", size)) for number in range(keys)]


def state_files(storage: Storage) -> list[str]:
    return [path for path in storage.list("") if not path.startswith("log/") and not path.endswith("/_metadata")]


def test_j4_a_job_checkpoints_and_recovers(storage: Storage) -> None:
    sink = MemorySink()
    harness = job(storage, parallelism=2, sink=sink)
    harness.feed([*records(50, 2000), CHECKPOINT, *records(3, 2000, "y"), CRASH, *records(2, 10, "z"), CHECKPOINT])
    harness.feed([CRASH]).finish()
    assert harness.crashes == 2
    assert harness.state("count", "key 0") == 3 and harness.state("text", "key 0") == text("z0", 10)
    assert harness.state("count", "key 2") == 2 and harness.state("count", "key 49") == 1
    assert sorted(sink.rows) == sorted([(f"key {n}", 1) for n in range(50)] + [
        ("key 0", 2), ("key 1", 2), ("key 2", 2), ("key 0", 3), ("key 1", 3)
    ])  # fmt: skip
    assert state_files(storage)  # the states are above the threshold


@pytest.mark.parametrize("incremental", [True, False])
def test_j4_a_job_on_rocksdb_checkpoints_and_recovers(storage: Storage, incremental: bool) -> None:
    harness = job(storage, parallelism=2, backend=BackendSettings(RocksDBSpec(), incremental=incremental))
    harness.feed([*records(50, 2000), CHECKPOINT, *records(3, 2000, "y"), CHECKPOINT, *records(2, 10, "z"), CRASH])
    assert harness.crashes == 1
    assert harness.state("count", "key 0") == 3 and harness.state("count", "key 49") == 1
    assert harness.state("text", "key 2") == text("y2", 2000)
    assert state_files(storage)


@pytest.mark.parametrize("incremental", [True, False])
def test_h3_rocksdb_with_its_checkpoints_in_the_jobmanager(incremental: bool) -> None:
    storage = MemoryStorage()
    settings = BackendSettings(RocksDBSpec(), incremental=incremental)
    harness = job(storage, IN_JOBMANAGER, parallelism=2, backend=settings)
    harness.feed([*records(50, 2000), CHECKPOINT, *records(3, 2000, "y"), CHECKPOINT, *records(2, 10, "z"), CRASH])
    assert harness.crashes == 1 and state_files(storage) == []
    assert harness.state("count", "key 0") == 3 and harness.state("count", "key 49") == 1
    with pytest.raises(CheckpointFailedError, match="larger than the maximum permitted memory-backed state"):
        job(MemoryStorage(), IN_JOBMANAGER, backend=settings).feed([*records(6, MIB), CHECKPOINT])


def test_j4_another_process_takes_the_job_over(storage: Storage) -> None:
    first = job(storage, parallelism=3)
    first.feed([*records(30, 2000), CHECKPOINT])
    second = job(storage, parallelism=2)
    second.feed([*records(30, 2000), CHECKPOINT, *records(1, 5, "later"), CHECKPOINT])
    assert second.attempt == 2
    assert second.state("text", "key 0") == text("later0", 5) and second.state("count", "key 0") == 2
    assert second.state("count", "key 29") == 1
    with pytest.raises(FencedError):
        first.feed([("a", "x"), CHECKPOINT])
    assert read_log(storage).attempt == 2


def test_a_listing_that_starts_to_lag_ends_the_attempt(
    s3_uri: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults()
    with faulty_proxy(s3_endpoint, faults) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        harness = job(open_storage(s3_uri))
        harness.feed([*records(3, 100), CHECKPOINT])
        faults.answer = without_the_last_entry
        with pytest.raises((FencedError, LogCorruptError)):
            harness.feed([*records(3, 100), CHECKPOINT])
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    again = job(open_storage(s3_uri)).feed([*records(3, 100), CHECKPOINT, *records(3, 100), CHECKPOINT])
    assert again.state("count", "key 0") == 2


def without_the_last_entry(method: str, path: str, body: bytes) -> bytes:
    """A listing of the log as it was one entry ago."""
    if method != "GET" or b"<ListBucketResult" not in body or b"/log/" not in body:
        return body
    start = body.rfind(b"<Contents>", 0, body.rfind(b"/log/"))
    end = body.find(b"</Contents>", start) + len(b"</Contents>")
    return body[:start] + body[end:]


def test_old_checkpoints_are_deleted_and_what_is_left_is_needed(storage: Storage) -> None:
    harness = job(storage)
    for round_ in range(12):
        harness.feed([*records(20, 2000, f"{round_} "), CHECKPOINT])
    view = read_log(storage)
    assert [complete.checkpoint for complete in view.lineage] == [12]
    needed = file_paths(load_manifest(storage, view.lineage[-1]))
    assert set(state_files(storage)) == needed
    assert [path for path in storage.list("chk-") if path.endswith("_metadata")] == ["chk-12/_metadata"]


@pytest.mark.parametrize("fault", ["drop", "lose", 503, 409])
@pytest.mark.parametrize("place", ["log/", "_metadata", "shared/"])
def test_a_job_survives_faults_of_every_kind_of_write(
    s3_uri: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, place: str, fault: Any
) -> None:
    faults = Faults()
    monkeypatch.setattr(conditional_put, "WAITS_S", (0.0, 0.0, 0.0))
    with faulty_proxy(s3_endpoint, faults) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        harness = job(open_storage(s3_uri))
        faults.faults = [("PUT", place, fault)]
        harness.feed([*records(50, 2000), CHECKPOINT, *records(2, 5), CRASH])
        assert not faults.faults, "the fault has hit"
        assert harness.manifest is not None and harness.manifest.checkpoint_id == 1
        assert harness.state("count", "key 0") == 2 and harness.state("count", "key 49") == 1


def test_j2_a_state_of_1_kb_is_in_the_metadata_and_one_of_1_mb_has_a_file(storage: Storage) -> None:
    harness = job(storage)
    small, large = text("a", 800), text("b", MIB)
    harness.feed([("a", small), CHECKPOINT])
    assert state_files(storage) == []
    assert storage.list("chk-1/") == ["chk-1/_metadata"]
    harness.feed([("b", large), CHECKPOINT])
    (path,) = state_files(storage)
    assert storage.size(path) > MIB
    harness.feed([CRASH])
    assert harness.state("text", "a") == small and harness.state("text", "b") == large


@pytest.mark.parametrize(("threshold", "files"), [(0, 1), (100, 1), (64 * 1024, 0)])
def test_j2_the_threshold_decides(threshold: int, files: int) -> None:
    storage = MemoryStorage()
    job(storage, InlineLimits(inline_bytes=threshold)).feed([("a", text("a", 5000)), CHECKPOINT])
    assert len(state_files(storage)) == files


def test_j2_a_state_of_exactly_the_threshold_is_in_the_metadata() -> None:
    probe = MemoryStorage()
    job(probe, InlineLimits(inline_bytes=0)).feed([("a", text("a", 5000)), CHECKPOINT])
    (path,) = state_files(probe)
    for threshold, files in ((probe.size(path), 0), (probe.size(path) - 1, 1)):
        storage = MemoryStorage()
        job(storage, InlineLimits(inline_bytes=threshold)).feed([("a", text("a", 5000)), CHECKPOINT])
        assert len(state_files(storage)) == files


def test_j1_state_travels_to_the_jobmanager_and_outlives_the_workers() -> None:
    storage = MemoryStorage()
    harness = job(storage, IN_JOBMANAGER, parallelism=2)
    harness.feed([*records(100, 20_000), CHECKPOINT])
    assert state_files(storage) == []
    assert sum(len(storage.files[path]) for path in storage.list("chk-")) > 100 * 20_000
    harness.feed([*records(2, 10, "later"), CRASH])
    assert harness.crashes == 1 and harness.state("count", "key 0") == 2 and harness.state("count", "key 99") == 1
    assert harness.state("text", "key 99") == text("x99", 20_000)


def test_j1_checkpoints_are_lost_with_the_jobmanager() -> None:
    job(MemoryStorage(), IN_JOBMANAGER).feed([("a", "x"), CHECKPOINT])
    again = job(MemoryStorage(), IN_JOBMANAGER)
    assert again.attempt == 1 and again.state("count", "a") is None


def test_j1_with_a_folder_the_manifests_are_there_and_hold_everything(tmp_path: Path) -> None:
    job(LocalStorage(tmp_path), IN_JOBMANAGER).feed([*records(20, 20_000), CHECKPOINT])
    assert state_files(LocalStorage(tmp_path)) == []
    taken_over = job(LocalStorage(tmp_path), IN_JOBMANAGER)
    assert taken_over.attempt == 2 and taken_over.state("count", "key 19") == 1


def test_j1_every_checkpoint_stands_alone() -> None:
    storage = MemoryStorage()
    harness = job(storage, IN_JOBMANAGER)
    for round_ in range(3):
        harness.feed([*records(30, 1000, f"{round_} "), CHECKPOINT])
        assert harness.manifest is not None
        assert [len(snapshot.files) for snapshot in harness.manifest.subtasks] == [1]


def test_h1_a_state_of_6_mb_fails_the_checkpoint_with_flink_s_message() -> None:
    harness = job(MemoryStorage(), IN_JOBMANAGER)
    with pytest.raises(CheckpointFailedError) as caught:
        harness.feed([*records(6, MIB), CHECKPOINT])
    said = str(caught.value)
    start = said.index("Size of the state")
    size = int(said.partition("Size=")[2].partition(",")[0])
    assert 6 * MIB < size < 8 * MIB
    assert said[start:] == (
        f"Size of the state is larger than the maximum permitted memory-backed state. Size={size}, maxSize=5242880. "
        f"Consider using a different checkpoint storage, like the FileSystemCheckpointStorage."
    )


def test_h1_the_limit_can_be_raised() -> None:
    harness = job(MemoryStorage(), InlineLimits(max_state_bytes=9 * MIB))
    harness.feed([*records(6, MIB), CHECKPOINT, CRASH])
    assert harness.state("text", "key 5") == text("x5", MIB)


def test_h1_what_a_message_cannot_carry_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_writer, "MAX_INLINE_BYTES", MIB)
    with pytest.raises(CheckpointFailedError, match="a message to the JobManager can have 1048576"):
        job(MemoryStorage(), IN_JOBMANAGER).feed([*records(2, MIB), CHECKPOINT])


def test_h2_working_state_is_in_memory_and_files_are_in_the_checkpoint(tmp_path: Path) -> None:
    harness = job(LocalStorage(tmp_path))
    harness.feed([*records(50, 2000)])
    assert state_files(LocalStorage(tmp_path)) == []
    harness.feed([CHECKPOINT])
    assert (tmp_path / "chk-1/_metadata").is_file() and len(list((tmp_path / "shared").iterdir())) == 1


def test_a_checkpoint_in_a_bucket_holds_no_folder_markers(s3_uri: str, s3_keys: Callable[[], list[str]]) -> None:
    harness = job(open_storage(s3_uri))
    for round_ in range(3):
        harness.feed([*records(20, 2000, f"{round_} "), CHECKPOINT])
    prefix = s3_uri.split("/", 3)[3]
    keys = [key for key in s3_keys() if key.startswith(prefix)]
    assert keys and not [key for key in keys if key.endswith("/")]
