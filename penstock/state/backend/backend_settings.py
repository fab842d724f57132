"""Which backend keeps the keyed state of a job, and how."""

import msgspec

from penstock.model.options import checkpointing_options, rocksdb_options, state_options
from penstock.state.ttl.rules import SweepSettings

KINDS = ("hashmap", "rocksdb")


class BackendSettings(msgspec.Struct, frozen=True):
    """What every TaskManager must know of a job's backend."""

    kind: str = state_options.BACKEND.default
    incremental: bool = checkpointing_options.INCREMENTAL.default
    """A checkpoint holds only what changed since the one before; otherwise each stands alone."""
    memory_bytes: int = rocksdb_options.DEFAULT_MEMORY_BYTES
    """Block cache and write buffers of one process."""
    local_dirs: tuple[str, ...] = ()
    """Where RocksDB keeps its files; without any, the process's temporary folder."""
    predefined_options: str = rocksdb_options.PREDEFINED.default
    tuning: dict[str, str] = {}
    """Settings of RocksDB by their full keys, which its stores read when they are opened."""
    transfer_threads: int = rocksdb_options.TRANSFER_THREADS.default
    compression: bool | None = None
    """Whether snapshots are compressed; None: tables that are large enough for it to pay."""
    ttl_sweep: SweepSettings = SweepSettings()
    """How fast expired entries go that nobody reads."""
