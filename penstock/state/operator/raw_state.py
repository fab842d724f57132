"""Raw state of one operator in one subtask: bytes by partition and by key group (features A2, A3)."""

from collections.abc import Iterable
from typing import Any

from penstock.errors import StateAccessError, UnsupportedValueError
from penstock.model.operator_state import RawState
from penstock.state.heap.copy_on_write import CopyOnWrite


class OperatorRawState(RawState):
    """Read at any time; written between `begin_snapshot` and `end_snapshot`."""

    def __init__(self, key_groups: tuple[int, int] | None) -> None:
        self._range = key_groups
        self.partitions: CopyOnWrite[list[Any]] = CopyOnWrite([])
        self.key_groups: CopyOnWrite[dict[Any, Any]] = CopyOnWrite({})
        self.is_used = False
        """Whether the function uses raw state. If so, what it does not write is dropped."""
        self._partitions: list[list[bytes]] = []
        self._groups: dict[int, list[bytes]] = {}
        self._open: list[bytes] | None = None
        self._is_writing = False

    def restore_partitions(self, partitions: list[bytes]) -> None:
        """Append them to those restored before."""
        self.partitions.writable().extend(partitions)
        self.partitions.commit()

    def restore_key_groups(self, groups: Iterable[tuple[int, bytes]]) -> None:
        """Keep those in this subtask's key groups."""
        if self._range is not None:
            first, last = self._range
            self.key_groups.writable().update({group: data for group, data in groups if first <= group <= last})
            self.key_groups.commit()

    def start_function(self) -> None:
        """Prepare for a new function object, which has not used any raw state yet."""
        self.is_used = self._is_writing = False

    def begin_snapshot(self) -> None:
        """Begin writing, from nothing."""
        self._partitions, self._groups, self._open = [], {}, None
        self._is_writing = True

    def end_snapshot(self) -> None:
        """Make what was written the new state, if the function uses raw state."""
        self._is_writing = False
        if self.is_used:
            self.partitions.replace([b"".join(parts) for parts in self._partitions])
            self.key_groups.replace({group: b"".join(parts) for group, parts in sorted(self._groups.items())})

    def get_partitions(self) -> list[bytes]:
        return list(self.partitions.live)

    def get_key_groups(self) -> list[tuple[int, bytes]]:
        return sorted(self.key_groups.live.items())

    def start_new_partition(self) -> None:
        self._require_writing()
        self._open = []
        self._partitions.append(self._open)

    def start_new_key_group(self, key_group: int) -> None:
        self._require_writing()
        if self._range is None:
            raise StateAccessError(
                "raw state by key group is for functions on a KeyedStream; write `stream.key_by(…)` before the "
                "operator, or use start_new_partition()"
            )
        first, last = self._range
        if type(key_group) is not int or not first <= key_group <= last:
            raise StateAccessError(
                f"key group {key_group!r} does not belong to this subtask, which owns {first} to {last}"
            )
        if key_group in self._groups:
            raise StateAccessError(f"key group {key_group} was started before; write all its bytes at once")
        self._open = self._groups[key_group] = []

    def write(self, data: bytes) -> None:
        self._require_writing()
        if self._open is None:
            raise StateAccessError("call start_new_partition() or start_new_key_group(…) before write()")
        if not isinstance(data, bytes | bytearray | memoryview):
            raise UnsupportedValueError(f"raw state is bytes, not {data!r}")
        self._open.append(bytes(data))

    def _require_writing(self) -> None:
        if not self._is_writing:
            raise StateAccessError("raw state is written in snapshot_state() only; in initialize_state() it is read")
