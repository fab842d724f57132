"""A sink whose rows wait with the checkpoint: crashes, repeated commits, drivers that slept, leftovers."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from penstock.common import Types
from penstock.connectors.staged import staged_writer
from penstock.connectors.staged.staged_files import FOLDER, INLINE_BYTES, StagedRows
from penstock.connectors.staged.staged_sink import StagedOutput, StagedSink, staged_outputs
from penstock.datastream import MapFunction
from penstock.errors import FencedError, SinkTransactionLostError
from penstock.jobmanager.attempt.sink_committer import GraphCommitter
from penstock.model.execution import CheckpointingMode
from penstock.model.ids import StageId, SubtaskId
from penstock.model.sink import SinkContext
from penstock.model.snapshot import Committable
from penstock.storage.memory import MemoryStorage
from penstock.testing import CHECKPOINT, CRASH, Harness

LONG = "x" * (INLINE_BYTES + 1)


class Table(StagedSink):
    """A table in memory with a marker per owner."""

    rows: list[Any] = []
    markers: dict[str, int] = {}
    fail_after: list[Exception] = []

    def publish(self, output: StagedOutput) -> None:
        if output.is_covered_by(self.markers.get(output.owner, -1)):
            return
        found = [row["value"] for batch in output.batches() for row in batch.to_pylist()]
        self.rows.extend(found)
        self.markers[output.owner] = output.marker
        if self.fail_after:
            raise self.fail_after.pop()


class Echo(MapFunction):
    def map(self, value: str) -> str:
        return value


@pytest.fixture(autouse=True)
def empty_table() -> Iterator[None]:
    Table.rows, Table.markers, Table.fail_after = [], {}, []
    yield


def harness(**options: Any) -> Harness:
    return Harness.non_keyed(Echo(), sink=Table(), sink_type=Types.STRING(), **options)


def test_q5_rows_appear_with_their_checkpoint_and_once_after_a_crash() -> None:
    job = harness().feed(["a", "b"])
    assert Table.rows == []
    job.feed([CHECKPOINT, "c", CRASH, CHECKPOINT])
    assert Table.rows == ["a", "b", "c"]


def test_a_lost_reply_is_read_back() -> None:
    Table.fail_after = [ConnectionError("no reply")]
    harness().feed(["a", CHECKPOINT, "b", CHECKPOINT, CRASH, "c", CHECKPOINT])
    assert Table.rows == ["a", "b", "c"]


def test_large_rows_are_files_that_go_with_their_commit() -> None:
    storage = MemoryStorage()
    job = harness(storage=storage).feed([LONG, CHECKPOINT, LONG, CHECKPOINT])
    assert Table.rows == [LONG, LONG]
    job.feed(["a", CRASH, CHECKPOINT])
    assert [path for path in storage.files if path.startswith(FOLDER)] == []


# ---- the writer alone


def context(storage: MemoryStorage | None, attempt: int = 1, index: int = 0) -> SinkContext:
    return SinkContext("job", attempt, "out", SubtaskId(StageId("s1"), index), Types.STRING(), storage)


def committables(writer: Any, who: SinkContext, epoch: int) -> list[Committable]:
    return [Committable("out", who.subtask, epoch, name, data) for name, data in writer.pre_commit()]


def values(found: Sequence[Committable]) -> list[str]:
    return [v for c in found for b in StagedRows(c).batches() for v in b.column("value").to_pylist()]


def test_roll_back_returns_to_the_start_of_the_epoch_even_after_a_pre_commit() -> None:
    who = context(MemoryStorage())
    writer = Table().open(who)
    writer.begin_epoch()
    writer.write(["a"])
    writer.begin_epoch()
    writer.write(["b"])
    dropped = committables(writer, who, 2)
    writer.roll_back()
    writer.write(["c"])
    again = committables(writer, who, 2)
    assert values(again) == ["a", "c"]
    assert {c.transaction for c in dropped}.isdisjoint(c.transaction for c in again)


def test_rows_over_the_limit_are_staged_within_an_epoch_and_can_be_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_writer, "PART_BYTES", 1)
    storage = MemoryStorage()
    who = context(storage)
    writer = Table().open(who)
    writer.begin_epoch()
    writer.write([LONG])
    writer.begin_epoch()
    writer.write(["b" + LONG])
    assert len(storage.files) == 2
    writer.roll_back()
    writer.write(["c"])
    assert values(committables(writer, who, 2)) == [LONG, "c"]


def test_a_missing_file_is_lost_output() -> None:
    storage = MemoryStorage()
    who = context(storage)
    writer = Table().open(who)
    writer.begin_epoch()
    writer.write([LONG])
    found = committables(writer, who, 1)
    storage.delete(next(iter(storage.files)))
    with pytest.raises(SinkTransactionLostError, match="has lost 1 rows of subtask s1/0"):
        Table().commit_all(found)


# ---- drivers


def staged(storage: MemoryStorage, attempt: int, epoch: int, row: str) -> list[Committable]:
    who = context(storage, attempt)
    writer = Table().open(who)
    writer.begin_epoch()
    writer.write([row])
    return committables(writer, who, epoch)


def test_i10_a_driver_that_slept_before_its_commit_publishes_nothing_later() -> None:
    storage = MemoryStorage()
    old = staged(storage, 1, 10, "a")
    slept = staged_outputs(old)  # it has read everything it needs
    committer = GraphCommitter("job", {"out": Table()}, storage)
    committer.commit(old)  # by the next attempt
    committer.commit(staged(storage, 2, 11, "b"))
    for output in slept:
        Table().publish(output)
    assert Table.rows == ["a", "b"]


def test_rows_of_a_job_that_an_old_copy_of_its_folder_brings_back_are_refused_and_not_dropped() -> None:
    """The copy counts attempts and epochs again, so its markers are behind those that are stored.

    Its newest checkpoint has no output, so this is not found out before there is some.
    """
    storage = MemoryStorage()
    job = harness(storage=storage).feed(["a", CHECKPOINT, CHECKPOINT])
    backup = MemoryStorage()
    backup.files.update(storage.files)
    job.feed(["b", CRASH, CHECKPOINT, "c", CHECKPOINT, "d", CHECKPOINT])
    assert Table.rows == ["a", "b", "c", "d"]
    with pytest.raises(
        FencedError, match=r"attempt 2, epoch 5 of sink .sink. is published, and this driver is at attempt 2"
    ):
        harness(storage=backup).feed(["a", "b", CHECKPOINT, "x", "y", CHECKPOINT])
    assert Table.rows == ["a", "b", "c", "d"]


def test_an_old_copy_of_a_folder_is_refused_at_its_start_although_it_claims_a_newer_attempt() -> None:
    """The job has published from its first attempt only; what the copy would publish is of the second."""
    storage = MemoryStorage()
    job = harness(storage=storage).feed(["a", CHECKPOINT])
    backup = MemoryStorage()
    backup.files.update(storage.files)
    job.feed(["b", CHECKPOINT, "c", CHECKPOINT])
    with pytest.raises(FencedError, match="is published, and this driver is at attempt 1"):
        harness(storage=backup).feed(["a", "b", "c", CHECKPOINT])
    assert Table.rows == ["a", "b", "c"]


def test_in_mode_at_least_once_epochs_behind_the_restored_checkpoint_are_no_sign_of_an_old_copy() -> None:
    storage = MemoryStorage()
    harness(storage=storage).feed(["a", CHECKPOINT])
    for _ in range(2):  # neither takes a checkpoint
        harness(storage=storage, mode=CheckpointingMode.AT_LEAST_ONCE).feed(["a", CHECKPOINT, "b"])
    assert Table.rows == ["a", "b", "b"]


def test_rows_of_an_attempt_of_another_job_with_the_same_number_are_not_its_own() -> None:
    storage = MemoryStorage()
    first, second = staged(storage, 1, 5, "a"), staged(storage, 1, 6, "b")
    GraphCommitter("job", {"out": Table()}, storage, own_from=1).commit(second)
    GraphCommitter("fork", {"out": Table()}, storage, own_from=1).commit(first)
    assert Table.rows == ["b"]


def test_an_attempt_that_fell_back_behind_committed_output_publishes_again() -> None:
    storage = MemoryStorage()
    committer = GraphCommitter("job", {"out": Table()}, storage)
    committer.commit(staged(storage, 1, 12, "a"))
    committer.commit(staged(storage, 2, 11, "again"))  # restored behind epoch 12
    assert Table.rows == ["a", "again"]


class Writer(Table):
    """Cannot tell what it has published."""

    @property
    def keeps_marker(self) -> bool:
        return False


def test_rows_of_a_writer_stay_until_no_recovery_commits_them_again() -> None:
    """In mode AT_LEAST_ONCE none does: a committer without a folder to sweep deletes them with their commit."""
    storage = MemoryStorage()
    found = staged(storage, 1, 5, LONG)
    GraphCommitter("job", {"out": Writer()}, storage).commit(found)
    assert Table.rows == [LONG] and len(storage.files) == 1
    found = staged(storage, 1, 6, LONG)
    GraphCommitter("job", {"out": Writer()}, None).commit(found)
    assert Table.rows == [LONG, LONG] and len(storage.files) == 1


def test_a_sweep_removes_what_older_attempts_and_dropped_runs_left() -> None:
    storage = MemoryStorage()
    needed = staged(storage, 1, 5, LONG)
    staged(storage, 1, 6, LONG)
    running = staged(storage, 2, 7, LONG)
    GraphCommitter("job", {"out": Table()}, storage).sweep([*needed], 2)
    left = {path for path in storage.files if path.startswith(FOLDER)}
    assert left == {c.data["file"] for c in [*needed, *running]}


def test_a_sweep_removes_what_a_writer_that_died_had_begun_to_write() -> None:
    storage = MemoryStorage()
    left, at_work = (f"{staged(storage, attempt, 5, LONG)[0].data['file']}~1f" for attempt in (1, 2))
    storage.files = {left: b"", at_work: b""}  # the names that files have until they are complete
    GraphCommitter("job", {"out": Table()}, storage).sweep([], 2)
    assert storage.files.keys() == {at_work}


def test_rows_of_another_jobs_checkpoint_are_published_and_stay_there() -> None:
    storage = MemoryStorage()
    found = staged(storage, 1, 5, LONG)
    GraphCommitter("fork", {"out": Table()}, MemoryStorage()).commit(found)
    assert Table.rows == [LONG] and len(storage.files) == 1
    GraphCommitter("job", {"out": Table()}, storage).commit(found)  # the job itself, later
    assert Table.rows == [LONG]


def test_o4_rows_that_were_published_under_an_older_uid_are_not_published_again() -> None:
    """The driver died after the commit; the program then gave the sink another uid, with the hash of the older one."""
    storage = MemoryStorage()
    for row in ("short", LONG):  # in the manifest, and in a file that is deleted with the commit
        Table.rows, Table.markers = [], {}
        found = staged(storage, 1, 5, row)
        GraphCommitter("job", {"out": Table()}, storage).commit(found)
        renamed = [msgspec.structs.replace(committable, sink_uid="renamed") for committable in found]
        GraphCommitter("job", {"renamed": Table()}, storage).commit(renamed)
        assert Table.rows == [row]
