"""Functions that the checks use."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from penstock.codec.keys import KeyCodec
from penstock.model.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.functions import AggregateFunction
from penstock.model.ids import CheckpointId
from penstock.model.key_groups import key_group_range
from penstock.model.type_information import TypeInformation
from penstock.model.types import Types
from penstock.state.backend.backend_place import BackendPlace
from penstock.state.backend.keyed_backend import KeyedBackend
from penstock.state.backend.sealed_state import SealedTable, SealedTables
from penstock.state.format.snapshot_file import encode_snapshot, read_chain
from penstock.state.format.table_rows import DELETED_COLUMN, Rows

NewBackend = Callable[[BackendPlace], KeyedBackend]
"""Opens an empty backend; `BackendPlace.folder` is not set."""
GROUPS = 16
ALL = (0, GROUPS - 1)


class Mean(AggregateFunction):
    """Keeps [sum, count] and changes it in place, as users do."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


@contextmanager
def epoch(backend: KeyedBackend, key: Any = "k") -> Iterator[None]:
    """Runs an epoch with a current key. An error rolls it back."""
    backend.begin_epoch()
    at(backend, key)
    try:
        yield
    except BaseException:
        backend.roll_back()
        raise
    backend.finish_epoch()
    at(backend, key)


def at(backend: KeyedBackend, key: Any) -> None:
    """Make `key` the current key."""
    backend.keys.key = backend.key_codec.to_state_key(key)


def make(new: NewBackend, *types: TypeInformation, key_groups: tuple[int, int] = ALL) -> KeyedBackend:
    """An empty backend, keyed by text unless types are given."""
    return new(BackendPlace("op", KeyCodec(types or (Types.STRING(),)), GROUPS, key_groups, incremental=False))


def entry_count(backend: KeyedBackend) -> int:
    """The number of rows of a full snapshot. An entry of a state that no function has declared may have several."""
    return sum(map(_row_count, backend.seal_all(0).tables))


def _row_count(table: SealedTable) -> int:
    rows = table.rows()
    if isinstance(rows, Rows):
        return len(rows.keys)
    if isinstance(rows, pa.Table):
        return len(rows) - int(rows[DELETED_COLUMN].to_numpy().sum())
    return sum(map(len, rows))


def sealed_file(backend: KeyedBackend, checkpoint: int = 1) -> bytes:
    """A full snapshot of the backend."""
    sealed = backend.seal(CheckpointId(checkpoint), None, full=True)
    assert isinstance(sealed, SealedTables)
    return encode_snapshot([sealed])


def restored(new: NewBackend, files: Sequence[bytes], parallelism: int = 1, groups: int = GROUPS) -> list[KeyedBackend]:
    """The subtasks of a job that starts from these snapshots."""
    backends = []
    for index in range(parallelism):
        key_groups = key_group_range(groups, parallelism, index)
        backend = new(BackendPlace("op", KeyCodec((Types.STRING(),)), groups, key_groups, incremental=False))
        for file in files:
            for info, rows in read_chain([file], key_groups, groups):
                backend.restore(info, rows)
        backends.append(backend)
    return backends


def expect_error(kind: type[BaseException], text: str, step: Callable[[], Any]) -> None:
    """The step must fail in this way."""
    try:
        step()
    except kind as error:
        assert text in str(error), f"{text!r} not in {error}"
        return
    raise AssertionError(f"no {kind.__name__}")


def three_states(backend: KeyedBackend, namespace_type: TypeInformation | None = None) -> tuple[Any, Any, Any]:
    """A value, a list and a map."""
    return (
        backend.table(ValueStateDescriptor("v", Types.LONG()), namespace_type),
        backend.table(ListStateDescriptor("l", Types.LONG()), namespace_type),
        backend.table(MapStateDescriptor("m", Types.STRING(), Types.LONG()), namespace_type),
    )
