"""The names of `pyflink.common.job_client`."""

from penstock.datastream.job_client import JobClient

__all__ = ["JobClient"]
