"""The names of `pyflink.common.time`."""

from penstock.model.time import Duration, Instant, Time

__all__ = ["Duration", "Instant", "Time"]
