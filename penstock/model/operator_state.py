"""State of a subtask instead of a key: list state, broadcast state and raw state, and the functions that use them.

    class Buffer(FlatMapFunction, CheckpointedFunction):
        def initialize_state(self, ctx):
            self.saved = ctx.get_operator_state_store().get_list_state(ListStateDescriptor("buffer", Types.LONG()))
            self.buffer = list(self.saved.get())

        def snapshot_state(self, ctx):
            self.saved.update(self.buffer)

Handles return copies. A change to a copy has no effect until it is written back through the handle.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.model.functions import KeyedStateStore
from penstock.model.state import ListState, State

if TYPE_CHECKING:
    from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyBroadcastState(State, Generic[K, V]):
    """A dictionary of which every subtask has a copy, for functions that may only read it."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of a key, or None."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether the key exists."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """All (key, value) pairs."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """All keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """All values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no key."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """A dictionary of which every subtask has a copy. Every subtask must change it in the same way."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of a key."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set the values of several keys."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove a key, if it exists."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class OperatorStateStore(ABC):
    """Gives a function the handles of its operator state, which is kept in memory and has no time to live."""

    @abstractmethod
    def get_list_state(self, state_descriptor: "ListStateDescriptor") -> ListState[Any]:
        """A list of this subtask. When the parallelism changes, the elements of all lists are distributed evenly."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: "ListStateDescriptor") -> ListState[Any]:
        """A list of this subtask. After a restore every subtask gets the elements of all lists and picks its share.

        Write the share back with `update`: otherwise every subtask stores the whole list again.
        """

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: "MapStateDescriptor") -> BroadcastState[Any, Any]:
        """A dictionary that is the same in all subtasks."""


class RawState(ABC):
    """Bytes in a format of the function's own, read in `initialize_state` and written in every `snapshot_state`.

    A snapshot holds only what its own `snapshot_state` wrote.
    """

    @abstractmethod
    def get_partitions(self) -> list[bytes]:
        """The partitions of this subtask. When the parallelism changes, all partitions are distributed again."""

    @abstractmethod
    def get_key_groups(self) -> list[tuple[int, bytes]]:
        """(key group, bytes) for each key group of this subtask that has bytes, in order."""

    @abstractmethod
    def start_new_partition(self) -> None:
        """Start a partition. What is written to it from now on is never split."""

    @abstractmethod
    def start_new_key_group(self, key_group: int) -> None:
        """Start the bytes of a key group of this subtask. Each key group can be started once."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Add bytes to the partition or key group that was started last."""


class StateContext(ABC):
    """The state of a CheckpointedFunction."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Operator state."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Keyed state. Its handles can be used only where there is a current key."""

    @abstractmethod
    def get_raw_state(self) -> RawState:
        """Raw state."""


class FunctionInitializationContext(StateContext):
    """The state of a function when it starts."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Whether there may be earlier state: of a checkpoint, or of the epochs before a task was lost."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """The checkpoint that the job was restored from, or None."""


class FunctionSnapshotContext(StateContext):
    """The state of a function at the end of an epoch."""

    @abstractmethod
    def get_checkpoint_id(self) -> int | None:
        """The checkpoint at the end of the epoch, or None."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """The epoch's processing time in milliseconds."""


class CheckpointedFunction(ABC):
    """A function that keeps state outside of handles: `class F(MapFunction, CheckpointedFunction)`."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Get the handles and read the state. Called before `open`, at every start and after the loss of a task."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Write the state to the handles. Called at the end of every epoch, with or without a checkpoint."""


class CheckpointListener(ABC):
    """A function that is notified of completed and aborted checkpoints, at the start of the next epoch.

    Best effort: a notification may be lost. A later one then stands for it too.
    """

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is complete. This stands for earlier ones whose notification was lost, too."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint was aborted. A later one will cover its epochs."""
        return
