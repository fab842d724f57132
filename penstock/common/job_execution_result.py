"""The names of `pyflink.common.job_execution_result`."""

from penstock.model.execution import JobExecutionResult

__all__ = ["JobExecutionResult"]
