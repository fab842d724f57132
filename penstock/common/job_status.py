"""The names of `pyflink.common.job_status`."""

from penstock.model.execution import JobStatus

__all__ = ["JobStatus"]
