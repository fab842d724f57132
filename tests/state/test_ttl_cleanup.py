"""How expired entries go without being read: rows D9 to D12 of the features, the timed sweep, and what undoes it."""

from functools import partial
from typing import Any

import pytest

from penstock.model.ttl import StateTtlConfig
from penstock.state.snapshot_file import encode_snapshot, row_count
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
    unattended,
    write,
)

KEYS = [f"key {number}" for number in range(1_000)]
IN_MEMORY = ["hashmap"]
"""Backends on which accesses clean up (D10)."""


def in_snapshots(builder: StateTtlConfig.Builder) -> StateTtlConfig.Builder:
    return builder.cleanup_full_snapshot().disable_cleanup_in_background()


def three_per_access(builder: StateTtlConfig.Builder, *, every_record: bool) -> StateTtlConfig.Builder:
    return builder.cleanup_incrementally(3, every_record)


@on_every_backend
@every_kind
def test_d9_full_snapshots_leave_expired_entries_out(backend: str, kind: str) -> None:
    for configure, expected in ((in_snapshots, 1), (unattended, 3)):
        world = World(backend, expiring(kind, configure))
        world.fill(T0, ["a", "b"], 5)
        world.fill(T0 + 1, ["c"], 5)
        before = world.file(1)
        world.sweep(T0 + TTL)
        after = world.file(2)
        assert (row_count(before), row_count(after), world.stored()) == (3, expected, 3)
        restored = world.moved([after], expiring(kind, ttl_ms=TTL + 1))
        with restored.epoch(T0 + TTL):
            assert [len(read(restored.at(key))) for key in "abc"] == [int(expected == 3)] * 2 + [1]


@on_every_backend
def test_d9_expired_list_elements_are_left_out_one_by_one(backend: str) -> None:
    world = World(backend, expiring("list", in_snapshots))
    world.fill(T0, ["a", "b"], 1)
    world.fill(T0 + 1, ["a"], 2)
    world.sweep(T0 + TTL)
    restored = world.moved([world.file()], expiring("list", ttl_ms=10 * TTL))
    with restored.epoch(T0 + TTL):
        assert restored.at("a").get() == [2] and restored.stored() == 1


@on_every_backend
def test_d9_a_delta_on_a_snapshot_without_expired_entries_is_whole(backend: str) -> None:
    world = World(backend, expiring("value", in_snapshots))
    world.fill(T0, KEYS)
    world.sweep(T0 + TTL)
    full = world.file(1)
    world.fill(T0 + TTL, KEYS[:3], 2)  # these had been left out
    with world.epoch(T0 + TTL + 1):
        assert world.at(KEYS[4]).value() is None  # removed, although the base does not have it
    restored = world.moved([full, world.file(2, base=1)], expiring("value"))
    assert restored.stored() == 3
    with restored.epoch(T0 + TTL + 1):
        assert [restored.at(key).value() for key in KEYS[:5]] == [2, 2, 2, None, None]


@pytest.mark.parametrize("backend", IN_MEMORY)
@every_kind
def test_d10_accesses_of_one_key_clean_up_all_others(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind, lambda b: b.cleanup_incrementally(5, False)))
    world.fill(T0, KEYS)
    with world.epoch(T0 + TTL):
        for _ in range(199):
            read(world.at("other"))
        assert world.stored() == 5
        read(world.at("other"))
        assert world.stored() == 0


@pytest.mark.parametrize("backend", IN_MEMORY)
def test_d10_five_entries_per_access_are_the_default_and_writes_count(backend: str) -> None:
    world = World(backend, expiring("value"))
    world.fill(T0, KEYS)
    with world.epoch(T0 + TTL):
        for _ in range(100):
            world.at("other").update(1)
    assert world.stored() == 501


@pytest.mark.parametrize("backend", IN_MEMORY)
def test_d10_without_an_access_or_a_sweep_nothing_goes(backend: str) -> None:
    world = World(backend, expiring("value", lambda b: b.cleanup_incrementally(5, True)))
    world.fill(T0, KEYS)
    with world.epoch(T0 + TTL):
        pass
    assert world.stored() == 1_000


@pytest.mark.parametrize("backend", IN_MEMORY)
def test_d10_records_count_as_accesses_where_that_is_asked_for(backend: str) -> None:
    for every_record, left in ((True, 400), (False, 1_000)):
        world = World(backend, expiring("value", partial(three_per_access, every_record=every_record)))
        world.fill(T0, KEYS)
        with world.epoch(T0 + TTL):
            world.backend.ttl.after_records(200)
        assert world.stored() == left


@pytest.mark.parametrize("backend", IN_MEMORY)
def test_d10_live_entries_are_looked_at_once_per_epoch_at_most(backend: str) -> None:
    world = World(backend, expiring("value"))
    world.fill(T0, KEYS[:10])
    asked = []
    scan = world.backend.ttl._scans["state"]
    keys_after = scan._keys_after

    def counted(*arguments: Any) -> Any:
        asked.append(arguments)
        return keys_after(*arguments)

    scan._keys_after = counted
    for now in (T0 + 1, T0 + TTL - 1):
        with world.epoch(now):
            for _ in range(50):
                world.at("key 0").value()
    assert not asked  # nothing can have expired yet
    with world.epoch(T0 + TTL):
        for _ in range(50):
            world.at("key 0").value()
    assert len(asked) == 2  # ten keys, five at a time, and then it is known that none is left


@pytest.mark.parametrize("backend", IN_MEMORY)
def test_d10_a_pass_over_several_epochs_is_followed_by_another(backend: str) -> None:
    world = World(backend, expiring("value"))
    world.fill(T0, KEYS[:100])
    world.fill(T0 + 1, KEYS[:50])
    with world.epoch(T0 + TTL):  # looks at the younger half, which has not expired
        for _ in range(10):
            world.at("other").value()
    assert world.stored() == 100
    with world.epoch(T0 + TTL + 1):
        for _ in range(10):
            world.at("other").value()
        assert world.stored() == 50  # the older half: the end of the pass
        for _ in range(10):
            world.at("other").value()
    assert world.stored() == 0


@on_every_backend
@every_kind
def test_d11_a_sweep_removes_what_nobody_reads(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind, lambda b: b.cleanup_in_rocksdb_compact_filter(1_000)))
    world.fill(T0, KEYS)
    world.sweep(T0 + TTL - 1)
    assert world.stored() == 1_000 and world.backend.ttl.take_swept() == []
    world.sweep(T0 + TTL)
    assert world.stored() == 0
    if not world.backend.on_disk:  # one that is has asked, and has given the space back
        assert world.backend.ttl.take_swept() == ["state"]
    assert world.backend.ttl.take_swept() == []


def test_d11_the_files_of_swept_entries_shrink_without_any_read() -> None:
    world = World("rocksdb", expiring("value"))
    world.fill(T0, KEYS)
    world.fill(T0 + 1, ["lives on"])
    world.backend.compact("state")  # everything is in files now
    before = world.backend.stored_bytes("state")
    world.sweep(T0 + TTL)
    world.backend._compaction.wait()
    assert world.backend.stored_bytes("state") < before / 3 and world.stored() == 1


def test_d11_a_backend_is_closed_while_it_compacts() -> None:
    for kind in ("value", "list", "map"):
        world = World("rocksdb", expiring(kind))
        world.fill(T0, KEYS)
        world.sweep(T0 + TTL)
        world.fill(T0 + TTL, KEYS)
        world.backend._store.cancel_compaction()  # as if one were under way
        folder = world.backend._folder
        world.backend.close()
        world.backend._compaction.wait()
        assert not folder.exists()


@on_every_backend
def test_d11_a_pass_that_removes_little_asks_for_no_compaction(backend: str) -> None:
    world = World(backend, expiring("value"))
    world.fill(T0, KEYS[:9])
    world.fill(T0 + 1, KEYS[9:100])
    asked: list[str] = []
    world.backend.compact = asked.append
    world.sweep(T0 + TTL)
    assert world.stored() == 91 and world.backend.ttl.take_swept() == [] and not asked


@on_every_backend
@every_kind
def test_d12_with_cleanup_in_background_off_unread_entries_stay(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind, unattended))
    world.fill(T0, KEYS)
    assert world.backend.ttl.next_sweep_ms(EVERYTHING) is None
    world.sweep(T0 + 10 * TTL)
    with world.epoch(T0 + 10 * TTL):
        for _ in range(1_000):
            read(world.at("other"))
        world.backend.ttl.after_records(1_000)
    assert world.stored() == 1_000


@pytest.mark.parametrize("backend", IN_MEMORY)
def test_d12_what_was_asked_for_stays_on(backend: str) -> None:
    world = World(
        backend, expiring("value", lambda b: b.cleanup_incrementally(10, False).disable_cleanup_in_background())
    )
    world.fill(T0, KEYS)
    world.sweep(T0 + TTL)
    assert world.stored() == 1_000
    with world.epoch(T0 + TTL):
        for _ in range(100):
            world.at("other").value()
    assert world.stored() == 0


# The timed sweep


@on_every_backend
def test_a_sweep_looks_at_its_budget_of_entries_and_says_when_it_goes_on(backend: str) -> None:
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
def test_every_expired_entry_goes_within_the_bound(backend: str, kind: str) -> None:
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
def test_entries_that_are_prolonged_or_written_during_a_pass_are_met_by_the_next(backend: str) -> None:
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
def test_d7_what_may_be_shown_is_swept_after_a_second_time_to_live(backend: str, kind: str) -> None:
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
def test_keys_after_gives_every_key_that_stays_exactly_once(backend: str, kind: str) -> None:
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
def test_removal_and_prolonging_are_taken_back_with_their_epoch(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind, lambda b: b.update_ttl_on_read_and_write()))
    world.fill(T0, ["a", "b"], 5)
    with pytest.raises(BrokenError), world.epoch(T0 + TTL - 1):
        assert read(world.at("a")) == [5]
        raise BrokenError
    with pytest.raises(BrokenError), world.epoch(T0 + TTL):
        assert read(world.at("a")) == []  # the refresh was taken back
        world.backend.ttl.sweep(EVERYTHING)
        assert _raw_count(world, "b") == 0
        raise BrokenError
    assert world.stored() == 2
    with world.epoch(T0 + TTL - 1):
        assert read(world.at("a")) == [5] == read(world.at("b"))


@on_every_backend
def test_a_sweep_that_was_taken_back_is_done_again(backend: str) -> None:
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
def test_a_sweep_of_a_finished_epoch_that_was_taken_back_is_done_again(backend: str) -> None:
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
