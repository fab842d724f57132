"""The names of `pyflink.datastream.execution_mode`."""

from penstock.model.execution import RuntimeExecutionMode

__all__ = ["RuntimeExecutionMode"]
