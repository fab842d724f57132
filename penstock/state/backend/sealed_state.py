"""Tables as they were at a seal: taken in the synchronous part of a checkpoint, made into rows in the asynchronous one.

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
"""Stores a native file under a name of its own; several threads may call it."""


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
    """The keyed state of one operator as files of the backend's own."""

    operator_uid: str
    base: CheckpointId | None
    """The checkpoint whose files need not be stored again."""
    infos: tuple[StateTableInfo, ...]
    store: Callable[[Sequence[StateFile], PutFile], tuple[list[StateFile], int]]
    """Stores, once, what these files of the base do not have: all files of the snapshot, and how many bytes are new."""
    sizes: Callable[[], list[StateSize]] = list
    """How large the states are."""
