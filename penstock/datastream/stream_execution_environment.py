"""The names of `pyflink.datastream.stream_execution_environment`."""

from penstock.datastream.environment import StreamExecutionEnvironment

__all__ = ["StreamExecutionEnvironment"]
