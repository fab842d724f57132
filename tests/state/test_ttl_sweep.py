"""The timed sweep over states with a time to live: its budget, its bound, and what undoes it."""

import pytest

from penstock.state.format.snapshot_file import encode_snapshot, row_count
from penstock.state.ttl.rules import SweepSettings
from tests.state.backends import seal
from tests.state.ttl import (
    EVERYTHING,
    T0,
    TAKES_BACK_FINISHED,
    TTL,
    World,
    every_kind,
    expiring,
    on_every_backend,
    read,
    write,
)

KEYS = [f"key {number}" for number in range(1_000)]


@on_every_backend
def test_a_sweep_visits_its_budget_of_entries_and_returns_when_it_continues(backend: str) -> None:
    world = World(backend, expiring("value"))
    ttl = world.backend.ttl
    assert ttl.next_sweep_ms(world.budget(300)) is None  # nothing was ever written
    world.fill(T0, KEYS)
    assert ttl.next_sweep_ms(world.budget(300)) == T0 + TTL
    for step, left in enumerate([700, 400, 100, 0]):
        world.sweep(T0 + TTL + 1_000 * step, world.budget(300))
        assert world.stored() == left
        assert ttl.next_sweep_ms(world.budget(300)) == (T0 + TTL + 1_000 * (step + 1) if left else None)
        world.sweep(T0 + TTL + 1_000 * step + 999, world.budget(300))  # not its turn yet
        assert world.stored() == left


@on_every_backend
def test_a_sweep_counts_the_entries_of_maps_and_lists(backend: str) -> None:
    for kind in ("list", "map"):
        world = World(backend, expiring(kind))
        with world.epoch(T0):
            for key in KEYS[:8]:
                for number in range(100):
                    write(world.at(key), number, str(number))
        world.sweep(T0 + TTL, world.budget(300))
        rest = [key for key in KEYS[:8] if _raw_count(world, key)]
        assert len(rest) == 4  # of 800 entries about 300 were seen
        world.sweep(T0 + TTL + 1_000, world.budget(100))
        assert len([key for key in rest if _raw_count(world, key)]) == 3


def _raw_count(world: World, key: str) -> int:
    """Entries of a key, expired or not."""
    clock = world.backend.ttl.clock
    before, clock.now_ms = clock.now_ms, T0
    count = len(read(world.at(key)))
    clock.now_ms = before
    return count


@on_every_backend
def test_a_sweep_waits_for_the_first_entry_that_can_expire(backend: str) -> None:
    world = World(backend, expiring("value", ttl_ms=100_000))
    ttl = world.backend.ttl
    world.fill(T0, ["old"])
    world.fill(T0 + 60_000, ["young"])
    assert ttl.next_sweep_ms(world.budget(300)) == T0 + 100_000
    world.sweep(T0 + 100_000, world.budget(300))
    assert world.stored() == 1
    assert ttl.next_sweep_ms(world.budget(300)) == T0 + 160_000
    world.sweep(T0 + 160_000, world.budget(300))
    assert world.stored() == 0 and ttl.next_sweep_ms(world.budget(300)) is None
    world.fill(T0 + 200_000, ["new"])
    assert ttl.next_sweep_ms(world.budget(300)) == T0 + 300_000


@on_every_backend
def test_passes_are_a_tenth_of_the_time_to_live_apart(backend: str) -> None:
    world = World(backend, expiring("value", ttl_ms=100_000))
    for second in range(20):
        world.fill(T0 + 1_000 * second, [f"key {second}"])
    world.sweep(T0 + 100_000, world.budget(300))
    assert world.stored() == 19
    assert (
        world.backend.ttl.next_sweep_ms(world.budget(300)) == T0 + 110_000
    )  # not T0 + 101_000, when the next one expires
    world.sweep(T0 + 110_000, world.budget(300))
    assert world.stored() == 9


@on_every_backend
@every_kind
def test_every_expired_entry_is_removed_within_the_bound(backend: str, kind: str) -> None:
    """The bound of the docs: a tenth of the time to live, the interval, and twice the length of a pass."""
    world = World(backend, expiring(kind, ttl_ms=20_000))
    settings = world.budget(10, 500)
    written: dict[str, int] = {}
    now = T0
    for step in range(400):
        now += 250
        with world.epoch(now):
            if step < 200 and step % 2:
                key = f"key {step % 80}"
                write(world.at(key), 1)
                written[key] = now
            world.backend.ttl.sweep(settings)
        bound = max(500, 20_000 // 10) + 500 + 2 * 500 * (len(written) // 10) + 250
        for key, stamp in list(written.items()):
            if stamp + 20_000 + bound <= now:
                assert not _raw_count(world, key), (key, now - stamp)
                del written[key]
    assert not written and world.stored() == 0 and world.backend.ttl.next_sweep_ms(settings) is None


@on_every_backend
def test_sweeps_that_are_due_in_one_interval_are_due_together(backend: str) -> None:
    worlds = [World(backend, expiring("value")) for _ in range(3)]
    settings = worlds[0].budget(10)
    for number, world in enumerate(worlds):
        world.fill(T0 + 1 + 300 * number, KEYS[:30])
        assert world.backend.ttl.next_sweep_ms(settings) == T0 + TTL + 1_000
    for number, world in enumerate(worlds):  # subtasks see the same time; a job that is never idle sees any
        world.sweep(T0 + TTL + 1_000 + 300 * number, settings)
        assert world.backend.ttl.next_sweep_ms(settings) == T0 + TTL + 2_000


@on_every_backend
def test_what_an_epoch_wrote_before_it_swept_is_swept_later(backend: str) -> None:
    world = World(backend, expiring("value"))
    world.fill(T0, KEYS[:3])
    with world.epoch(T0 + TTL):
        world.at("new").update(1)
        world.backend.ttl.sweep(EVERYTHING)
    assert world.stored() == 1 and world.backend.ttl.next_sweep_ms(EVERYTHING) == T0 + 2 * TTL
    world.sweep(T0 + 2 * TTL)
    assert world.stored() == 0 and world.backend.ttl.next_sweep_ms(EVERYTHING) is None


@on_every_backend
def test_the_sweep_can_be_switched_off_for_the_job(backend: str) -> None:
    world = World(backend, expiring("value"))
    off = SweepSettings(entries=0)
    world.fill(T0, KEYS)
    world.sweep(T0 + TTL, off)
    assert world.stored() == 1_000 and world.backend.ttl.next_sweep_ms(off) is None


@on_every_backend
def test_entries_refreshed_or_written_during_a_pass_are_visited_by_the_next(backend: str) -> None:
    world = World(backend, expiring("value", lambda b: b.update_ttl_on_read_and_write()))
    world.fill(T0, KEYS)
    world.sweep(T0 + TTL - 1, world.budget(300))  # not due
    with world.epoch(T0 + TTL - 1):
        assert world.at(KEYS[0]).value() == 1
    world.sweep(T0 + TTL, world.budget(300))
    world.fill(T0 + TTL + 500, ["new"])
    for step in range(1, 4):
        world.sweep(T0 + TTL + 1_000 * step, world.budget(300))
    assert world.stored() == 2
    due = world.backend.ttl.next_sweep_ms(world.budget(300))
    assert due is not None and due <= T0 + 2 * TTL + 500
    for now in range(due, T0 + 2 * TTL + 3_000, 500):
        world.sweep(now, world.budget(300))
    assert world.stored() == 0


@on_every_backend
@every_kind
def test_d7_what_may_still_be_returned_is_swept_after_a_second_time_to_live(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind, lambda b: b.return_expired_if_not_cleaned_up()))
    world.fill(T0, ["a", "b"], 5)
    assert world.backend.ttl.next_sweep_ms(EVERYTHING) == T0 + 2 * TTL
    world.sweep(T0 + 2 * TTL - 1)
    with world.epoch(T0 + 2 * TTL - 1):
        assert read(world.at("a")) == [5]
        assert read(world.at("a")) == []
    assert world.stored() == 1
    world.sweep(T0 + 2 * TTL)
    assert world.stored() == 0


@on_every_backend
@every_kind
def test_keys_after_returns_every_key_that_stays_exactly_once(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind))
    for number in range(3):  # several entries, and on disk several rows, for a key
        with world.epoch(T0):
            for key in KEYS[:50]:
                write(world.at(key), number, str(number))
    pages, cursor = [], None
    for step in range(100):
        page, cursor = world.backend.keys_after("state", cursor, 7)
        assert len(page) <= 7
        pages.append(page)
        if cursor is None:
            break
        with world.epoch(T0):
            world.at(KEYS[step]).clear()
            write(world.at(f"new {step}"), 1)
    given = [key for page in pages for key in page]
    gone = set(KEYS[:step])
    assert cursor is None and step >= 50 // 7
    assert sorted(key for key in given if key in KEYS and key not in gone) == sorted(set(KEYS[:50]) - gone)
    assert len(given) == len(set(given))
    assert world.backend.keys_after("state", None, 10**6)[1] is None


# What undoes it


class BrokenError(Exception):
    """Ends an epoch."""


@on_every_backend
@every_kind
def test_removals_and_refreshes_are_undone_with_their_epoch(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind, lambda b: b.update_ttl_on_read_and_write()))
    world.fill(T0, ["a", "b"], 5)
    with pytest.raises(BrokenError), world.epoch(T0 + TTL - 1):
        assert read(world.at("a")) == [5]
        raise BrokenError
    with pytest.raises(BrokenError), world.epoch(T0 + TTL):
        assert read(world.at("a")) == []  # the refresh was undone
        world.backend.ttl.sweep(EVERYTHING)
        assert _raw_count(world, "b") == 0
        raise BrokenError
    assert world.stored() == 2
    with world.epoch(T0 + TTL - 1):
        assert read(world.at("a")) == [5] == read(world.at("b"))


@on_every_backend
def test_an_undone_sweep_is_repeated(backend: str) -> None:
    world = World(backend, expiring("value"))
    world.fill(T0, KEYS)
    for _ in range(2):
        with pytest.raises(BrokenError), world.epoch(T0 + TTL):
            world.backend.ttl.sweep(EVERYTHING)
            raise BrokenError
        assert world.backend.ttl.take_swept() == []
    world.sweep(T0 + TTL)
    assert world.stored() == 0


@pytest.mark.parametrize("backend", sorted(TAKES_BACK_FINISHED))
def test_a_sweep_of_an_undone_finished_epoch_is_repeated(backend: str) -> None:
    world = World(backend, expiring("value"))
    world.fill(T0 + TTL, KEYS)
    world.sweep(T0 + 2 * TTL, world.budget(300))
    assert world.stored() == 700
    world.backend.roll_back()
    assert world.stored() == 1_000
    world.sweep(T0 + 2 * TTL)
    assert world.stored() == 0


@on_every_backend
@every_kind
def test_what_a_sweep_removed_is_deleted_in_the_next_delta(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind))
    world.fill(T0, KEYS[:20])
    world.fill(T0 + 5, KEYS[20:300])
    full = world.file(1)
    world.sweep(T0 + TTL)
    assert world.stored() == 280
    delta = world.file(2, base=1)
    assert row_count(delta) == (280 if world.backend.on_disk else 20)  # on disk it is RocksDB that knows what changed
    restored = world.moved([full, delta], expiring(kind, ttl_ms=100 * TTL))
    assert restored.stored() == 280
    with restored.epoch(T0 + TTL):
        assert read(restored.at(KEYS[0])) == [] and read(restored.at(KEYS[20])) in ([1], [1.0])


@on_every_backend
def test_a_sweep_leaves_an_older_seal_alone(backend: str) -> None:
    for kind in ("value", "list", "map"):
        world = World(backend, expiring(kind))
        world.fill(T0, KEYS)
        sealed = seal(world.backend, 1)
        world.sweep(T0 + TTL)
        assert row_count(encode_snapshot([sealed])) == 1_000 and world.stored() == 0


@on_every_backend
def test_the_current_key_survives_the_cleanup_of_an_access(backend: str) -> None:
    world = World(backend, expiring("value"))
    world.fill(T0, KEYS)
    with world.epoch(T0 + TTL):
        world.at("mine").update(7)
        assert world.at("mine").value() == 7
        world.backend.ttl.sweep(EVERYTHING)
        assert world.state is not None and world.state.value() == 7
    assert world.stored() == 1
