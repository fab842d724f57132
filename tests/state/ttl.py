"""Backends whose clock a test sets, for states with a time to live."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.model.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.model.time import Time
from penstock.model.ttl import StateTtlConfig
from penstock.model.types import Types
from penstock.state.format.snapshot_file import encode_snapshot, read_chain
from penstock.state.ttl.cleanup_scan import DISK_COST
from penstock.state.ttl.rules import SweepSettings
from penstock.testing.conformance_state.tools import Mean
from tests.state.backends import MAX_PARALLELISM, at, choose, seal, stored_entries, string_backend

BACKENDS = ["hashmap", "rocksdb"]
TAKES_BACK_FINISHED = {"hashmap"}
"""Backends whose `roll_back` also undoes an epoch that has finished."""
on_every_backend = pytest.mark.parametrize("backend", BACKENDS)
KINDS = ("value", "list", "map", "reducing", "aggregating")
every_kind = pytest.mark.parametrize("kind", KINDS)

T0 = 1_700_000_000_000
TTL = 8_000
EVERYTHING = SweepSettings(entries=10**9, interval_ms=1_000)

Configure = Callable[[StateTtlConfig.Builder], StateTtlConfig.Builder]


def descriptor(kind: str, name: str = "state") -> StateDescriptor:
    """A state of longs, or of averages."""
    made: dict[str, Callable[[], StateDescriptor]] = {
        "value": lambda: ValueStateDescriptor(name, Types.LONG()),
        "list": lambda: ListStateDescriptor(name, Types.LONG()),
        "map": lambda: MapStateDescriptor(name, Types.STRING(), Types.LONG()),
        "reducing": lambda: ReducingStateDescriptor(name, lambda a, b: a + b, Types.LONG()),
        "aggregating": lambda: AggregatingStateDescriptor(name, Mean()),
    }
    return made[kind]()


def expiring(
    kind: str, configure: Configure = lambda b: b, *, ttl_ms: int = TTL, name: str = "state"
) -> StateDescriptor:
    """A state whose entries live `ttl_ms`."""
    made = descriptor(kind, name)
    made.enable_time_to_live(configure(StateTtlConfig.new_builder(Time.milliseconds(ttl_ms))).build())
    return made


def unattended(builder: StateTtlConfig.Builder) -> StateTtlConfig.Builder:
    """Expired entries go when they are read, and not otherwise."""
    return builder.disable_cleanup_in_background()


class World:
    """A backend, its states, and the time."""

    def __init__(self, backend: str, *states: StateDescriptor) -> None:
        self.kind = backend
        choose(backend)
        self.backend = string_backend()
        self.use(*states)

    def use(self, *states: StateDescriptor) -> None:
        """Let a function ask for these states."""
        self.states = {state.name: self.backend.table(state) for state in states}
        self.state: Any = next(iter(self.states.values()), None)

    @contextmanager
    def epoch(self, now_ms: int) -> Iterator[Any]:
        """An epoch at this time; an exception takes it back. Gives the first state."""
        self.backend.ttl.clock.now_ms = now_ms
        self.backend.begin_epoch()
        try:
            yield self.state
        except BaseException:
            self.backend.roll_back()
            raise
        self.backend.finish_epoch()

    def at(self, key: str) -> Any:
        """The first state, for this key."""
        at(self.backend, key)
        return self.state

    def fill(self, now_ms: int, keys: Sequence[str], number: int = 1) -> None:
        """An epoch that adds a number for each key."""
        with self.epoch(now_ms):
            for key in keys:
                write(self.at(key), number)

    def sweep(self, now_ms: int, settings: SweepSettings = EVERYTHING) -> None:
        """An epoch without records."""
        with self.epoch(now_ms):
            self.backend.ttl.sweep(settings)

    def budget(self, entries: int, interval_ms: int = 1_000) -> SweepSettings:
        """A sweep with a budget of this many entries, on any backend."""
        return SweepSettings(entries * (DISK_COST if self.backend.on_disk else 1), interval_ms)

    def stored(self) -> int:
        """Rows that a full seal would have, expired or not."""
        return stored_entries(self.backend)

    def moved(self, chain: Sequence[bytes], *states: StateDescriptor) -> "World":
        """A new world that starts from these files, oldest first."""
        other = World(self.kind)
        for info, rows in read_chain(chain, (0, MAX_PARALLELISM - 1), MAX_PARALLELISM):
            other.backend.restore(info, rows)
        other.use(*states)
        return other

    def file(self, checkpoint_id: int = 1, base: int | None = None) -> bytes:
        """The file of a seal: full, or what changed since `base`."""
        return encode_snapshot([seal(self.backend, checkpoint_id, base, full=base is None)])


def write(state: Any, number: int, map_key: str = "m") -> None:
    """Put a number into a state of any kind."""
    if hasattr(state, "put"):
        state.put(map_key, number)
    else:
        (state.add if hasattr(state, "add") else state.update)(number)


def read(state: Any) -> Any:
    """What a state of any kind holds for the current key, as a list."""
    if hasattr(state, "items"):
        return [value for _, value in state.items()]
    found = state.value() if hasattr(state, "value") else state.get()
    return found if isinstance(found, list) else [] if found is None else [found]
