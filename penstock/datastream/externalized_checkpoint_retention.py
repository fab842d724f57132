"""The names of `pyflink.datastream.externalized_checkpoint_retention`."""

from penstock.model.execution import ExternalizedCheckpointRetention

__all__ = ["ExternalizedCheckpointRetention"]
