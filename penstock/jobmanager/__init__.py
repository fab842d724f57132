"""The JobManager: one job, one driver process."""

from penstock.jobmanager.job import Job
from penstock.jobmanager.job_submission import run_job, submit_job

__all__ = ["Job", "run_job", "submit_job"]
