"""The names of `pyflink.common.completable_future`."""

from penstock.datastream.job_client import CompletableFuture

__all__ = ["CompletableFuture"]
