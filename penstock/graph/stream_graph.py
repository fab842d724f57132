"""The program as the user wrote it: one node for each call that made a stream.

Nodes are only added. A node's inputs have lower ids than its own, so the list is in topological order. Names, uids and
parallelism are set afterwards by `stream.uid(...)` and the like, so a `Node` is mutable until the job graph is built.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.errors import UnsupportedValueError
from penstock.graph.creation_site import creation_site
from penstock.graph.pickling import function_name
from penstock.model.delivery import Delivery
from penstock.model.types import TypeInformation

JvmOp = tuple[str, ...]
"""("where", sql), ("with_column", name, sql) or ("select", sql, sql, ...): work that stays in the JVM."""

NodeKind = Literal["source", "jvm", "operator", "key_by", "partition", "union", "sink"]
SourceKind = Literal[
    "dataframe", "static", "collection", "sequence", "file", "generator", "iterator", "socket", "function", "kafka"
]
SinkKind = Literal["sink", "print", "collect", "spark"]


@dataclass(frozen=True)
class EventTime:
    """Event time taken from a column of the source."""

    column: str
    max_out_of_orderness_ms: int = 0
    partition_column: str | None = None
    """Names the source's partition of a row; the watermark then follows the slowest partition."""
    idle_after_ms: int | None = None
    """A partition whose time has not advanced for this long no longer holds back the watermark."""


@dataclass(frozen=True)
class SourceSpec:
    """Where records come from."""

    kind: SourceKind
    object: Any
    """dataframe: a streaming DataFrame; static: one that is not; otherwise a source object of `penstock.connectors`."""
    record_type: TypeInformation
    event_time: EventTime | None = None
    bounded: bool = False
    delivery: Delivery = Delivery()
    """The guarantee of the source."""
    fixed_start: bool = True
    """Whether a job without a position begins at the same record each time, and not after the newest one."""


@dataclass(frozen=True)
class JvmSpec:
    """A step in SQL. `frame` is its resulting DataFrame, kept for the schema."""

    op: JvmOp
    frame: Any


@dataclass(frozen=True)
class OperatorSpec:
    """A user function (always an object with the method of its kind) and how it is called."""

    kind: str
    function: Any
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def is_keyed(self) -> bool:
        """Whether the function runs under a current key."""
        return self.kind == "reduce" or self.kind.startswith("keyed_")


@dataclass(frozen=True)
class KeyBy:
    """How records get their key: columns of the record, or a function."""

    columns: tuple[str, ...] | None
    selector: Any
    key_types: tuple[TypeInformation, ...]

    @property
    def label(self) -> str:
        """The columns, or the name of the function, for messages and plans."""
        return ", ".join(self.columns) if self.columns is not None else function_name(self.selector)


@dataclass(frozen=True)
class BroadcastTo:
    """The payload of a partition node that sends every record to every subtask."""


@dataclass(frozen=True)
class PartitionTo:
    """The payload of another partition node: rebalance, rescale, shuffle, forward or global."""

    strategy: str


@dataclass(frozen=True)
class CustomPartition:
    """The payload of a partition node whose partitioner chooses the subtask of each record."""

    partitioner: Any
    selector: Any

    def target(self, record: Any, count: int) -> int:
        """The subtask that a record goes to, below `count`; the key is what the program's function returns."""
        chosen = self.partitioner.partition(self.selector.get_key(record), count)
        if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen < count:
            raise UnsupportedValueError(
                f"the partitioner {function_name(self.partitioner)} returned {chosen!r}; it must return a number from "
                f"0 to {count - 1}; the number of subtasks is its second argument"
            )
        return chosen


@dataclass(frozen=True)
class SinkSpec:
    """Where records go. sink: a `model.sink.Sink`; print: the identifier or None; spark: the user's callable."""

    kind: SinkKind
    config: Any = None


@dataclass
class Node:
    """One step of the program."""

    id: int
    kind: NodeKind
    name: str
    inputs: tuple[int, ...]
    payload: Any
    output_type: TypeInformation
    """Type of the records that leave the node; for a sink, of those that enter it."""
    given_name: str
    """The original name: the derived uid of a source does not change with `name`."""
    uid: str | None = None
    uid_hash: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    single: bool = False
    """Whether its parallelism is always 1."""
    description: str | None = None
    slot_sharing_group: str | None = None
    chain_before: bool = True
    """May run in the same stage as its input."""
    chain_after: bool = True
    takes_uid: bool = True
    """The program can set its uid; not that of a source behind the timestamps of `from_source`, or a part of a join."""
    created: str = ""
    """The line of the program that added it, as `file:line: code`."""


NO_BUFFERS = "records travel with their epoch, not in network buffers"
"""Why `set_buffer_timeout` has no effect."""


class StreamGraph:
    """All nodes of one environment. What runs leads to `roots`: operators and sinks that were not executed yet."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.roots: list[int] = []
        self.unfinished: dict[Any, str] = {}
        """What is not an operator yet, such as a stream with windows, and what the program must do with it."""
        self.without_effect: dict[str, str] = {}
        """Calls of the program that are accepted without effect, and why: the job says so."""

    def add(self, kind: NodeKind, name: str, inputs: Sequence[int], payload: Any, output_type: TypeInformation) -> Node:
        """A new node that reads `inputs`."""
        node = Node(len(self.nodes), kind, name, tuple(inputs), payload, output_type, name)
        node.created = creation_site()
        self.nodes.append(node)
        if kind in ("operator", "sink"):
            self.roots.append(node.id)
        return node

    def __getitem__(self, node_id: int) -> Node:
        return self.nodes[node_id]

    def to_execute(self) -> list[Node]:
        """The nodes that lead to a root, in topological order."""
        needed = set(self.roots)
        for node in reversed(self.nodes):
            if node.id in needed:
                needed.update(node.inputs)
        return [node for node in self.nodes if node.id in needed]

    def has_event_time(self, node_id: int) -> bool:
        """Return whether a record that reaches the node can have a timestamp."""
        waiting, seen = [node_id], set()
        while waiting:
            node = self[waiting.pop()]
            if node.id in seen:
                continue
            seen.add(node.id)
            payload = node.payload
            if isinstance(payload, SourceSpec) and payload.event_time is not None:
                return True
            if isinstance(payload, OperatorSpec) and payload.kind == "timestamps":
                return True
            waiting.extend(node.inputs)
        return False

    def executed(self) -> None:
        """Forget the roots: the next job consists of what is added from now on, with everything it reads."""
        self.roots.clear()
        self.unfinished.clear()
        self.without_effect.clear()
