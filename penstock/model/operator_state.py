"""State of a subtask instead of a key: operator list and broadcast state, raw state, and the functions that use them.

    class Buffer(FlatMapFunction, CheckpointedFunction):
        def initialize_state(self, ctx):
            self.saved = ctx.get_operator_state_store().get_list_state(ListStateDescriptor("buffer", Types.LONG()))
            self.buffer = list(self.saved.get())

        def snapshot_state(self, ctx):
            self.saved.update(self.buffer)

What a handle returns is a copy; changing it changes nothing until it is written back through the handle.
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
    """A dictionary that every subtask has a copy of, as the side that must not change it sees it."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of a key; None when it is absent."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether the key is there."""

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
    """A dictionary that every subtask has a copy of. Every subtask must change it in the same way."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of a key."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set the values of several keys."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove a key; an absent one is fine."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class OperatorStateStore(ABC):
    """Gives a function the handles of its operator state, which is in memory and has no time to live."""

    @abstractmethod
    def get_list_state(self, state_descriptor: "ListStateDescriptor") -> ListState[Any]:
        """A list of this subtask's own. When parallelism changes, the elements of all lists are dealt out evenly."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: "ListStateDescriptor") -> ListState[Any]:
        """A list of this subtask's own. After a restore every subtask has the elements of all, and picks its share.

        Write the share back with `update`: a list that is left as it was restored is saved by every subtask.
        """

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: "MapStateDescriptor") -> BroadcastState[Any, Any]:
        """A dictionary that is the same in all subtasks."""


class RawState(ABC):
    """Bytes of the function's own making. Read in `initialize_state`, written anew in every `snapshot_state`.

    Once a function asks for it, a snapshot holds what that snapshot's `snapshot_state` has written and nothing else.
    """

    @abstractmethod
    def get_partitions(self) -> list[bytes]:
        """The partitions that this subtask got; when parallelism changes, those of all subtasks are dealt out."""

    @abstractmethod
    def get_key_groups(self) -> list[tuple[int, bytes]]:
        """(key group, bytes) of the key groups that this subtask owns, in their order."""

    @abstractmethod
    def start_new_partition(self) -> None:
        """What is written from here on is one partition, which stays whole."""

    @abstractmethod
    def start_new_key_group(self, key_group: int) -> None:
        """What is written from here on belongs to this key group, one of the subtask's own, each at most once."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Add bytes to the partition or key group that was started last."""


class StateContext(ABC):
    """Where a CheckpointedFunction finds its state."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Operator state."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Keyed state; its handles can be used only where there is a current key."""

    @abstractmethod
    def get_raw_state(self) -> RawState:
        """Raw state."""


class FunctionInitializationContext(StateContext):
    """What a function is told at its start."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Whether there may be state of an earlier life: from a checkpoint, or from the epochs before a lost task."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """The checkpoint that the job was restored from; None where it was not."""


class FunctionSnapshotContext(StateContext):
    """What a function is told at the end of an epoch."""

    @abstractmethod
    def get_checkpoint_id(self) -> int | None:
        """The checkpoint that the epoch ends with; None where it ends with none."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """The epoch's processing time in milliseconds."""


class CheckpointedFunction(ABC):
    """Added to any function that keeps something outside of handles: `class F(MapFunction, CheckpointedFunction)`."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Take the handles and what they hold. Before `open`, at every start and after a lost task."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Write what must not be lost to the handles. At the end of every epoch, with and without a checkpoint."""


class CheckpointListener(ABC):
    """Added to a function that wants to hear how checkpoints ended, at the start of the next epoch.

    Best effort: a call may be left out, and then a later one stands for it too.
    """

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint, and with it every earlier one, will never be taken back."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint was given up; a later one covers what it would have held."""
        return
