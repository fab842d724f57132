"""The names of `pyflink.common.execution_config`."""

from penstock.model.execution_config import ExecutionConfig

__all__ = ["ExecutionConfig"]
