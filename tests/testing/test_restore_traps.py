"""Starts from snapshots that could lose or double events, restore the wrong state, or delete what is not theirs."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.entries import Status
from penstock.errors import CheckpointError, SnapshotRefusedError
from penstock.testing import CHECKPOINT, CRASH, Harness
from tests.testing.test_restore_rules import chain, contents, counts, options, saved


def ended(harness: Harness, word: Any, *, keep: bool) -> None:
    harness._attempt.coordinator.finish(Status(word), keep_checkpoints=keep)


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
    harness.feed(["a", CHECKPOINT])
    assert contents(path) == before
    assert "resumed" in (harness._attempt.coordinator.cleaning_failure or "")
    assert counts(resumed.crash(), "one") == [1, None, None]
    ended(resumed, "cancelled", keep=True)
    harness.feed(["a", CHECKPOINT])
    assert not contents(path)


def replace_folder(path: str, other: str) -> None:
    place = path.removeprefix("file://")
    shutil.move(place, place + "-old")
    shutil.move(other.removeprefix("file://"), place)
