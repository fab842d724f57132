"""Who commits the output of a checkpoint that another job starts from (PROTOCOL R26)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.datastream import KeyedProcessFunction
from penstock.errors import SnapshotRefusedError, StorageError
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.storage.local import LocalStorage
from penstock.testing import CHECKPOINT, Harness, MemorySink


class Same(KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Iterable[Any]:
        yield row


def old_job(tmp_path: Path, sink: MemorySink, *, commits: bool) -> str:
    """The path of the newest checkpoint of a job whose sink may have had no answer at the end."""
    storage = LocalStorage(tmp_path / "old")
    harness = Harness.keyed(Same(), key=str, sink=sink, storage=storage, retained=3).feed([1, CHECKPOINT])
    if not commits:
        sink.store.called = _fail
    harness.feed([2, CHECKPOINT])
    sink.store.called = lambda when, transaction: None
    assert harness.manifest is not None and harness.manifest.committables
    return f"{tmp_path}/old/chk-{harness.manifest.checkpoint_id}"


def _fail(when: str, transaction: str) -> None:
    raise StorageError("no answer")


def new_job(tmp_path: Path, sink: MemorySink | None, path: str) -> Harness:
    storage = LocalStorage(tmp_path / "new")
    return Harness.keyed(Same(), key=str, sink=sink, storage=storage, start=StartOptions(path))


def test_r26_output_that_the_old_job_has_not_committed_is_committed_by_the_new_one(tmp_path: Path) -> None:
    sink = MemorySink()
    path = old_job(tmp_path, sink, commits=False)
    assert sink.rows == [1]
    new_job(tmp_path, sink, path).feed([3, CHECKPOINT])
    assert sink.rows == [1, 2, 3]


def test_r26_output_that_is_committed_already_stays_as_it_is(tmp_path: Path) -> None:
    sink = MemorySink()
    path = old_job(tmp_path, sink, commits=True)
    new_job(tmp_path, sink, path).feed([3, CHECKPOINT])
    assert sink.rows == [1, 2, 3]


def test_r26_a_sink_that_knows_nothing_of_the_output_refuses_the_checkpoint(tmp_path: Path) -> None:
    path = old_job(tmp_path, MemorySink(), commits=False)
    with pytest.raises(SnapshotRefusedError, match="start from a savepoint") as caught:
        new_job(tmp_path, MemorySink(), path)
    assert caught.value.code == "UNCOMMITTED_OUTPUT"


def test_r26_a_program_without_the_sink_is_refused(tmp_path: Path) -> None:
    path = old_job(tmp_path, MemorySink(), commits=False)
    with pytest.raises(SnapshotRefusedError, match=r"sinks that the program does not have: \['sink'\]"):
        new_job(tmp_path, None, path)


def test_r29_a_savepoint_leaves_nothing_to_commit(tmp_path: Path) -> None:
    old, new = MemorySink(), MemorySink()
    harness = Harness.keyed(Same(), key=str, sink=old, storage=LocalStorage(tmp_path / "old")).feed([1])
    path = harness.savepoint(tmp_path / "savepoints")
    new_job(tmp_path, new, path).feed([2, CHECKPOINT])
    assert (old.rows, new.rows) == ([1], [2])
