"""Publishing part files: every crash position, repetition, loss, sweeping (features Q5, Q9; PROTOCOL R21, R28)."""

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from penstock.connectors.file.file_sink import FileSink
from penstock.connectors.file.local_parts import LocalPartFolder
from penstock.errors import CheckpointCorruptError, NameTakenError, SinkTransactionLostError, StorageError
from penstock.model.snapshot import Committable
from tests.connectors.crashes import crashing, failing_fsync, recorded_steps
from tests.connectors.sinks import FORMATS, JOB, context, finished, hidden, numbers, pre_commit, records, sink_of

MAX_STEPS = 200


def pending_part(sink: FileSink, *values: int, attempt: int = 1, subtask: int = 0) -> Committable:
    """One pre-committed part with these numbers."""
    who = context(attempt, subtask)
    writer = sink.open(who)
    writer.begin_epoch()
    writer.write(records(*values))
    (committable,) = pre_commit(writer, who)
    writer.close()
    return committable


def move_away(folder: Path, elsewhere: Path) -> None:
    """What an eager reader does: move finished files to its own folder."""
    elsewhere.mkdir(exist_ok=True)
    for path in finished(folder):
        path.rename(elsewhere / path.name)


@pytest.mark.parametrize("format_name", FORMATS)
def test_q9_rows_are_hidden_until_commit_and_finished_after_it(tmp_path: Path, format_name: str) -> None:
    sink = sink_of(tmp_path, format_name)
    committable = pending_part(sink, 1, 2, 3)
    assert finished(tmp_path) == []
    sink.commit(committable)
    (path,) = finished(tmp_path)
    assert path.name.startswith("part-") and path.suffix == f".{format_name}"
    assert numbers([path]) == [1, 2, 3]
    assert path.stat().st_size == committable.data["size"] and committable.data["rows"] == 3


def test_committing_again_changes_nothing(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "json")
    committable = pending_part(sink, 1)
    for _ in range(3):
        sink.commit(committable)
    assert numbers(finished(tmp_path)) == [1]


@pytest.mark.parametrize("format_name", ["json", "parquet"])
@pytest.mark.parametrize("reader", ["none", "takes files away"])
@pytest.mark.parametrize("after", [False, True])
def test_q5_a_crash_at_any_step_of_commit_is_repaired_by_committing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_name: str, reader: str, after: bool
) -> None:
    for step in range(1, MAX_STEPS):
        folder, elsewhere = tmp_path / f"out-{step}", tmp_path / f"reader-{step}"
        sink = sink_of(folder, format_name)
        committable = pending_part(sink, 1, 2)
        with crashing(monkeypatch, step, after=after) as disk:
            sink.commit(committable)
        if reader != "none":
            move_away(folder, elsewhere)
        sink_of(folder, format_name).commit(committable)
        if reader != "none":
            move_away(folder, elsewhere)
        assert numbers(finished(folder if reader == "none" else elsewhere)) == [1, 2], f"crash at step {step}"
        if not disk.crashed:
            break
    assert 4 < step < MAX_STEPS - 1


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_while_committing_again_is_repaired_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    for first in range(1, 12):
        for second in range(1, 12):
            folder = tmp_path / f"{first}-{second}"
            sink = sink_of(folder, "json")
            committable = pending_part(sink, 7)
            for step in (first, second):
                with crashing(monkeypatch, step, after=after):
                    sink.commit(committable)
            sink.commit(committable)
            assert numbers(finished(folder)) == [7], (first, second)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("after", [False, True])
def test_q5_a_crash_at_any_step_of_a_checkpoint_gives_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_name: str, after: bool
) -> None:
    """Write, pre-commit, complete, commit, sweep; then recovery in a new attempt as PROTOCOL section 5 says."""
    for step in range(1, MAX_STEPS):
        folder = tmp_path / str(step)
        sink = sink_of(folder, format_name, part_size=60)
        manifest: list[Committable] = []
        with crashing(monkeypatch, step, after=after) as disk:
            who = context(attempt=1)
            writer = sink.open(who)
            writer.begin_epoch()
            writer.write(records(1, 2))
            writer.begin_epoch()
            writer.write(records(3))
            manifest = pre_commit(writer, who)
            for committable in manifest:
                sink.commit(committable)
            sink.sweep(JOB, "out", manifest, 1)
        for committable in manifest:
            sink.commit(committable)
        sink.sweep(JOB, "out", manifest, 2)
        if not manifest:  # the checkpoint was not completed: the rows are replayed
            sink.commit(pending_part(sink, 1, 2, 3, attempt=2))
        assert numbers(finished(folder)) == [1, 2, 3], f"crash at step {step}"
        sink.sweep(JOB, "out", [], 3)
        assert hidden(folder) == []
        if not disk.crashed:
            break
    assert 8 < step < MAX_STEPS - 1


def test_a_finished_file_that_was_moved_away_is_not_published_again(tmp_path: Path) -> None:
    sink = sink_of(tmp_path / "out", "json")
    committable = pending_part(sink, 1)
    sink.commit(committable)
    move_away(tmp_path / "out", tmp_path / "reader")
    sink.commit(committable)
    assert finished(tmp_path / "out") == []


def test_commit_works_in_another_process(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "csv")
    committable = pending_part(sink, 4, 5)
    program = (
        "import sys, pickle, msgspec\n"
        "from penstock.model.snapshot import Committable\n"
        "sink, data = pickle.load(sys.stdin.buffer)\n"
        "sink.commit(msgspec.json.decode(data, type=Committable))\n"
    )
    message = pickle.dumps((sink, msgspec.json.encode(committable)))
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program], input=message, check=True)
    sink.commit(committable)
    assert numbers(finished(tmp_path)) == [4, 5]


def test_two_processes_that_commit_at_once_publish_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = sink_of(tmp_path, "json")
    committable = pending_part(sink, 1)
    real = LocalPartFolder.rename

    def overtaken(folder: LocalPartFolder, old: str, new: str) -> None:
        monkeypatch.setattr(LocalPartFolder, "rename", real)
        sink.commit(committable)  # the other process, just before our rename
        real(folder, old, new)

    monkeypatch.setattr(LocalPartFolder, "rename", overtaken)
    sink.commit(committable)
    assert numbers(finished(tmp_path)) == [1]


def test_a_part_that_is_neither_pending_nor_committed_is_lost_and_named(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "json")
    committable = pending_part(sink, 1, 2, 3)
    (tmp_path / str(committable.data["pending"])).unlink()
    with pytest.raises(SinkTransactionLostError) as caught:
        sink.commit(committable)
    message = str(caught.value)
    assert "3 rows of subtask s1/0" in message and "'out'" in message
    assert str(committable.data["pending"]) in message and str(committable.data["final"]) in message
    assert str(pickle.loads(pickle.dumps(caught.value))) == message


def test_a_pending_file_of_another_size_is_not_published(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "json")
    committable = pending_part(sink, 1, 2, 3)
    path = tmp_path / str(committable.data["pending"])
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(SinkTransactionLostError, match="bytes where"):
        sink.commit(committable)
    assert finished(tmp_path) == []


def test_a_file_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "json")
    committable = pending_part(sink, 1)
    foreign = tmp_path / str(committable.data["final"])
    foreign.write_text("foreign")
    with pytest.raises(NameTakenError, match="move it away"):
        sink.commit(committable)
    assert foreign.read_text() == "foreign"
    foreign.unlink()
    sink.commit(committable)
    assert numbers(finished(tmp_path)) == [1]


def test_a_missing_folder_can_be_tried_again(tmp_path: Path) -> None:
    sink = sink_of(tmp_path / "out", "json")
    committable = pending_part(sink, 1)
    (tmp_path / "out").rename(tmp_path / "not mounted")
    with pytest.raises(StorageError, match="does not exist") as caught:
        sink.commit(committable)
    assert caught.value.retryable
    (tmp_path / "not mounted").rename(tmp_path / "out")
    sink.commit(committable)
    assert numbers(finished(tmp_path / "out")) == [1]


@pytest.mark.parametrize(
    ("field", "value"),
    [("pending", "../x"), ("pending", ".pending-x/../y"), ("pending", 3), ("final", "../part"), ("final", ".hidden")]
    + [("final", "a/b"), ("final", ""), ("size", "12"), ("pending", ".committed-{}")],
)
def test_a_committable_that_no_writer_wrote_is_refused(tmp_path: Path, field: str, value: str | int) -> None:
    sink = sink_of(tmp_path, "json")
    good = pending_part(sink, 1)
    if isinstance(value, str):
        value = value.format(good.transaction)
    bad = msgspec.structs.replace(good, data={**good.data, field: value})
    with pytest.raises(CheckpointCorruptError):
        sink.commit(bad)
    assert finished(tmp_path) == []


def test_a_failed_fsync_of_the_folder_is_not_taken_for_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fail_at in (1, 2):
        sink = sink_of(tmp_path / str(fail_at), "json")
        committable = pending_part(sink, 1)
        with failing_fsync(monkeypatch, fail_at), pytest.raises(StorageError, match="cannot fsync"):
            sink.commit(committable)
        sink.commit(committable)
        assert numbers(finished(tmp_path / str(fail_at))) == [1]


def test_every_step_is_durable_before_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a power failure may leave behind is then one of the states that the crash tests leave."""
    folder = tmp_path / "out"
    for format_name in FORMATS:
        sink, who = sink_of(folder, format_name), context()
        writer = sink.open(who)
        writer.begin_epoch()
        writer.write(records(1))
        with recorded_steps(monkeypatch) as steps:
            (part,) = pre_commit(writer, who)
        progress, pending = f".inprogress-{part.transaction}", f".pending-{part.transaction}"
        if format_name == "parquet":
            assert steps == [f"fsync {progress}", f"fsync {pending}", "fsync out"]
        else:
            assert steps == [f"fsync {progress}", f"rename {pending}", "fsync out"]
        with recorded_steps(monkeypatch) as steps:
            sink.commit(part)
        marker, final = f".committed-{part.transaction}", part.data["final"]
        assert steps == [f"create {marker}", "fsync out", f"rename {final}", "fsync out"]
        with recorded_steps(monkeypatch) as steps:
            sink.commit(part)
        assert steps == ["fsync out"]


def test_sweep_removes_older_attempts_and_keeps_what_the_manifest_lists(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "json")
    kept, dropped = pending_part(sink, 1), pending_part(sink, 2)
    unfinished = sink.open(context(attempt=1))
    unfinished.begin_epoch()
    unfinished.write(records(3))
    current = pending_part(sink, 4, attempt=2)
    sink.sweep(JOB, "out", [kept], 2)
    assert hidden(tmp_path) == sorted([str(kept.data["pending"]), str(current.data["pending"])])
    for committable in (kept, current):
        sink.commit(committable)
    assert numbers(finished(tmp_path)) == [1, 4]
    with pytest.raises(SinkTransactionLostError):
        sink.commit(dropped)


def test_sweep_removes_markers_that_are_no_longer_in_the_manifest(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "json")
    first, second = pending_part(sink, 1), pending_part(sink, 2)
    sink.commit(first)
    sink.commit(second)
    assert len(hidden(tmp_path)) == 2
    sink.sweep(JOB, "out", [second], 1)
    assert hidden(tmp_path) == [f".committed-{second.transaction}"]
    assert numbers(finished(tmp_path)) == [1, 2]


def test_f18_sweep_of_a_stale_attempt_leaves_the_markers_of_a_newer_one(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "json")
    newer = pending_part(sink, 2, attempt=6)
    sink.commit(newer)
    markers = hidden(tmp_path)
    assert markers
    sink.sweep(JOB, "out", [], 5)
    assert hidden(tmp_path) == markers
    sink.sweep(JOB, "out", [], 6)
    assert hidden(tmp_path) == []


def test_sweep_does_not_touch_a_running_commit(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "json")
    part = pending_part(sink, 1)
    (tmp_path / f".committed-{part.transaction}").touch()
    sink.sweep(JOB, "out", [], 1)
    assert len(hidden(tmp_path)) == 2


def test_sweep_never_leaves_a_removed_part_marked_as_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = sink_of(tmp_path / "out", "json")
    part = pending_part(sink, 1)
    (tmp_path / "out" / f".committed-{part.transaction}").touch()
    with recorded_steps(monkeypatch) as steps:
        sink.sweep(JOB, "out", [], 2)
    assert steps == [f"unlink .committed-{part.transaction}", "fsync out", f"unlink .pending-{part.transaction}"]
    assert hidden(tmp_path / "out") == []


def test_sweep_never_touches_other_jobs_other_sinks_or_foreign_files(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "json")
    others = [context(sink_uid="other"), context(job="f" * 32), context(job=f"x-{JOB}"), context(job=f"{JOB}-1")]
    for who in others:
        writer = sink.open(who)
        writer.begin_epoch()
        writer.write(records(1))
        writer.pre_commit()
    for name in (".hidden", "part-x", f".pending-{JOB}", f".pending-{JOB}-1-zz-0-00", "_SUCCESS"):
        (tmp_path / name).touch()
    before = sorted(path.name for path in tmp_path.iterdir())
    sink.sweep(JOB, "out", [], 99)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_sweep_of_a_folder_that_was_never_made_does_nothing(tmp_path: Path) -> None:
    sink_of(tmp_path / "none", "json").sweep(JOB, "out", [], 5)
    assert not (tmp_path / "none").exists()


def test_two_subtasks_and_two_sinks_share_a_folder(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "json")
    parts = [pending_part(sink, subtask, subtask=subtask) for subtask in (0, 1)]
    other = context(sink_uid="other")
    writer = sink.open(other)
    writer.begin_epoch()
    writer.write(records(2))
    parts += pre_commit(writer, other)
    for part in parts:
        sink.commit(part)
    assert numbers(finished(tmp_path)) == [0, 1, 2]
    assert len({path.name.split("-")[1] for path in finished(tmp_path)}) == 2


def test_a_sink_is_plain_data(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "parquet")
    assert pickle.loads(pickle.dumps(sink)) == sink
    assert replace(sink, path="/elsewhere") != sink


def test_a_late_second_committer_recognises_the_published_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = sink_of(tmp_path, "json")
    committable = pending_part(sink, 1)
    touch = LocalPartFolder.touch

    def other_is_faster(folder: LocalPartFolder, name: str) -> None:
        monkeypatch.setattr(LocalPartFolder, "touch", touch)
        sink.commit(committable)
        touch(folder, name)

    monkeypatch.setattr(LocalPartFolder, "touch", other_is_faster)
    sink.commit(committable)
    assert numbers(finished(tmp_path)) == [1]
