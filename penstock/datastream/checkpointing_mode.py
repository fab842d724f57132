"""The names of `pyflink.datastream.checkpointing_mode`."""

from penstock.model.execution import CheckpointingMode

__all__ = ["CheckpointingMode"]
