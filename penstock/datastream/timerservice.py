"""The names of `pyflink.datastream.timerservice`."""

from penstock.model.functions import TimerService

__all__ = ["TimerService"]
