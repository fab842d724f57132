"""How expired entries go without being read: rows D9 to D12 of the features."""

from functools import partial
from typing import Any

import pytest

from penstock.model.ttl import StateTtlConfig
from penstock.state.format.snapshot_file import row_count
from tests.state.ttl import (
    EVERYTHING,
    T0,
    TTL,
    World,
    every_kind,
    expiring,
    on_every_backend,
    read,
    unattended,
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
def test_d10_without_an_access_or_a_sweep_nothing_is_removed(backend: str) -> None:
    world = World(backend, expiring("value", lambda b: b.cleanup_incrementally(5, True)))
    world.fill(T0, KEYS)
    with world.epoch(T0 + TTL):
        pass
    assert world.stored() == 1_000


@pytest.mark.parametrize("backend", IN_MEMORY)
def test_d10_records_count_as_accesses_if_configured(backend: str) -> None:
    for every_record, left in ((True, 400), (False, 1_000)):
        world = World(backend, expiring("value", partial(three_per_access, every_record=every_record)))
        world.fill(T0, KEYS)
        with world.epoch(T0 + TTL):
            world.backend.ttl.after_records(200)
        assert world.stored() == left


@pytest.mark.parametrize("backend", IN_MEMORY)
def test_d10_live_entries_are_visited_at_most_once_per_epoch(backend: str) -> None:
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
def test_d11_a_pass_that_removes_little_starts_no_compaction(backend: str) -> None:
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
def test_d12_explicit_strategies_stay_enabled(backend: str) -> None:
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
