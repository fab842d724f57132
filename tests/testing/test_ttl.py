"""Time to live in whole jobs on the harness: expiry by the epoch's time, sweeps of an idle job, crashes, restores."""

from collections.abc import Iterable
from typing import Any

import pytest

from penstock.common import Time, Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor
from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor
from penstock.model.functions import RuntimeContext
from penstock.state.backend.backend_registry import find_backend
from penstock.state.backend.backend_settings import BackendSettings
from penstock.state.ttl.cleanup_scan import DISK_COST
from penstock.state.ttl.rules import SweepSettings
from penstock.testing import CHECKPOINT, CRASH, Advance, Harness
from tests.state.backends import stored_entries

TTL = 10_000
BACKENDS = ["hashmap", "rocksdb"]
"""Every test here runs on each of them."""
chosen = BACKENDS[:1]


@pytest.fixture(autouse=True, params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    chosen[0] = request.param
    return chosen[0]


def budget(entries: int) -> SweepSettings:
    """A sweep that looks at so many entries in a second, wherever they are kept."""
    return SweepSettings(entries * (DISK_COST if chosen[0] == "rocksdb" else 1), interval_ms=1_000)


class Count(KeyedProcessFunction):
    """How often a key was seen since it was forgotten; a negative record only looks."""

    def __init__(
        self,
        ttl_ms: int | None = TTL,
        *,
        on_read: bool = False,
        in_background: bool = True,
        every_record: bool = False,
    ) -> None:
        self.ttl_ms, self.on_read, self.in_background = ttl_ms, on_read, in_background
        self.every_record = every_record

    def open(self, ctx: RuntimeContext) -> None:
        count = ValueStateDescriptor("count", Types.LONG())
        if self.ttl_ms is not None:
            builder = StateTtlConfig.new_builder(Time.milliseconds(self.ttl_ms))
            builder = builder.update_ttl_on_read_and_write() if self.on_read else builder
            builder = builder if self.in_background else builder.disable_cleanup_in_background()
            builder = builder.cleanup_incrementally(5, True) if self.every_record else builder
            count.enable_time_to_live(builder.build())
        self.count = ctx.get_state(count)

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterable[tuple[str, int]]:
        count = self.count.value() or 0
        if value[1] > 0:
            count += value[1]
            self.count.update(count)
        yield value[0], count


def counting(function: KeyedProcessFunction, *, sweep: SweepSettings | None = None, **settings: Any) -> Harness:
    backend = BackendSettings(find_backend(chosen[0])(), ttl_sweep=sweep or SweepSettings())
    return Harness.keyed(function, key=lambda record: record[0], backend=backend, **settings)


def taken_over(first: Harness, function: KeyedProcessFunction, **settings: Any) -> Harness:
    """Another program that goes on from the checkpoint of the first."""
    harness = counting(function, storage=first.storage, clock=first.clock, **settings)
    harness._input.extend(first._input._items)  # what the source holds already
    return harness


def stored(harness: Harness) -> int:
    """Entries in memory, expired or not."""
    subtasks = harness._host.subtasks()
    return sum(stored_entries(backend) for subtask in subtasks for backend in subtask.backends.values())


def one(key: str, number: int = 1) -> tuple[str, int]:
    return key, number


def test_d2_the_time_of_the_epoch_decides() -> None:
    harness = counting(Count(in_background=False))
    harness.feed([one("a"), Advance(TTL - 1), one("a", 0), Advance(1), one("a", 0), one("a")])
    assert harness.output == [("a", 1), ("a", 1), ("a", 0), ("a", 1)]


def test_d6_d13_expiry_goes_on_after_a_crash() -> None:
    harness = counting(Count())
    harness.feed([one("a"), one("b"), CHECKPOINT, Advance(TTL - 1), one("b"), CRASH, one("a", 0)])
    assert harness.state("count", "a") == 1 and harness.state("count", "b") == 2
    harness.feed([Advance(1), one("a", 0), one("b", 0)])
    assert harness.output[-2:] == [("a", 0), ("b", 2)]
    assert harness.state("count", "a") is None and harness.crashes == 1


def test_d6_an_entry_that_expired_while_the_job_was_down_is_gone() -> None:
    harness = counting(Count())
    harness.feed([one("a"), CHECKPOINT])
    harness.clock.advance(TTL)
    harness.crash().feed([one("a", 0)])
    assert harness.output[-1] == ("a", 0) and stored(harness) == 0


def test_d4_a_refresh_behind_the_checkpoint_is_replayed_at_the_time_of_the_replay() -> None:
    harness = counting(Count(on_read=True))
    harness.feed([one("a"), CHECKPOINT, Advance(TTL - 1), one("a", 0), CRASH, Advance(TTL - 1), one("a", 0)])
    assert harness.output[-1] == ("a", 1)


def test_d13_a_job_taken_over_with_another_time_to_live_follows_the_new_one() -> None:
    first = counting(Count(TTL)).feed([one("a"), CHECKPOINT])
    longer = taken_over(first, Count(5 * TTL)).feed([Advance(4 * TTL), one("a", 0), CHECKPOINT])
    assert longer.output == [("a", 1)]
    shorter = taken_over(longer, Count(TTL)).feed([one("a", 0)])
    assert shorter.output == [("a", 0)]


def test_d14_ttl_is_switched_on_off_and_on_over_restores() -> None:
    plain = counting(Count(None)).feed([one("a"), one("b"), CHECKPOINT])
    plain.clock.advance(100 * TTL)
    with_ttl = taken_over(plain, Count(on_read=True))
    with_ttl.feed([one("a", 0), CHECKPOINT, Advance(TTL - 1), CHECKPOINT, CRASH])
    assert with_ttl.output == [("a", 1)] and with_ttl.state("count", "a") == 1
    with_ttl.feed([Advance(1), one("a", 0), one("b", 0), CHECKPOINT])
    assert with_ttl.output[-2:] == [("a", 0), ("b", 1)]
    without = taken_over(with_ttl, Count(None)).feed([Advance(100 * TTL), one("b"), CHECKPOINT, CRASH])
    assert without.output == [("b", 2)]
    again = taken_over(without, Count()).feed([one("b"), Advance(TTL), one("b", 0)])
    assert again.output == [("b", 3), ("b", 0)]


def test_d14_the_change_survives_deltas_and_a_change_of_parallelism() -> None:
    keys = [f"key {number}" for number in range(200)]
    plain = counting(Count(None), max_parallelism=8).feed([*map(one, keys), CHECKPOINT])
    with_ttl = taken_over(plain, Count(), max_parallelism=8, parallelism=3)
    with_ttl.feed([*map(one, keys[:10]), CHECKPOINT, *map(one, keys[:2]), CHECKPOINT, CRASH])
    wider = taken_over(with_ttl, Count(), max_parallelism=8, parallelism=4).feed([Advance(TTL)])
    assert [wider.state("count", key) for key in (keys[0], keys[9], keys[10])] == [None, None, 1]
    assert stored(wider) == 190  # what was never written since has no stamp


class Ignoring(Count):
    """Leaves its state alone for records without a number."""

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterable[tuple[str, int]]:
        return super().process_element(value, ctx) if value[1] else ()


def test_d10_records_clean_up_even_if_they_touch_no_state() -> None:
    keys = [f"key {number}" for number in range(30)]
    checked = 10 if chosen[0] == "hashmap" else 0  # on disk accesses do not clean up
    for function, left in ((Ignoring(every_record=True), 30 - checked), (Ignoring(), 30)):
        harness = counting(function, sweep=SweepSettings(entries=0)).feed([*map(one, keys), Advance(TTL)])
        assert stored(harness) == 30
        assert stored(harness.feed([one("other", 0), one("another", 0)])) == left


# Sweeps


def test_an_idle_job_forgets_keys_that_nobody_reads_within_the_bound() -> None:
    keys = [f"key {number}" for number in range(100)]
    harness = counting(Count(), sweep=budget(40)).feed([*map(one, keys), CHECKPOINT])
    harness.clock.advance(TTL - 1)
    harness.feed([])
    assert stored(harness) == 100 and not harness._book.timers_due()
    for passed, left in ((1, 60), (999, 60), (1, 20), (1_000, 0)):
        harness.clock.advance(passed)
        harness.feed([])  # nothing but time: an empty epoch if one is due
        assert stored(harness) == left
    epoch = harness._book.epoch
    harness.clock.advance(100 * TTL)
    harness.feed([])
    assert harness._book.epoch == epoch  # with nothing left to expire the job sleeps


def test_a_job_without_a_time_to_live_runs_no_epoch_for_it() -> None:
    harness = counting(Count(None)).feed([one("a")])
    epoch = harness._book.epoch
    harness.clock.advance(10**9)
    assert harness.feed([])._book.epoch == epoch


def test_d12_without_cleanup_in_background_an_idle_job_sleeps_and_keeps_its_keys() -> None:
    harness = counting(Count(in_background=False)).feed([one("a")])
    epoch = harness._book.epoch
    harness.clock.advance(10 * TTL)
    harness.feed([])
    assert harness._book.epoch == epoch and stored(harness) == 1


def test_swept_keys_do_not_come_back_after_a_crash() -> None:
    keys = [f"key {number}" for number in range(100)]
    harness = counting(Count(), sweep=budget(40), parallelism=2).feed([*map(one, keys), CHECKPOINT])
    harness.feed([Advance(TTL), CHECKPOINT, Advance(1_000), CHECKPOINT])
    left = stored(harness)
    assert left < 100
    harness.crash()
    assert stored(harness) <= left
    harness.feed([Advance(1_000), Advance(1_000), Advance(1_000)])
    assert stored(harness) == 0


def test_a_crash_before_the_checkpoint_brings_swept_keys_back_and_sweeps_them_again() -> None:
    keys = [f"key {number}" for number in range(30)]
    harness = counting(Count(), sweep=budget(40)).feed([*map(one, keys), CHECKPOINT, Advance(TTL)])
    assert stored(harness) == 0
    harness.crash()
    assert stored(harness) == 0  # the first epoch after the restore is one for the sweep
    assert harness.state("count", keys[0]) is None


def test_lost_tasks_undo_and_repeat_what_their_epoch_swept() -> None:
    keys = [f"key {number}" for number in range(30)]
    harness = counting(Count(), sweep=budget(40), lost_after=lambda tries: 1 if tries < 2 else None)
    harness.feed([*map(one, keys), Advance(TTL), one("a"), Advance(1_000), CHECKPOINT, CRASH])
    assert harness.lost_tasks > 0 and stored(harness) == 1 and harness.state("count", "a") == 1


class Several(KeyedProcessFunction):
    """List and map with a time to live, beside a value without."""

    def open(self, ctx: RuntimeContext) -> None:
        config = StateTtlConfig.new_builder(Time.milliseconds(TTL)).build()
        elements, entries = ListStateDescriptor("list", Types.LONG()), MapStateDescriptor("map")
        elements.enable_time_to_live(config)
        entries.enable_time_to_live(config)
        self.list, self.map = ctx.get_list_state(elements), ctx.get_map_state(entries)
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterable[Any]:
        self.list.add(value[1])
        self.map[value[1]] = True
        self.total.update((self.total.value() or 0) + value[1])
        yield value


def test_d1_elements_and_map_entries_expire_apart_over_a_crash() -> None:
    harness = counting(Several(), sweep=budget(40))
    harness.feed([one("a", 1), Advance(6_000), one("a", 2), CHECKPOINT, CRASH, Advance(4_000)])
    assert harness.state("list", "a") == [2] and harness.state("map", "a") == {2: True}
    assert harness.state("total", "a") == 3
    harness.feed([Advance(6_000), CHECKPOINT, CRASH])
    assert (harness.state("list", "a"), harness.state("map", "a"), harness.state("total", "a")) == ([], {}, 3)
    assert stored(harness) == 1


def test_a_wall_clock_that_jumps_back_forgets_nothing_early() -> None:
    harness = counting(Count()).feed([one("a"), CHECKPOINT])
    start = harness.clock.now_ms()
    harness.clock.set_wall(start - 10**9)
    harness.crash().feed([one("b"), one("a", 0)])
    assert harness.output[-1] == ("a", 1)
    harness.clock.set_wall(start + TTL)
    harness.feed([one("a", 0), one("b", 0)])
    assert harness.output[-2:] == [("a", 0), ("b", 0)]  # "b" was written at the epoch's time, which did not go back
