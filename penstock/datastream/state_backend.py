"""The names of `pyflink.datastream.state_backend`."""

from penstock.datastream.current_backends import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StateBackend,
)
from penstock.datastream.legacy_backends import FsStateBackend, MemoryStateBackend, RocksDBStateBackend

__all__ = [
    "EmbeddedRocksDBStateBackend",
    "FsStateBackend",
    "HashMapStateBackend",
    "MemoryStateBackend",
    "PredefinedOptions",
    "RocksDBStateBackend",
    "StateBackend",
]
