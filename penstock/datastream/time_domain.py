"""The names of `pyflink.datastream.time_domain`."""

from penstock.model.time import TimeDomain

__all__ = ["TimeDomain"]
