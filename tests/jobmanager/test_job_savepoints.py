"""Savepoints of a job over its attempts: what the log tells the next one of a stop (PROTOCOL R29, R30)."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import msgspec
import pytest

from penstock.checkpoint.checkpoint_settings import WriterIdentity
from penstock.checkpoint.log.entries import SavepointEntry, Stopping
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.savepoints import SavepointPlace, Savepoints
from penstock.checkpoint.snapshot.manifest import digest
from penstock.checkpoint.snapshot.savepoint_paths import METADATA
from penstock.control.driver_log import DriverLog
from penstock.errors import CheckpointError
from penstock.jobmanager.job_savepoints import JobSavepoints, stop_request
from penstock.model.ids import JobId
from penstock.model.time import MAX_WATERMARK
from penstock.storage.memory import MemoryStorage
from penstock.testing.clocks import ManualClock
from tests.checkpoint.logs import claimed_log
from tests.checkpoint.manifests import manifest, snapshot

STOPPING = Stopping(7, "/savepoints", trigger_id="a" * 32)


@pytest.mark.parametrize("is_there", [True, False])
def test_n3_who_asked_for_a_stop_hears_of_it_from_the_next_attempt(tmp_path: Path, *, is_there: bool) -> None:
    log = claimed_log(MemoryStorage())
    log.append(STOPPING)
    log.append(SavepointEntry(7, str(tmp_path), digest(b"manifest")))
    if is_there:
        (tmp_path / METADATA).write_bytes(b"manifest")
    request = stop_request(STOPPING)
    savepoints = JobSavepoints(None)
    savepoints._unfinished_stop = request
    assert savepoints.find_stop(log) == (STOPPING if is_there else None)
    savepoints.end("the job is FINISHED")
    assert (request.future.exception(0) is None) == is_there
    if is_there:
        assert request.future.result(0) == str(tmp_path)


@pytest.mark.parametrize("watermark", [5, MAX_WATERMARK])
def test_n4_a_stop_that_cannot_go_on_does_not_leave_a_drained_job_running(watermark: int) -> None:
    """An attempt that restores the drained checkpoint finds the stop, and its folder has gone."""
    log = claimed_log(MemoryStorage())
    log.append(msgspec.structs.replace(STOPPING, drain=True, target="s3x://nowhere"))
    parts = [msgspec.structs.replace(snapshot(0, (0, 7)), watermark=watermark)]
    coordinator: Any = MagicMock(newest_completed=msgspec.structs.replace(manifest(epoch=4), subtasks=parts))
    place = SavepointPlace(WriterIdentity(JobId("0" * 32), 1, "writer"))
    job = JobSavepoints(None)
    expected: Any = (
        pytest.raises(CheckpointError, match="cannot go on") if watermark == MAX_WATERMARK else nullcontext()
    )
    with expected:
        job.attach(Savepoints(place, ManualClock(), log, coordinator), log)
    request = job.find("a" * 32)
    assert request is not None and request.future.exception(0) is not None and log.view().stopping is None


def test_a_savepoint_is_in_the_drivers_log_when_it_is_requested_and_when_it_ends(tmp_path: Path) -> None:
    log = claimed_log(MemoryStorage())
    place = SavepointPlace(WriterIdentity(JobId("0" * 32), 1, "writer"))
    job = JobSavepoints(str(tmp_path), DriverLog(tmp_path, "0" * 32, ManualClock()))
    for trigger_id in ("a" * 32, "b" * 32):
        job.attach(Savepoints(place, ManualClock(), log, MagicMock()), log)
        request = job.trigger(SavepointRequest(trigger_id=trigger_id))
        if trigger_id == "a" * 32:
            request.complete("/savepoints/savepoint-1")
        else:
            request.fail("the disk is full")
    lines = [line.split(" savepoint job=00000000 | ") for line in (tmp_path / "driver.log").read_text().splitlines()]
    assert [(head.split()[1], text) for head, text in lines] == [
        ("INFO", f"savepoint aaaaaaaa is requested: canonical, in {tmp_path}"),
        ("INFO", "savepoint aaaaaaaa completed: /savepoints/savepoint-1"),
        ("INFO", f"savepoint bbbbbbbb is requested: canonical, in {tmp_path}"),
        ("WARN", "savepoint bbbbbbbb: the savepoint failed: the disk is full"),
    ]
