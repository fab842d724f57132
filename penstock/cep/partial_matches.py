"""The partial matches of one key, in keyed state.

They share their events: a match is a path through a tree of nodes, each an accepted event with the node before it, and
an event is stored once, however many nodes refer to it. The tips, where a match may continue, are in a map of their
own: every event is compared with all tips, but rarely with the nodes behind them. Changes by an event or timer are
collected here and written by `write_back`. A tip that ignores the event is not written, and what is created and dropped
before `write_back` never reaches the state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.model.descriptors import MapStateDescriptor, ValueStateDescriptor
from penstock.model.functions import RuntimeContext
from penstock.model.state import MapState
from penstock.model.type_information import TypeInformation
from penstock.model.types import Types

T = TypeVar("T")

NO_NODE = -1
TIP_TYPE = Types.ROW_NAMED(
    ["position", "waiting_for", "fresh", "complete", "start_event", "start_time", "last_time"],
    [Types.STRING(), Types.STRING(), Types.BOOLEAN(), Types.BOOLEAN(), Types.LONG(), Types.LONG(), Types.LONG()],
)
NODE_TYPE = Types.ROW_NAMED(
    ["event", "position", "previous", "references"], [Types.LONG(), Types.STRING(), Types.LONG(), Types.LONG()]
)


class MatchStates:
    """The operator's state handles, which always refer to the current key."""

    def __init__(self, context: RuntimeContext, event_type: TypeInformation) -> None:
        long = Types.LONG()
        self.tips = context.get_map_state(MapStateDescriptor("cep-tips", long, TIP_TYPE))
        self.nodes = context.get_map_state(MapStateDescriptor("cep-nodes", long, NODE_TYPE))
        self.events = context.get_map_state(MapStateDescriptor("cep-events", long, event_type))
        self.uses = context.get_map_state(MapStateDescriptor("cep-event-uses", long, long))
        self.next_id = context.get_state(ValueStateDescriptor("cep-next-id", long))


@dataclass(eq=False)
class Tip:
    """A partial match: its last node, and what it waits for."""

    node: int
    position: str
    waiting_for: str
    """The open choices; if empty, the match only waits for its turn to be emitted."""
    fresh: bool
    """Whether no event has come since the last accepted one."""
    complete: bool
    start_event: int
    start_time: int
    last_time: int

    def row(self) -> tuple[Any, ...]:
        """The tip in its stored form."""
        return (
            self.position,
            self.waiting_for,
            self.fresh,
            self.complete,
            self.start_event,
            self.start_time,
            self.last_time,
        )


@dataclass
class MatchNode:
    """An accepted event, and the node before it."""

    event: int
    position: str
    previous: int
    references: int
    """How many nodes and tips refer to it."""


class PartialMatches:
    """The partial matches of the current key while one event or timer is processed."""

    def __init__(self, states: MatchStates) -> None:
        self._states = states
        self.tips = {node: Tip(node, *row) for node, row in sorted(states.tips.items())}
        self._nodes: Working[MatchNode] = Working(states.nodes, lambda row: MatchNode(*row), _node_row)
        self._events: Working[Any] = Working(states.events, lambda event: event, lambda event: event)
        self._uses: Working[int] = Working(states.uses, lambda count: count, lambda count: count)
        self._stored_tips = set(self.tips)
        self._changed_tips: set[int] = set()
        self._next_id: int | None = None
        self._first_id: int | None = None

    def add_event(self, event: Any) -> int:
        """Store an event and return its number."""
        number = self._new_id()
        self._events.put(number, event)
        self._uses.put(number, 0)
        return number

    def extend(self, tip: Tip | None, position: str, event: int, timestamp: int) -> Tip:
        """Add an event to a partial match, or start a new one with it. The result has no open choices yet."""
        node = self._new_id()
        previous = NO_NODE if tip is None else tip.node
        self._nodes.put(node, MatchNode(event, position, previous, 1))
        self._uses.put(event, self._uses.get(event) + 1)
        if tip is not None:
            parent = self._nodes.get(tip.node)
            parent.references += 1
            self._nodes.put(tip.node, parent)
        start, time = (event, timestamp) if tip is None else (tip.start_event, tip.start_time)
        longer = Tip(
            node, position, "", fresh=True, complete=False, start_event=start, start_time=time, last_time=timestamp
        )
        self.tips[node] = longer
        self._changed_tips.add(node)
        return longer

    def change(self, tip: Tip) -> None:
        """Record that a tip has changed."""
        self._changed_tips.add(tip.node)

    def changed_tips(self) -> list[Tip]:
        """The tips that are new or were changed."""
        return [self.tips[number] for number in self._changed_tips if number in self.tips]

    def drop(self, tip: Tip) -> None:
        """Remove a partial match, and the nodes and events that no other one uses."""
        del self.tips[tip.node]
        self._changed_tips.add(tip.node)
        number = tip.node
        while number != NO_NODE:
            node = self._nodes.get(number)
            node.references -= 1
            if node.references:
                self._nodes.put(number, node)
                return
            self._nodes.remove(number)
            uses = self._uses.get(node.event) - 1
            if uses:
                self._uses.put(node.event, uses)
            else:
                self._uses.remove(node.event)
                self._events.remove(node.event)
            number = node.previous

    def path(self, tip: Tip) -> list[tuple[str, int]]:
        """The positions and event numbers of a partial match, from first to last."""
        path = []
        number = tip.node
        while number != NO_NODE:
            node = self._nodes.get(number)
            path.append((node.position, node.event))
            number = node.previous
        return path[::-1]

    def event(self, number: int) -> Any:
        """A stored event."""
        return self._events.get(number)

    def write_back(self) -> None:
        """Write what has changed to the state. A key without partial matches has no state at all."""
        for number in self._changed_tips:
            tip = self.tips.get(number)
            if tip is not None:
                self._states.tips.put(number, tip.row())
            elif number in self._stored_tips:
                self._states.tips.remove(number)
        self._nodes.write_back()
        self._events.write_back()
        self._uses.write_back()
        if not self.tips:
            if self._stored_tips:
                self._states.next_id.clear()
        elif self._next_id != self._first_id:
            self._states.next_id.update(self._next_id)

    def _new_id(self) -> int:
        if self._next_id is None:
            self._next_id = self._first_id = self._states.next_id.value() or 0
        self._next_id += 1
        return self._next_id


class Working(Generic[T]):
    """Entries of a map state: read when they are needed, written together."""

    def __init__(self, state: MapState[int, Any], load: Callable[[Any], T], store: Callable[[T], Any]) -> None:
        self._state = state
        self._load = load
        self._store = store
        self._entries: dict[int, T] = {}
        self._changed: dict[int, None] = {}
        self._created: set[int] = set()

    def get(self, number: int) -> T:
        """An entry, which must exist."""
        if number not in self._entries:
            self._entries[number] = self._load(self._state.get(number))
        return self._entries[number]

    def put(self, number: int, value: T) -> None:
        """Set an entry. An entry that has not been read before counts as new."""
        if number not in self._entries and number not in self._changed:
            self._created.add(number)
        self._entries[number] = value
        self._changed[number] = None

    def remove(self, number: int) -> None:
        """Remove an entry."""
        self._entries.pop(number, None)
        self._changed[number] = None

    def write_back(self) -> None:
        """Write what has changed."""
        for number in self._changed:
            if number in self._entries:
                self._state.put(number, self._store(self._entries[number]))
            elif number not in self._created:
                self._state.remove(number)


def _node_row(node: MatchNode) -> tuple[Any, ...]:
    return (node.event, node.position, node.previous, node.references)
