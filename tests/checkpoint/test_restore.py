"""What a new attempt starts from (PROTOCOL R3, R6, R23, R24, R26)."""

from collections.abc import Sequence

import msgspec
import pytest

from penstock.checkpoint.file_names import metadata_path
from penstock.checkpoint.log.entries import Committing, Complete, Discard, Restore
from penstock.checkpoint.log.log_view import summarize
from penstock.checkpoint.restore.redistribution import snapshots_to_load
from penstock.checkpoint.restore.restore_choice import (
    choose_restore,
    finish_open_deletes,
    path_to_restore,
    record_restore,
)
from penstock.checkpoint.restore.sink_recovery import recover_sinks
from penstock.checkpoint.snapshot.manifest import digest, encode_manifest
from penstock.errors import CheckpointError, FencedError, StorageError
from penstock.model.ids import Version
from penstock.model.snapshot import Committable, Manifest, SourcePosition
from penstock.storage import Fault, MemoryStorage
from tests.checkpoint.logs import Script, claimed_log, open_log
from tests.checkpoint.manifests import committable, file_of, manifest, snapshot, table


def put_checkpoint(log, number: int) -> Manifest:
    """A complete checkpoint with one file."""
    path = f"shared/1-{number}-s0-0-aa"
    log.storage.put_new(path, b"state")
    whole = manifest(
        checkpoint_id=number,
        parent=None,
        attempt=1,
        epoch=number,
        subtasks=[msgspec.structs.replace(snapshot(0, (0, 7), file_of(path)), version=Version(1, number, "n"))],
        sources=SourcePosition(number, None),
        committables=[committable(f"t{number}", epoch=number)],
    )
    data = encode_manifest(whole)
    log.storage.put_new(metadata_path(number), data)
    log.append(Complete(number, number, metadata_path(number), digest(data)))
    return msgspec.json.decode(data, type=Manifest)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def storage(script: Script) -> MemoryStorage:
    return MemoryStorage(script)


def test_r23_a_job_without_checkpoints_starts_from_nothing(storage: MemoryStorage) -> None:
    log = claimed_log(storage)
    assert choose_restore(log, allow_fallback=False) is None
    record_restore(log, None, "start")
    assert log.view().number == 1


def test_r24_the_newest_complete_checkpoint_is_restored(storage: MemoryStorage) -> None:
    log = claimed_log(storage)
    put_checkpoint(log, 1)
    newest = put_checkpoint(log, 2)
    storage.put_new(metadata_path(3), b"put, but never complete")
    log = claimed_log(storage)
    assert choose_restore(log, allow_fallback=False) == newest
    record_restore(log, newest, "recovery")
    restored = open_log(storage).view().restore
    assert restored == Restore(2, None, "recovery")


@pytest.mark.parametrize("damage", ["manifest", "missing manifest", "file", "missing file"])
def test_r24_a_damaged_checkpoint_is_passed_over_only_if_that_is_allowed(storage: MemoryStorage, damage: str) -> None:
    log = claimed_log(storage)
    older = put_checkpoint(log, 1)
    put_checkpoint(log, 2)
    log.append(Committing(2))
    path = metadata_path(2) if "manifest" in damage else "shared/1-2-s0-0-aa"
    if "missing" in damage:
        del storage.files[path]
    else:
        storage.files[path] = storage.files[path][:-1]
    with pytest.raises(CheckpointError) as caught:
        choose_restore(log, allow_fallback=False)
    assert path in str(caught.value) and "--allow-fallback" in str(caught.value) and "twice" in str(caught.value)
    said: list[str] = []
    assert choose_restore(log, allow_fallback=True, report=said.append) == older
    assert choose_restore(log, allow_fallback=False, sinks_idempotent=True) == older
    assert len(said) == 1 and path in said[0]


def test_r24_a_base_keeps_what_may_be_visible_and_what_is_confirmed(storage: MemoryStorage) -> None:
    log = claimed_log(storage)
    for number in (1, 2):
        put_checkpoint(log, number)
    assert (log.view().commits_begun, log.view().confirmed) == (-1, frozenset([1]))
    log.append(Committing(2))
    log.append(summarize(log.view(), []))
    for path in storage.list("log/")[:-1]:
        storage.delete(path)
    read = open_log(storage).view()
    assert (read.commits_begun, read.confirmed) == (2, frozenset([1]))
    record_restore(log, put_checkpoint(log, 3), "recovery")
    assert (log.view().commits_begun, log.view().confirmed) == (3, frozenset([1, 2]))
    log.append(Discard([1], []))
    assert log.view().confirmed == {2}


def test_r24_with_nothing_left_the_job_does_not_start(storage: MemoryStorage) -> None:
    log = claimed_log(storage)
    for number in (1, 2):
        put_checkpoint(log, number)
        del storage.files[metadata_path(number)]
    with pytest.raises(CheckpointError, match="all are damaged"):
        choose_restore(log, allow_fallback=True)


def test_a_storage_that_does_not_answer_is_no_reason_to_fall_back(storage: MemoryStorage, script: Script) -> None:
    log = claimed_log(storage)
    put_checkpoint(log, 1)
    newest = put_checkpoint(log, 2)
    for operation, path in (("read", metadata_path(2)), ("size", "shared/")):
        script.add(operation, path, Fault.FAIL)
        with pytest.raises(StorageError):
            choose_restore(log, allow_fallback=True)
    assert choose_restore(log, allow_fallback=True) == newest


def test_r4_fenced_is_not_damaged(storage: MemoryStorage) -> None:
    log = claimed_log(storage)
    put_checkpoint(log, 1)
    claimed_log(storage)
    del storage.files[metadata_path(1)]
    with pytest.raises(FencedError):
        choose_restore(log, allow_fallback=True)


def test_r25_a_job_starts_from_the_same_path_until_its_first_checkpoint(storage: MemoryStorage) -> None:
    log = claimed_log(storage)
    assert path_to_restore(log.view(), "savepoints/a") == "savepoints/a"
    log.append(Restore(None, "savepoints/a", "-s"))
    assert path_to_restore(log.view(), None) == path_to_restore(log.view(), "savepoints/b") == "savepoints/a"
    put_checkpoint(log, 1)
    assert path_to_restore(log.view(), "savepoints/a") is None


def test_r3_open_deletes_are_finished_first(storage: MemoryStorage) -> None:
    log = claimed_log(storage)
    for path in ("shared/1-1-s0-0-aa", "shared/1-1-s0-0-bb", "shared/1-1-s0-0-cc"):
        storage.put_new(path, b"")
    log.append(Discard([], ["shared/1-1-s0-0-aa", "shared/1-1-s0-0-bb", "shared/1-1-s0-0-zz"]))
    finish_open_deletes(claimed_log(storage))
    assert storage.list("shared/") == ["shared/1-1-s0-0-cc"]


class Recorder:
    """A committer that notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def commit(self, committables: Sequence[Committable]) -> None:
        self.calls += [f"commit {c.transaction}" for c in committables]

    def sweep(self, keep: Sequence[Committable], attempt: int) -> None:
        self.calls.append(f"sweep before {attempt} but {[c.transaction for c in keep]}")


def test_sinks_are_committed_before_they_are_swept(storage: MemoryStorage) -> None:
    log = claimed_log(storage)
    restored = put_checkpoint(log, 1)
    log = claimed_log(storage)
    committer = Recorder()
    recover_sinks(log, restored, committer)
    assert committer.calls == ["commit t1", "sweep before 2 but ['t1']"]
    claimed_log(storage)
    with pytest.raises(FencedError):
        recover_sinks(log, restored, committer)
    assert len(committer.calls) == 2


# ---- which snapshots a subtask reads


def old_job() -> Manifest:
    return manifest(subtasks=[snapshot(0, (0, 3)), snapshot(1, (4, 7)), snapshot(0, (0, 7), stage="s1")])


@pytest.mark.parametrize(
    ("key_groups", "expected"),
    [
        ((0, 3), ["s0/0", "s1/0"]),
        ((0, 7), ["s0/0", "s0/1", "s1/0"]),
        ((3, 4), ["s0/0", "s0/1", "s1/0"]),
        ((6, 7), ["s0/1", "s1/0"]),
    ],
)
def test_a_subtask_reads_the_snapshots_that_overlap_its_key_groups(
    key_groups: tuple[int, int], expected: list[str]
) -> None:
    found = snapshots_to_load(old_job(), ["op"], key_groups, 8)
    assert [str(part.subtask) for part in found] == expected


def test_with_another_max_parallelism_all_snapshots_are_read() -> None:
    assert len(snapshots_to_load(old_job(), ["op"], (0, 0), 16)) == 3


def test_only_snapshots_of_its_operators_are_read() -> None:
    whole = manifest(
        subtasks=[
            snapshot(0, (0, 7)),
            msgspec.structs.replace(snapshot(0, (0, 7), stage="s1"), tables=[table("other")], operator_uids=[]),
        ]
    )
    assert [str(part.subtask) for part in snapshots_to_load(whole, ["other"], (0, 7), 8)] == ["s1/0"]
    assert snapshots_to_load(whole, ["new"], (0, 7), 8) == []


def test_r3_a_file_that_cannot_be_deleted_keeps_no_job_from_starting() -> None:
    """Found by the garbage machine: each attempt ended with the same delete, so that the job was lost with it."""
    script = Script()
    storage = MemoryStorage(script)
    log = claimed_log(storage)
    for name in ("aa", "bb"):
        storage.put_new(f"shared/1-1-s0-0-{name}", b"")
    log.append(Discard([], ["shared/1-1-s0-0-aa", "shared/1-1-s0-0-bb"]))
    script.add("delete", "shared/1-1-s0-0-aa", Fault.FAIL)
    taken_over = claimed_log(storage)
    finish_open_deletes(taken_over)
    assert storage.list("shared/") == ["shared/1-1-s0-0-aa"]
    assert "shared/1-1-s0-0-aa" in taken_over.view().open_deletes  # the next removal tries it again
