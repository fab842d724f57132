"""Sealed tables: taken in the synchronous part of a checkpoint, converted to rows in the asynchronous part.

Nothing that happens to the backend later changes a sealed table, so another thread may read it without a lock.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from penstock.codec.keys import KeyCodec
from penstock.model.ids import CheckpointId
from penstock.model.snapshot import NativeName, StateFile, StateSize, StateTableInfo
from penstock.state.format.table_rows import Rows

PutFile: TypeAlias = Callable[[bytes, NativeName], StateFile]
"""Stores a native file under a unique name. Thread-safe."""


@dataclass(frozen=True)
class SealedTable:
    """One table: all of its entries, or those that changed since the base."""

    info: StateTableInfo
    rows: Callable[[], Rows | pa.Table | Iterator[pa.RecordBatch]]
    """Returns the rows. Those of a table that no function has declared since the restore are as they were read."""
    full: bool
    """All entries: older files no longer count for this table."""
    entries: int | None = None
    """The number of entries of the whole table; None if counting them would delay the epoch."""


@dataclass(frozen=True)
class SealedTables:
    """The keyed state of one operator in one subtask at a seal."""

    operator_uid: str
    checkpoint_id: CheckpointId
    base: CheckpointId | None
    """The checkpoint whose files must be read before this one's; None if these tables are complete."""
    key_codec: KeyCodec
    max_parallelism: int
    tables: tuple[SealedTable, ...]


@dataclass(frozen=True)
class SealedFiles:
    """The keyed state of one operator as files in the backend's own format."""

    operator_uid: str
    base: CheckpointId | None
    """The checkpoint whose files need not be stored again."""
    infos: tuple[StateTableInfo, ...]
    store: Callable[[Sequence[StateFile], PutFile], tuple[list[StateFile], int]]
    """Stores, once, what is not in the given files of the base. Returns all files of the snapshot and the new bytes."""
    sizes: Callable[[], list[StateSize]] = list
    """The sizes of the states."""
