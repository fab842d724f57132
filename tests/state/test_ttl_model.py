"""States with a time to live against plain dictionaries of stamps: random accesses, times, sweeps, seals, restores."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.descriptors import StateDescriptor, StateTtlConfig
from penstock.state.ttl.rules import SweepSettings
from tests.state.ttl import T0, TAKES_BACK_FINISHED, World, expiring

TTL = 1_000
KEYS = ["a", "b", "c"]
OTHERS = [f"other {number}" for number in range(20)]
"""Written at the start, and seldom prolonged: most seals can be deltas, and most sweeps find something."""
MAP_KEYS = ["x", "y"]
KINDS = ["value", "list", "map", "reducing"]
NAMES = [f"{kind}{suffix}" for kind in KINDS for suffix in ("", "_read", "_snapshot")]
Pair = tuple[int, int]
Model = dict[str, dict[str, dict[Any, Pair]]]
"""State -> key -> entries with their stamps: of a list by position, of a value one."""


def kind_of(name: str) -> str:
    return name.split("_")[0]


def states() -> list[StateDescriptor]:
    def configure(name: str) -> Any:
        def change(builder: StateTtlConfig.Builder) -> StateTtlConfig.Builder:
            builder = builder.update_ttl_on_read_and_write() if name.endswith("_read") else builder
            return builder.cleanup_full_snapshot() if name.endswith("_snapshot") else builder

        return change

    return [expiring(kind_of(name), configure(name), ttl_ms=TTL, name=name) for name in NAMES]


accesses = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from([*KEYS, *KEYS, OTHERS[0]]),
    st.sampled_from(["write", "write", "read", "clear", "replace", "remove"]),
    st.integers(1, 5),
    st.sampled_from(MAP_KEYS),
)
epochs = st.tuples(
    st.sampled_from([0, 1, 100, TTL // 2, TTL - 1, TTL, 3 * TTL]),
    st.lists(accesses, max_size=12),
    st.sampled_from([None, 1, 7, 10**6]),
    st.sampled_from(["finish", "seal", "delta", "delta", "raise", "finish, roll back", "delta, roll back", "recover"]),
)


class Simulation:
    def __init__(self, backend: str) -> None:
        self.world = World(backend, *states())
        self.model: Model = {name: {} for name in NAMES}
        self.now = T0
        self.checkpoint = 0
        self.chain: list[tuple[int, bytes]] = []
        self.saved: Model = copy.deepcopy(self.model)
        self.epoch(0, [(name, key, "write", 1, "x") for name in NAMES for key in OTHERS], None, "seal")

    def epoch(self, passed: int, steps: list[Any], sweep: int | None, outcome: str) -> None:
        if outcome == "recover":
            self.recover()
        if self.world.kind not in TAKES_BACK_FINISHED:
            outcome = outcome.removesuffix(", roll back")
        self.now += passed
        world, before, known = self.world, copy.deepcopy(self.model), (list(self.chain), self.saved)
        world.backend.ttl.clock.now_ms = self.now
        world.backend.begin_epoch()
        for step in steps:
            self.access(*step)
        if sweep is not None:
            world.backend.ttl.sweep(SweepSettings(sweep, 10))
        if outcome == "raise":
            self.check()
            world.backend.roll_back()
            self.model = before
        else:
            world.backend.finish_epoch()
        self.check()
        if outcome.startswith(("seal", "delta")):
            self.seal(full=outcome == "seal")
        if outcome.endswith("roll back"):
            world.backend.roll_back()
            self.model, (self.chain, self.saved) = before, known
        self.check()

    def access(self, name: str, key: str, what: str, number: int, map_key: str) -> None:
        self.world.at(key)
        state, kind = self.world.states[name], kind_of(name)
        entries = self.live(self.model[name].get(key, {}))
        if what == "read":
            assert self.seen(name) == self.shown(name, key)
            if name.endswith("_read"):
                entries = {place: (self.now, value) for place, (_, value) in entries.items()}
        elif what == "clear":
            state.clear()
            entries = {}
        elif what == "remove" and kind == "map":
            state.remove(map_key)
            entries.pop(map_key, None)
        elif kind == "map":
            state.put(map_key, number)
            entries[map_key] = (self.now, number)
        elif kind == "list":
            (state.update if what == "replace" else state.add_all)([number, number + 1])
            old = [] if what == "replace" else list(entries.values())
            entries = dict(enumerate([*old, (self.now, number), (self.now, number + 1)]))
        elif kind == "value":
            state.update(number)
            entries = {0: (self.now, number)}
        else:
            state.add(number)
            entries = {0: (self.now, number + sum(value for _, value in entries.values()))}
        self.model[name][key] = entries

    def live(self, entries: dict[Any, Pair]) -> dict[Any, Pair]:
        return {place: pair for place, pair in entries.items() if pair[0] + TTL > self.now}

    def shown(self, name: str, key: str) -> Any:
        entries = self.live(self.model[name].get(key, {}))
        if kind_of(name) == "map":
            return {place: value for place, (_, value) in entries.items()}
        return [value for _, value in entries.values()]

    def seen(self, name: str) -> Any:
        state, kind = self.world.states[name], kind_of(name)
        if kind == "map":
            return dict(state.items())
        found = state.value() if kind == "value" else state.get()
        return found if isinstance(found, list) else [] if found is None else [found]

    def check(self) -> None:
        """Outside an epoch it changes nothing; inside one, the epoch is rolled back next."""
        for name in NAMES:
            for key in (*KEYS, *OTHERS):
                self.world.at(key)
                assert self.seen(name) == self.shown(name, key), (name, key)
                if kind_of(name) == "map":
                    assert self.world.states[name].is_empty() == (not self.shown(name, key))

    def seal(self, *, full: bool) -> None:
        self.checkpoint += 1
        base = None if full else self.chain[-1][0]
        file = self.world.file(self.checkpoint, base)
        self.chain = [(self.checkpoint, file)] if full else [*self.chain, (self.checkpoint, file)]
        self.saved = copy.deepcopy(self.model)

    def recover(self) -> None:
        world = self.world.moved([file for _, file in self.chain])
        world.backend.start_from(self.chain[-1][0])
        world.use(*states())
        self.world, self.model = world, copy.deepcopy(self.saved)
        world.backend.ttl.clock.now_ms = self.now
        self.check()

    def let_everything_expire(self) -> None:
        """An idle job: epochs when a sweep is due, until none is."""
        settings = SweepSettings(20, 10)
        for _ in range(200):
            due = self.world.backend.ttl.next_sweep_ms(settings)
            if due is None:
                break
            assert due <= self.now + 2 * TTL
            self.now = max(self.now, due)
            self.world.sweep(self.now, settings)
            self.check()
        assert self.world.stored() == 0


scripts = st.lists(epochs, min_size=1, max_size=10)


@given(scripts)
@settings(max_examples=settings().max_examples // 2)
def test_states_in_memory_with_a_time_to_live_are_as_in_the_model(script: list[Any]) -> None:
    run("hashmap", script)


@given(scripts)
@settings(max_examples=settings().max_examples // 10)
def test_states_on_disk_with_a_time_to_live_are_as_in_the_model(script: list[Any]) -> None:
    run("rocksdb", script)


def run(backend: str, script: list[Any]) -> None:
    simulation = Simulation(backend)
    for step in script:
        simulation.epoch(*step)
    simulation.let_everything_expire()
