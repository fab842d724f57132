"""Which backend keeps the keyed state of a job, and how."""

import msgspec

from penstock.state.ttl.rules import SweepSettings

DEFAULT_MEMORY_BYTES = 256 * 1024 * 1024
KINDS = ("hashmap", "rocksdb")


class BackendSettings(msgspec.Struct, frozen=True):
    """What every TaskManager must know of a job's backend."""

    kind: str = "hashmap"
    incremental: bool = True
    """A checkpoint holds only what changed since the one before; otherwise each stands alone."""
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    """Block cache and write buffers of one process."""
    local_dirs: tuple[str, ...] = ()
    """Where RocksDB keeps its files; without any, the process's temporary folder."""
    predefined_options: str = "DEFAULT"
    transfer_threads: int = 4
    compression: bool | None = None
    """Whether snapshots are compressed; None: tables that are large enough for it to pay."""
    ttl_sweep: SweepSettings = SweepSettings()
    """How fast expired entries go that nobody reads."""
