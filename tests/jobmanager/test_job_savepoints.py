"""Savepoints of a job over its attempts: what the log tells the next one of a stop (PROTOCOL R29, R30)."""

from pathlib import Path

import pytest

from penstock.checkpoint.entries import Savepoint, Stopping
from penstock.checkpoint.manifest import digest
from penstock.checkpoint.savepoint_folders import METADATA
from penstock.checkpoint.savepoint_requests import SavepointRequest
from penstock.jobmanager.job_savepoints import JobSavepoints, wish_of
from penstock.storage.memory import MemoryStorage
from tests.checkpoint.logs import claimed_log

STOPPING = Stopping(7, "/savepoints", trigger_id="a" * 32)


@pytest.mark.parametrize("is_there", [True, False])
def test_n3_who_asked_for_a_stop_hears_of_it_from_the_next_attempt(tmp_path: Path, *, is_there: bool) -> None:
    log = claimed_log(MemoryStorage())
    log.append(STOPPING)
    log.append(Savepoint(7, str(tmp_path), digest(b"manifest")))
    if is_there:
        (tmp_path / METADATA).write_bytes(b"manifest")
    request = SavepointRequest(wish_of(STOPPING))
    savepoints = JobSavepoints(None)
    savepoints._carried = request
    assert savepoints.find_stop(log) == (STOPPING if is_there else None)
    savepoints.end("the job is FINISHED")
    assert request.path == (str(tmp_path) if is_there else None)
    assert (request.failure is None) == is_there
