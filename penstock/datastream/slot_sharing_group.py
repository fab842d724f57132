"""The names of `pyflink.datastream.slot_sharing_group`."""

from penstock.model.memory_size import MemorySize
from penstock.model.slot_sharing_group import SlotSharingGroup

__all__ = ["MemorySize", "SlotSharingGroup"]
