"""One subtask's writer: rolling back, rolling by size, failed disks (PROTOCOL R28, R1)."""

import errno
import os
from pathlib import Path

import pytest

from penstock.errors import StateLostError, StorageError, UnsupportedValueError
from penstock.model.snapshot import Committable
from tests.connectors.crashes import failing_fsync
from tests.connectors.sinks import FORMATS, JOB, context, finished, hidden, numbers, pre_commit, records, sink_of


def publish_all(folder: Path, format_name: str, committables: list[Committable]) -> list[int]:
    sink = sink_of(folder, format_name)
    for committable in committables:
        sink.commit(committable)
    return numbers(finished(folder))


@pytest.mark.parametrize("format_name", FORMATS)
def test_no_rows_make_no_file(tmp_path: Path, format_name: str) -> None:
    writer = sink_of(tmp_path, format_name).open(context())
    writer.begin_epoch()
    writer.write([])
    assert writer.pre_commit() == []
    writer.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format_name", FORMATS)
def test_epochs_between_two_checkpoints_are_in_one_part_file(tmp_path: Path, format_name: str) -> None:
    who = context()
    writer = sink_of(tmp_path, format_name).open(who)
    for epoch in range(4):
        writer.begin_epoch()
        writer.write(records(epoch * 10, epoch * 10 + 1))
        writer.write(records(epoch * 10 + 2))
    committables = pre_commit(writer, who)
    assert len(committables) == 1 and committables[0].data["rows"] == 12
    writer.begin_epoch()
    writer.write(records(99))
    committables += pre_commit(writer, who)
    assert len(committables) == 2
    assert publish_all(tmp_path, format_name, committables) == [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32, 99]


@pytest.mark.parametrize("format_name", FORMATS)
def test_an_epoch_run_again_is_in_the_file_once(tmp_path: Path, format_name: str) -> None:
    who = context()
    writer = sink_of(tmp_path, format_name).open(who)
    writer.begin_epoch()
    writer.write(records(1))
    writer.roll_back()
    writer.write(records(2))
    writer.begin_epoch()
    writer.write(records(*range(1000, 1100)))
    writer.roll_back()
    writer.roll_back()
    writer.begin_epoch()
    writer.write(records(3))
    committables = pre_commit(writer, who)
    assert committables[0].data["rows"] == 2
    assert publish_all(tmp_path, format_name, committables) == [2, 3]


@pytest.mark.parametrize("format_name", FORMATS)
def test_rows_on_disk_are_truncated_as_well_as_rows_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_name: str
) -> None:
    monkeypatch.setattr("penstock.connectors.file.local_parts.FLUSH_BYTES", 16)
    who = context()
    writer = sink_of(tmp_path, format_name).open(who)
    for epoch in range(3):
        writer.begin_epoch()
        writer.write(records(*range(100)))
        writer.roll_back()
        writer.write(records(epoch))
    assert publish_all(tmp_path, format_name, pre_commit(writer, who)) == [0, 1, 2]


@pytest.mark.parametrize("format_name", FORMATS)
def test_an_epoch_that_was_pre_committed_and_dropped_continues_under_a_new_name(
    tmp_path: Path, format_name: str
) -> None:
    who = context()
    sink = sink_of(tmp_path, format_name)
    writer = sink.open(who)
    writer.begin_epoch()
    writer.write(records(1, 2))
    writer.begin_epoch()
    writer.write(records(3))
    (dropped,) = pre_commit(writer, who)
    writer.roll_back()
    writer.write(records(4))
    committables = pre_commit(writer, who)
    assert [committable.transaction for committable in committables] != [dropped.transaction]
    writer.begin_epoch()
    assert hidden(tmp_path) == [committables[0].data["pending"]]
    assert publish_all(tmp_path, format_name, committables) == [1, 2, 4]


@pytest.mark.parametrize("format_name", FORMATS)
def test_two_pre_commits_in_one_epoch_are_dropped_together(tmp_path: Path, format_name: str) -> None:
    writer = sink_of(tmp_path, format_name).open(context())
    writer.begin_epoch()
    for value in (1, 2):
        writer.write(records(value))
        writer.pre_commit()
    writer.roll_back()
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("dropped_after", ["write", "pre_commit"])
def test_parts_rolled_by_size_are_rolled_back_with_their_epoch(
    tmp_path: Path, format_name: str, dropped_after: str
) -> None:
    who = context()
    sink = sink_of(tmp_path, format_name, part_size=300)
    writer = sink.open(who)
    expected: list[int] = []
    for epoch in range(6):
        writer.begin_epoch()
        for value in range(epoch * 100, epoch * 100 + 10):
            writer.write(records(value + 5000))
        if dropped_after == "pre_commit":
            writer.pre_commit()
        writer.roll_back()
        for value in range(epoch * 100, epoch * 100 + 4):
            writer.write(records(value))
            expected.append(value)
    committables = pre_commit(writer, who)
    assert len(committables) > 1
    assert sum(int(committable.data["rows"]) for committable in committables) == len(expected)
    assert publish_all(tmp_path, format_name, committables) == expected
    writer.begin_epoch()
    writer.close()
    sink.sweep(JOB, "out", [], 1)
    assert hidden(tmp_path) == []


def test_closing_leaves_only_what_was_pre_committed(tmp_path: Path) -> None:
    who = context()
    writer = sink_of(tmp_path, "parquet").open(who)
    writer.begin_epoch()
    writer.write(records(1))
    (committable,) = pre_commit(writer, who)
    writer.write(records(2))
    writer.close()
    assert hidden(tmp_path) == [committable.data["pending"]]
    with pytest.raises(StateLostError, match="closed"):
        writer.write(records(3))


@pytest.mark.parametrize("format_name", FORMATS)
def test_after_a_failed_fsync_the_first_epoch_can_run_again_in_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_name: str
) -> None:
    who = context()
    writer = sink_of(tmp_path, format_name).open(who)
    writer.begin_epoch()
    writer.write(records(1))
    with failing_fsync(monkeypatch, 1), pytest.raises(StorageError, match="cannot fsync"):
        writer.pre_commit()
    (dead,) = hidden(tmp_path)
    writer.roll_back()
    writer.write(records(1))
    committables = pre_commit(writer, who)
    assert dead.split("-")[-1] != committables[0].transaction.split("-")[-1]
    assert publish_all(tmp_path, format_name, committables) == [1]


def test_a_file_is_never_fsynced_again_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = sink_of(tmp_path, "json").open(context())
    writer.begin_epoch()
    writer.write(records(1))
    with failing_fsync(monkeypatch, 1) as calls:
        for _ in range(3):
            with pytest.raises(StorageError):
                writer.pre_commit()
    assert len(calls) == 1


@pytest.mark.parametrize("fail_at", [1, 2])
def test_rows_of_earlier_epochs_are_lost_after_a_failed_fsync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail_at: int
) -> None:
    """The first fsync is the file's, the second the folder's."""
    writer = sink_of(tmp_path, "json").open(context())
    writer.begin_epoch()
    writer.write(records(1))
    writer.begin_epoch()
    writer.write(records(2))
    with failing_fsync(monkeypatch, fail_at), pytest.raises(StorageError):
        writer.pre_commit()
    for _ in range(2):
        with pytest.raises(StateLostError, match="failed fsync"):
            writer.roll_back()
    with pytest.raises(StateLostError):
        writer.pre_commit()


def test_a_parquet_file_whose_fsync_failed_is_rebuilt_from_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = context()
    writer = sink_of(tmp_path, "parquet").open(who)
    writer.begin_epoch()
    writer.write(records(1))
    writer.begin_epoch()
    writer.write(records(2))
    with failing_fsync(monkeypatch, 2), pytest.raises(StorageError):  # the first one is the spool's
        writer.pre_commit()
    writer.roll_back()
    writer.write(records(3))
    assert publish_all(tmp_path, "parquet", pre_commit(writer, who)) == [1, 3]


def test_a_full_disk_fails_the_epoch_and_not_the_rows_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.connectors.file.local_parts.FLUSH_BYTES", 128)
    who = context()
    writer = sink_of(tmp_path, "json").open(who)
    writer.begin_epoch()
    writer.write(records(1, 3, 4))  # more than the disk will take, less than is flushed
    writer.begin_epoch()
    real = os.pwrite

    def half_full(descriptor: int, data: bytearray, offset: int) -> int:
        if offset:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[:40], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", half_full)
        with pytest.raises(StorageError, match="No space left"):
            writer.write(records(*range(100, 200)))
    writer.roll_back()
    writer.write(records(2))
    assert publish_all(tmp_path, "json", pre_commit(writer, who)) == [1, 2, 3, 4]


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_batch_with_a_bad_record_leaves_no_trace(tmp_path: Path, format_name: str) -> None:
    who = context()
    writer = sink_of(tmp_path, format_name).open(who)
    writer.begin_epoch()
    writer.write(records(1))
    with pytest.raises(UnsupportedValueError):
        writer.write([("good", 2), ("one field only",)])
    assert publish_all(tmp_path, format_name, pre_commit(writer, who)) == [1]


def test_a_writer_that_cannot_roll_back_reports_lost_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.connectors.file.local_parts.FLUSH_BYTES", 1)
    writer = sink_of(tmp_path, "json").open(context())
    writer.begin_epoch()
    writer.write(records(1))
    writer.begin_epoch()
    writer.write(records(2))

    def broken(descriptor: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", broken)
        with pytest.raises(StateLostError, match="truncate"):
            writer.roll_back()
    with pytest.raises(StateLostError):
        writer.write(records(3))


def test_a_spool_that_cannot_be_deleted_does_not_block_the_next_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = context()
    sink = sink_of(tmp_path, "parquet")
    writer = sink.open(who)
    writer.begin_epoch()
    writer.write(records(1))
    committables = pre_commit(writer, who)

    def refused(path: Path) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refused)
        writer.begin_epoch()
    writer.write(records(2))
    writer.roll_back()
    assert publish_all(tmp_path, "parquet", committables) == [1]
    sink.sweep(JOB, "out", [], 2)
    assert hidden(tmp_path) == []


def test_new_folders_are_made_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with failing_fsync(monkeypatch, 0) as calls:
        sink_of(tmp_path / "a" / "b", "json").open(context())
    assert (tmp_path / "a" / "b").is_dir() and len(calls) == 2
