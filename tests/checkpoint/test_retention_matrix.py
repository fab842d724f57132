"""What is left of a job's snapshots when they are subsumed and when the job ends: the matrix of features K8, on disk.

A savepoint here is a folder as savepoints have it, beside the checkpoints and among them; whatever happens to the job,
nobody touches it.
"""

from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.log.entries import Status
from penstock.errors import FencedError
from penstock.model.execution import ExternalizedCheckpointRetention as Retention
from tests.checkpoint.driver import Driver, World, new_driver, retaining
from tests.checkpoint.logs import claimed_log
from tests.checkpoint.test_local_disk import disk_world

ENDINGS = ["finished", "cancelled", "failed", "suspended"]
NO, DELETE, RETAIN = (
    Retention.NO_EXTERNALIZED_CHECKPOINTS,
    Retention.DELETE_ON_CANCELLATION,
    Retention.RETAIN_ON_CANCELLATION,
)
KEPT = {
    NO: [],
    DELETE: ["failed"],
    RETAIN: ["cancelled", "failed", "suspended"],
    None: ["failed", "suspended"],  # nobody has chosen: as NO, but a job that failed can be resumed
}
SAVEPOINT = ("_metadata", "running-total/total/part-0.parquet")


class Place:
    """A checkpoint folder with one job in it, and a savepoint in either place where one may be."""

    def __init__(self, root: Path, retention: Retention | None, **changes: Any) -> None:
        self.root = root
        self.job = root / ("0" * 32)
        for folder in (root / "savepoint-000000-0123456789ab", self.job / "savepoint-000000-ba9876543210"):
            for name in SAVEPOINT:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text("the user's own")
        self.world: World = disk_world(self.job, seed=3)
        self.driver: Driver = new_driver(self.world, retaining(2, retention=retention, **changes))
        for _ in range(3):
            self.newest = self.driver.checkpoint()

    def checkpoints(self) -> list[str]:
        """The checkpoint folders."""
        return sorted(path.name for path in self.job.glob("chk-*"))

    def state_files(self) -> list[str]:
        """Everything of checkpoints: no log, no savepoint."""
        found = [path.relative_to(self.job) for path in self.job.rglob("*") if path.is_file()]
        return sorted(str(path) for path in found if not path.parts[0].startswith(("log", "savepoint")))

    def savepoints(self) -> list[str]:
        """The files of both savepoints."""
        return sorted(
            str(path.relative_to(self.root)) for path in self.root.rglob("savepoint-*/**/*") if path.is_file()
        )

    def end(self, ending: str) -> None:
        status = Status(ending)  # type: ignore[arg-type]
        self.driver.coordinator.finish(status, keep_checkpoints=self.driver.settings.keeps(ending))


@pytest.mark.parametrize("retention", KEPT, ids=str)
@pytest.mark.parametrize("ending", ENDINGS)
def test_k8_checkpoints_at_the_end_of_the_job(tmp_path: Path, retention: Retention | None, ending: str) -> None:
    place = Place(tmp_path, retention)
    before = place.state_files()
    assert place.checkpoints() == [f"chk-{place.newest - 1}", f"chk-{place.newest}"]
    place.end(ending)
    if ending in KEPT[retention]:
        assert place.state_files() == before
        assert [path for path in place.world.checker.orphans() if not path.startswith("savepoint")] == []
    else:
        assert place.state_files() == [] and place.checkpoints() == []
    view = place.driver.log.view()
    assert view.status is not None and view.status.status == ending
    assert len(place.savepoints()) == 4


@pytest.mark.parametrize("retention", KEPT, ids=str)
def test_k8_m4_subsumed_checkpoints_go_whatever_is_chosen(tmp_path: Path, retention: Retention | None) -> None:
    place = Place(tmp_path, retention)
    assert place.checkpoints() == [f"chk-{place.newest - 1}", f"chk-{place.newest}"]
    place.driver.checkpoint()
    assert place.checkpoints() == [f"chk-{place.newest}", f"chk-{place.newest + 1}"]
    place.world.sinks.require_rows(place.driver.position)


@pytest.mark.parametrize("ending", ["subsumed", *ENDINGS])
def test_k8_m7_savepoints_outlive_everything(tmp_path: Path, ending: str) -> None:
    place = Place(tmp_path, NO)
    before = place.savepoints()
    assert len(before) == 4
    if ending == "subsumed":
        for _ in range(3):
            place.driver.checkpoint()
    else:
        place.end(ending)
    assert place.savepoints() == before
    assert all((tmp_path / path).read_text() == "the user's own" for path in before)


def test_the_last_checkpoint_of_a_finished_job_stays_if_that_is_asked_for(tmp_path: Path) -> None:
    place = Place(tmp_path, NO, retain_finished=True)
    before = place.state_files()
    place.end("finished")
    assert place.state_files() == before


def test_r4_a_fenced_driver_ends_without_deleting_anything(tmp_path: Path) -> None:
    place = Place(tmp_path, NO)
    before = place.state_files()
    claimed_log(place.world.checker.storage)
    with pytest.raises(FencedError):
        place.end("failed")
    assert place.state_files() == before
    assert place.driver.log.view().status is None


def test_r31_the_status_is_in_the_log_before_anything_goes(tmp_path: Path) -> None:
    place = Place(tmp_path, NO)
    entries = []
    delete = place.world.checker.deleted

    def watch(path: str) -> None:
        entries.append(place.driver.log.view().status)
        delete(path)

    place.world.checker.deleted = watch  # type: ignore[method-assign]
    place.end("cancelled")
    assert entries and all(status is not None and status.status == "cancelled" for status in entries)
