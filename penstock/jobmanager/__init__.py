"""The JobManager: one job, one driver process."""

from penstock.jobmanager.job import Job, JobExecutionResult
from penstock.jobmanager.submit import run_job, submit_job

__all__ = ["Job", "JobExecutionResult", "run_job", "submit_job"]
