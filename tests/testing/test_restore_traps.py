"""Starts from snapshots that could lose or double events, restore the wrong state, or delete what is not theirs."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.checkpoint.log.entries import Status
from penstock.checkpoint.snapshot.manifest import decode_manifest, encode_manifest
from penstock.common import Types
from penstock.datastream import CheckpointedFunction, KeyedProcessFunction, MapFunction
from penstock.datastream.state import ListStateDescriptor
from penstock.errors import CheckpointError, SnapshotRefusedError
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.model.ids import Version
from penstock.model.snapshot import SourcePosition
from penstock.model.time import MAX_WATERMARK
from penstock.storage.local import LocalStorage
from penstock.testing import CHECKPOINT, CRASH, Harness, Watermark
from tests.testing.test_restore_rules import chain, contents, counts, options, saved


def ended(harness: Harness, word: Any, *, keep: bool) -> None:
    harness._coordinator.finish(Status(word), keep_checkpoints=keep)


def test_r25_a_job_whose_checkpoints_are_deleted_does_not_go_back_to_where_it_began(tmp_path: Path) -> None:
    path = saved(tmp_path)
    harness = Harness(chain(["one", "two"]), options(tmp_path / "new", path)).feed(["a", CHECKPOINT])
    ended(harness, "failed", keep=False)
    with pytest.raises(CheckpointError, match="none is left"):
        Harness(chain(["one", "two"]), options(tmp_path / "new"))


def test_r25_another_snapshot_at_the_path_is_not_taken_for_the_one_the_job_began_with(tmp_path: Path) -> None:
    path, other = saved(tmp_path), saved(tmp_path / "2")
    harness = Harness(chain(["one", "two"]), options(tmp_path / "new", path)).feed(["a"])
    replace_folder(path, other)
    with pytest.raises(SnapshotRefusedError, match="another"):
        harness.crash()


def test_o9_another_snapshot_at_the_path_is_not_deleted_for_the_claimed_one(tmp_path: Path) -> None:
    path, other = saved(tmp_path), saved(tmp_path / "2")
    harness = Harness(chain(["one", "two"]), options(tmp_path / "new", path, claim=True)).feed(["a"])
    replace_folder(path, other)
    before = contents(path)
    harness.feed([CHECKPOINT, CRASH, "b", CHECKPOINT])
    assert contents(path) == before


def test_o9_what_is_put_where_the_claimed_snapshot_was_stays(tmp_path: Path) -> None:
    path = saved(tmp_path)
    shutil.copytree(path.removeprefix("file://"), tmp_path / "copy")
    harness = Harness(chain(["one", "two"]), options(tmp_path / "new", path, claim=True)).feed(["a", CHECKPOINT])
    assert not contents(path)
    shutil.copytree(tmp_path / "copy", path.removeprefix("file://"))
    before = contents(path)
    harness.feed([CRASH, "b", CHECKPOINT, CRASH])
    assert contents(path) == before


@pytest.mark.parametrize("word", ["cancelled", "failed"])
def test_o9_a_job_that_ends_before_its_first_checkpoint_leaves_the_claimed_savepoint(tmp_path: Path, word: str) -> None:
    path = saved(tmp_path)
    before = contents(path)
    harness = Harness(chain(["one", "two"]), options(tmp_path / "new", path, claim=True)).feed(["a"])
    ended(harness, word, keep=False)
    assert contents(path) == before
    again = Harness(chain(["one", "two"]), options(tmp_path / "new"))
    assert counts(again, "one") == [2, 1, None]


def test_o9_a_claimed_checkpoint_stays_while_its_own_job_is_at_work_again(tmp_path: Path) -> None:
    old = Harness(chain(["one", "two"]), options(tmp_path / "old")).feed(["a", CHECKPOINT])
    path = f"{tmp_path}/old/chk-1"
    ended(old, "failed", keep=True)
    harness = Harness(chain(["one", "two"]), options(tmp_path / "new", path, claim=True))
    resumed = Harness(chain(["one", "two"]), options(tmp_path / "old"))
    before = contents(path)
    harness.feed(["a", CHECKPOINT] * 60)
    assert contents(path) == before
    assert harness._attempt.log.view().base_number > 0  # the log does not grow meanwhile
    assert "resumed" in (harness._coordinator.cleaning_failure or "")
    assert counts(resumed.crash(), "one") == [1, None, None]
    ended(resumed, "cancelled", keep=True)
    harness.feed(["a", CHECKPOINT])
    assert not contents(path)


def replace_folder(path: str, other: str) -> None:
    place = path.removeprefix("file://")
    shutil.move(place, place + "-old")
    shutil.move(other.removeprefix("file://"), place)


class Alarm(KeyedProcessFunction):
    """Sets a timer for each row, and shows rows and timers with the event time at which they come."""

    def process_element(self, row: tuple[str, int], ctx: Any) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(row[1])
        yield "row", row[1], ctx.timer_service().current_watermark()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield "timer", timestamp, ctx.timer_service().current_watermark()


def alarms(folder: Path, path: str | None = None) -> Harness:
    return Harness.keyed(
        Alarm(), lambda row: row[0], storage=LocalStorage(folder), start=StartOptions(path), retained=2
    )


def test_n4_rows_behind_a_drained_savepoint_are_not_late(tmp_path: Path) -> None:
    old = alarms(tmp_path / "old").feed([Watermark(5), ("a", 10)])
    path = old.savepoint(tmp_path / "savepoints", then="stop", drain=True)
    assert old.output == [("row", 10, 5), ("timer", 10, MAX_WATERMARK)]
    harness = alarms(tmp_path / "new", path).feed([("a", 20), Watermark(19), CRASH, CHECKPOINT, CRASH, Watermark(20)])
    assert [item[:2] for item in harness.output] == [("row", 20), ("timer", 20)]
    assert all(watermark < MAX_WATERMARK for _, _, watermark in harness.output)


def test_r31_a_job_behind_the_last_checkpoint_of_another_reads_on(tmp_path: Path) -> None:
    old = alarms(tmp_path / "old").feed([("a", 10)]).finish()
    assert old.manifest is not None and old.manifest.final
    path = f"{tmp_path}/old/chk-{old.manifest.checkpoint_id}"
    harness = alarms(tmp_path / "new", path).feed([("a", 20), CHECKPOINT, CRASH, Watermark(20)])
    assert [item[:2] for item in harness.output] == [("row", 20), ("timer", 20)]


class Careful(MapFunction, CheckpointedFunction):
    """Reads its operator state only where it is told that there is some."""

    def initialize_state(self, context: Any) -> None:
        self.saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("rows", Types.LONG()))
        self.rows = list(self.saved.get()) if context.is_restored() else []

    def map(self, row: int) -> int:
        self.rows.append(row)
        return len(self.rows)

    def snapshot_state(self, context: Any) -> None:
        self.saved.update(self.rows)


def test_s3_functions_are_told_of_the_state_in_a_savepoint_that_no_job_has_taken(tmp_path: Path) -> None:
    old = Harness.non_keyed(Careful(), storage=LocalStorage(tmp_path / "old")).feed([7, 8])
    path = old.savepoint(tmp_path / "savepoints")
    file = Path(path.removeprefix("file://"), "_metadata")
    manifest = decode_manifest(file.read_bytes(), str(file))
    parts = [msgspec.structs.replace(part, version=Version(1, 0, "made")) for part in manifest.subtasks]
    sources = SourcePosition(-1, None, [])
    made = msgspec.structs.replace(manifest, checkpoint_id=0, epoch=0, now_ms=0, subtasks=parts, sources=sources)
    file.write_bytes(encode_manifest(made))
    storage = LocalStorage(tmp_path / "new")
    harness = Harness.non_keyed(Careful(), storage=storage, start=StartOptions(path))
    assert harness.feed([9, CRASH, CHECKPOINT, CRASH, 10]).output == [3, 4]


def test_o9_what_is_claimed_is_the_path_that_was_given_and_no_other(tmp_path: Path) -> None:
    path, other = saved(tmp_path), saved(tmp_path / "2")
    Harness(chain(["one", "two"]), options(tmp_path / "new", path))
    before = contents(path)
    resumed = Harness(chain(["one", "two"]), options(tmp_path / "new", other, claim=True)).feed(["a", CHECKPOINT])
    assert counts(resumed, "one") == [3, 1, None]
    assert contents(path) == before and contents(other)
