"""The names of `pyflink.common.job_id`."""

from penstock.model.execution import JobID

__all__ = ["JobID"]
