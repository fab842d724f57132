"""The parts of RocksDB's Python bindings that are used here. No other module imports rocksdict."""

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

__all__ = [
    "AccessType",
    "BlockBasedIndexType",
    "BlockBasedOptions",
    "Cache",
    "Checkpoint",
    "DBCompactionStyle",
    "DBCompressionType",
    "Options",
    "Rdict",
    "WriteBatch",
    "WriteBufferManager",
    "WriteOptions",
]
