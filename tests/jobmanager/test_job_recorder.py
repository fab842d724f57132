"""A job's record in the registry: kept up to date by the driver that owns the job, and by no other."""

import os
from pathlib import Path

import msgspec
import pytest

from penstock.control.registry import JobRecord, Registry
from penstock.errors import StorageError
from penstock.jobmanager.job_recorder import JobRecorder

MINE = JobRecord("a" * 32, "job", "RUNNING", os.getpid(), "here", 0, 0, "/logs", attempt=2)


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path)


def of_other_driver(attempt: int) -> JobRecord:
    return msgspec.structs.replace(MINE, pid=1, attempt=attempt, host="there")


def recorded(registry: Registry) -> JobRecord:
    return registry.read(MINE.job_id)


def test_the_record_is_written_and_reported(registry: Registry) -> None:
    reported: list[JobRecord] = []
    JobRecorder(registry, lambda: MINE, reported.append).write()
    assert recorded(registry) == MINE and reported == [MINE]


@pytest.mark.parametrize(("attempt", "is_mine"), [(1, True), (2, True), (3, False)])
def test_the_record_of_a_driver_with_a_newer_attempt_stays(registry: Registry, attempt: int, is_mine: object) -> None:
    registry.write(of_other_driver(attempt))
    JobRecorder(registry, lambda: MINE, None).write()
    assert (recorded(registry) == MINE) is is_mine


def test_a_driver_that_was_fenced_before_its_first_attempt_leaves_the_record_alone(registry: Registry) -> None:
    registry.write(of_other_driver(1))
    reported: list[JobRecord] = []
    first = msgspec.structs.replace(MINE, attempt=0)
    recorder = JobRecorder(registry, lambda: first, reported.append)
    recorder.disown()
    recorder.write()
    assert recorded(registry) == of_other_driver(1) and reported == [first]


def test_a_registry_that_cannot_be_written_stops_nothing_but_the_first_record(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    recorder = JobRecorder(Registry(tmp_path / "file"), lambda: MINE, None)
    recorder.write_if_possible()
    with pytest.raises(StorageError):
        recorder.write()
