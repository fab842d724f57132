"""Tables as they were at a seal: taken in the synchronous part of a checkpoint, made into rows in the asynchronous one.

Nothing that happens to the backend later changes a sealed table, so another thread may read it without a lock.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.codec.keys import KeyCodec
from penstock.model.ids import CheckpointId
from penstock.model.snapshot import StateSize, StateTableInfo
from penstock.state.format.table_rows import Rows


@dataclass(frozen=True)
class SealedTable:
    """One table: all of its entries, or those that changed since the base."""

    info: StateTableInfo
    rows: Callable[[], Rows | pa.Table | Iterator[pa.RecordBatch]]
    """Makes the rows. A table that no function has asked for since it was restored gives them as they were read."""
    full: bool
    """All entries: what older files hold of this table no longer counts."""
    entries: int | None = None
    """How many entries the whole table has; None where counting them would hold up the epoch."""


@dataclass(frozen=True)
class SealedTables:
    """The keyed state of one operator in one subtask at a seal."""

    operator_uid: str
    checkpoint_id: CheckpointId
    base: CheckpointId | None
    """The checkpoint whose files must be read before this one's; None when these tables stand alone."""
    key_codec: KeyCodec
    max_parallelism: int
    tables: tuple[SealedTable, ...]


@dataclass(frozen=True)
class SealedFiles:
    """The keyed state of one operator as RocksDB's own files: hard links in a folder that goes once they are stored."""

    operator_uid: str
    base: CheckpointId | None
    """The checkpoint whose files need not be stored again."""
    folder: Path
    infos: tuple[StateTableInfo, ...]
    threads: int
    """How many files may be stored at a time."""
    names: tuple[str, ...]
    """What was in the folder at the seal: if one of them is gone later, there is no snapshot."""
    sizes: Callable[[], list[StateSize]] = list
    """How large the states are."""
