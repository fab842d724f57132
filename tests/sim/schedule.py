"""One fault schedule, made from a seed and run in the harness: records, checkpoints, crashes, rescales, power cuts.

A schedule is a list of lives. Each is a harness of its own parallelism on the same storage and clock, fed with the same
replayable input from its beginning; the next life takes the job over as another driver would. Everything is drawn from
`random.Random(seed)`, so a seed is a schedule.
"""

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from penstock import failpoint
from penstock.failpoint import Failpoint
from penstock.graph.job_graph import JobGraph
from penstock.model import ids
from penstock.runtime.snapshots import snapshot_chain, snapshot_writer
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.rocksdb.rocksdb_spec import RocksDBSpec
from penstock.testing import CHECKPOINT, CRASH, Advance, Harness, ManualClock, Watermark
from penstock.testing.harness_options import HarnessOptions
from tests.sim.invariants import Watch
from tests.sim.job import LAST_DUE_MS, Event, Sinks, difference, expected, found, large_graph, make_events, small_graph
from tests.sim.outcome import Outcome
from tests.sim.patches import SeededSecrets
from tests.sim.profile import PLACES

OFTEN = {"C3": 60, "C4": 20, "C5": 20, "C6": 40, "C7": 40, "C9": 40, "C10": 40, "C11": 60, "C12": 12, "C25": 6}
OFTEN |= {"C1": 3, "C2": 3, "C8": 20, "C13": 80, "C14": 80, "C15": 80, "C16": 20, "C31": 40, "C20": 8, "C23": 20}
"""How often a point is passed in one schedule, about; the others a few times."""


MAX_LOSSES = 3
"""Of one task; Spark gives up after the fourth."""
MAX_ATTEMPT_LOSSES = 20
"""In all, where each lost task ends the attempt: else some schedules would never come to their end."""


@dataclass(frozen=True)
class Schedule:
    """What happens. `items` are of one life, and begin with those of the life before."""

    seed: int
    events: list[Event]
    lives: list[tuple[int, list[Any]]]
    """Parallelism, and the whole input up to the life's end."""
    faults: list[Failpoint]
    inline_limit_bytes: int
    max_deltas: int
    power_cuts: bool
    lost_tasks: float
    """Share of the tasks that are lost in the middle and tried again."""
    large: bool
    """Three stages instead of one."""
    union: bool
    """With union list state, whose subtasks cannot go on after a lost task."""

    @property
    def marks(self) -> set[str]:
        """The kinds of runs of the harness that this one belongs to."""
        names = ("power_cuts", "large", "union")
        backends = {backend_of(self.seed, life).kind for life in range(len(self.lives))}
        return {f"harness {name}" for name in names if getattr(self, name)} | {f"harness {kind}" for kind in backends}

    def graph(self, parallelism: int, sinks: Sinks) -> JobGraph:
        """The job, at this parallelism."""
        return (large_graph if self.large else small_graph)(parallelism, sinks, union=self.union)


def make_schedule(seed: int) -> Schedule:
    """The schedule of a seed."""
    chance = random.Random(seed)
    events = make_events(chance, chance.randrange(5, 30))
    items: list[Any] = []
    lives = []
    for life in range(chance.choice((1, 1, 2, 3))):
        share = events[len([i for i in items if isinstance(i, Event)]) :]
        taken = share if life == 2 else share[: chance.randrange(len(share) + 1)]
        items = items + list(_with_control_items(chance, taken))
        lives.append((chance.randrange(1, 4), items))
    last = events[len([i for i in items if isinstance(i, Event)]) :]
    lives[-1] = (lives[-1][0], items + list(_with_control_items(chance, last)))
    faults = [_fault(chance) for _ in range(chance.choice((0, 1, 2, 3, 5)))]
    return Schedule(
        seed,
        events,
        lives,
        faults,
        inline_limit_bytes=chance.choice((0, 0, snapshot_writer.INLINE_LIMIT_BYTES)),
        max_deltas=chance.choice((1, 3, snapshot_chain.MAX_DELTAS)),
        power_cuts=chance.random() < 0.3,
        lost_tasks=chance.choice((0.0, 0.1, 0.4)),
        large=chance.random() < 0.5,
        union=chance.random() < 0.2,
    )


def _with_control_items(chance: random.Random, events: list[Event]) -> Iterator[Any]:
    for event in events:
        while chance.random() < 0.3:
            yield chance.choice(
                (CHECKPOINT, CHECKPOINT, CRASH, Watermark(chance.randrange(0, 250)), Advance(chance.randrange(1, 400)))
            )
        yield event


def _fault(chance: random.Random) -> Failpoint:
    place = chance.choice(PLACES)
    return Failpoint(place, "raise", hit=chance.randrange(1, OFTEN.get(place.partition(".")[0], 3) + 1))


def backend_of(seed: int, life: int) -> BackendSettings:
    """Each life of a job may have another backend. RocksDB seldom: to open one takes longer than a whole life."""
    chance = random.Random(f"backend {seed} {life}").random()
    share = float(os.environ.get("PENSTOCK_SIM_ROCKSDB", "0.06"))
    if chance >= share:
        return BackendSettings()
    return BackendSettings(RocksDBSpec(memory_bytes=8 << 20, transfer_threads=1), incremental=chance < share * 0.7)


def run_schedule(seed: int) -> Outcome:
    """Run the schedule of a seed; AssertionError if an event is lost or counted twice, or an invariant is broken."""
    schedule = make_schedule(seed)
    watch, sinks, clock = Watch(), Sinks(), ManualClock()
    stores = (sinks.rows.store, sinks.buckets.store)
    outcome = Outcome()

    def crashed() -> None:
        if schedule.power_cuts:
            watch.power_cut()
        watch.check_committed(stores)

    losing = random.Random(f"lost tasks of {seed}")

    left = MAX_ATTEMPT_LOSSES if schedule.union else 1_000_000

    def lost_after(tries: int) -> int | None:
        nonlocal left
        if tries >= MAX_LOSSES or not left or losing.random() >= schedule.lost_tasks:
            return None
        left -= 1
        return losing.randrange(4)

    limits = snapshot_limits(schedule.inline_limit_bytes, schedule.max_deltas)
    with limits, armed(schedule.faults), seeded_names(seed):
        for number, (parallelism, items) in enumerate(schedule.lives):
            backend = backend_of(seed, number)
            options = HarnessOptions(seed + number, clock, watch.storage, crashed, lost_after, backend)
            harness = Harness(schedule.graph(parallelism, sinks), options).feed(items)
            if items is schedule.lives[-1][1]:
                harness.feed([Advance(LAST_DUE_MS)]).finish()
            outcome.attempts += harness.crashes + 1
            outcome.faults["crash"] += harness.crashes
            outcome.faults["lost task"] += harness.lost_tasks
    outcome.hits.update({fault.place for fault in schedule.faults if fault.seen >= fault.hit})
    outcome.faults += Counter()
    outcome.marks = {f"harness {name}" for name in (*outcome.hits, *outcome.faults)} | schedule.marks
    outcome.checkpoints = len(watch.completed)
    outcome.trace = watch.trace
    wrong = difference(found(harness, sinks), expected(schedule.events, large=schedule.large, union=schedule.union))
    assert not wrong, "\n".join(wrong)
    _check_quiet_end(schedule, watch, sinks, clock)
    return outcome


def _check_quiet_end(schedule: Schedule, watch: Watch, sinks: Sinks, clock: ManualClock) -> None:
    """A life without faults finishes what the last crash may have left, and changes nothing that can be seen."""
    stores = (sinks.rows.store, sinks.buckets.store)
    rows = [list(store.rows) for store in stores]
    Harness(schedule.graph(1, sinks), HarnessOptions(None, clock, watch.storage)).finish()
    assert [list(store.rows) for store in stores] == rows
    watch.check_end(stores)


@contextmanager
def armed(faults: list[Failpoint]) -> Iterator[None]:
    """The block with these failpoints, and none after it."""
    failpoint.arm(*faults)
    try:
        yield
    finally:
        failpoint.disarm()


@contextmanager
def seeded_names(seed: int) -> Iterator[None]:
    """The block with names and tokens that only the seed decides."""
    saved = vars(ids)["secrets"]
    vars(ids)["secrets"] = SeededSecrets(seed)
    try:
        yield
    finally:
        vars(ids)["secrets"] = saved


@contextmanager
def snapshot_limits(inline_limit_bytes: int, max_deltas: int) -> Iterator[None]:
    """The block with small snapshot files, so that little state makes real files and long chains."""
    saved = snapshot_writer.INLINE_LIMIT_BYTES, snapshot_chain.MAX_DELTAS
    snapshot_writer.INLINE_LIMIT_BYTES, snapshot_chain.MAX_DELTAS = inline_limit_bytes, max_deltas
    try:
        yield
    finally:
        snapshot_writer.INLINE_LIMIT_BYTES, snapshot_chain.MAX_DELTAS = saved
