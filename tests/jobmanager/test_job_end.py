"""A job's own thread ends the job, whatever fails on the way."""

import threading

import pytest

from penstock.jobmanager.job import Job
from penstock.jobmanager.job_end import JobEnd


def test_nobody_waits_for_a_job_whose_failure_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    job = object.__new__(Job)
    job._end = object.__new__(JobEnd)
    job._end.reached = threading.Event()

    def fail(job: Job) -> None:
        raise BrokenPipeError("nobody reads the job's messages")

    monkeypatch.setattr(Job, "_run_or_fail", fail)
    with pytest.raises(BrokenPipeError):
        job._run()
    job.wait_for_end()
