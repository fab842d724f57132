"""Time to live over a restore: rows D13 and D14 of the features, and snapshots that are partly with it."""

import msgspec
import pytest

from penstock.errors import CheckpointCorruptError, TypeMismatchError
from penstock.model.descriptors import MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from penstock.model.ids import CheckpointId
from penstock.model.snapshot import StateTableInfo
from penstock.model.types import Types
from penstock.state.format.snapshot_file import encode_snapshot, read_snapshot, row_count
from tests.state.backends import seal
from tests.state.ttl import (
    EVERYTHING,
    T0,
    TTL,
    World,
    descriptor,
    every_kind,
    expiring,
    on_every_backend,
    read,
    write,
)

KEYS = [f"key {number}" for number in range(30)]


def refreshed(builder: StateTtlConfig.Builder) -> StateTtlConfig.Builder:
    return builder.update_ttl_on_read_and_write()


@on_every_backend
@every_kind
def test_d13_stamps_are_saved_and_the_time_to_live_is_not(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind))
    world.fill(T0, ["a"], 5)
    file = world.file()
    shorter = world.moved([file], expiring(kind, ttl_ms=TTL // 2))
    with shorter.epoch(T0 + TTL // 2):
        assert read(shorter.at("a")) == []
    longer = world.moved([file], expiring(kind, ttl_ms=3 * TTL))
    with longer.epoch(T0 + 3 * TTL - 1):
        assert read(longer.at("a")) == [5]
    with longer.epoch(T0 + 3 * TTL):
        assert read(longer.at("a")) == []


@on_every_backend
@every_kind
def test_d13_restored_entries_expire_and_are_swept(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind))
    world.fill(T0, KEYS)
    restored = world.moved([world.file()], expiring(kind))
    due = restored.backend.ttl.next_sweep_ms(EVERYTHING)
    assert due is not None and due <= T0  # what is in there is not known yet
    restored.sweep(T0 + 1)
    assert restored.stored() == 30
    assert restored.backend.ttl.next_sweep_ms(EVERYTHING) == T0 + TTL
    restored.sweep(T0 + TTL)
    assert restored.stored() == 0


@on_every_backend
@every_kind
def test_d14_values_saved_without_ttl_live_until_they_are_written(backend: str, kind: str) -> None:
    world = World(backend, descriptor(kind))
    world.fill(T0, ["read", "written"], 5)
    restored = world.moved([world.file()], expiring(kind))
    with restored.epoch(T0 + 100 * TTL):
        assert read(restored.at("read")) == [5] == read(restored.at("written"))
        restored.at("written").clear()
        write(restored.at("written"), 7)
    restored.sweep(T0 + 200 * TTL)
    assert restored.stored() == 1
    with restored.epoch(T0 + 200 * TTL):
        assert read(restored.at("read")) == [5]
        assert read(restored.at("written")) == []


@on_every_backend
@every_kind
def test_d14_values_saved_without_ttl_expire_after_one_touch(backend: str, kind: str) -> None:
    world = World(backend, descriptor(kind))
    world.fill(T0, ["a", "untouched"], 5)
    restored = world.moved([world.file()], expiring(kind, refreshed))
    now = T0 + 100 * TTL
    with restored.epoch(now):
        assert read(restored.at("a")) == [5]
    with restored.epoch(now + TTL):
        assert read(restored.at("a")) == []
        assert read(restored.at("untouched")) == [5]


@on_every_backend
@every_kind
def test_d14_values_saved_with_ttl_are_kept_without(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind))
    world.fill(T0, ["a"], 5)
    restored = world.moved([world.file()], descriptor(kind))
    with restored.epoch(T0 + 100 * TTL):
        assert read(restored.at("a")) == [5]
        write(restored.at("a"), 7)
    back = restored.moved([restored.file()], expiring(kind))
    with back.epoch(T0 + 200 * TTL):
        assert read(back.at("a")) == read(restored.at("a"))


@on_every_backend
def test_d14_a_none_in_a_map_comes_and_goes_with_its_stamp(backend: str) -> None:
    world = World(backend, descriptor("map"))
    with world.epoch(T0):
        world.at("a").put_all({"x": None, "y": 1})
    stamped = world.moved([world.file()], expiring("map"))
    with stamped.epoch(T0):
        assert dict(stamped.at("a").items()) == {"x": None, "y": 1}
    plain = stamped.moved([stamped.file()], descriptor("map"))
    assert dict(plain.at("a").items()) == {"x": None, "y": 1}


@on_every_backend
@every_kind
def test_d14_a_delta_over_the_change_is_whole(backend: str, kind: str) -> None:
    """The first seal after the change builds on files of the old form, and must not rely on them."""
    states = [(descriptor(kind), expiring(kind)), (expiring(kind), descriptor(kind))]
    for before, after in states:
        world = World(backend, before)
        world.fill(T0, KEYS)
        world.fill(T0 + 1, ["gone"])
        full = world.file(1)
        changed = world.moved([full])
        changed.backend.start_from(CheckpointId(1))
        changed.use(after)
        with changed.epoch(T0 + 2):
            changed.at("gone").clear()
        delta = encode_snapshot([seal(changed.backend, 2, 1)])
        assert row_count(delta) == 30
        restored = changed.moved([full, delta], after)
        with restored.epoch(T0 + 2):
            assert [len(read(restored.at(key))) for key in [*KEYS, "gone"]] == [1] * 30 + [0]


@on_every_backend
@every_kind
def test_d14_deletes_of_a_delta_survive_the_change(backend: str, kind: str) -> None:
    for before, after in ((descriptor(kind), expiring(kind)), (expiring(kind), descriptor(kind))):
        world = World(backend, before)
        world.fill(T0, KEYS)
        full = world.file(1)
        with world.epoch(T0):
            for key in KEYS[:3]:
                world.at(key).clear()
        restored = world.moved([full, world.file(2, base=1)], after)
        assert restored.stored() == 27


@on_every_backend
@every_kind
def test_d14_parts_with_and_without_stamps_are_merged_in_one_subtask(backend: str, kind: str) -> None:
    """A function that asks for its state late leaves it as it was in some subtasks; then the job is rescaled."""
    old, new = World(backend, descriptor(kind)), World(backend, expiring(kind))
    old.fill(T0, ["old"], 5)
    new.fill(T0, ["new"], 6)
    for order in ((old, new), (new, old)):
        for declared in (expiring(kind), descriptor(kind)):
            merged = World(backend)
            for world in order:
                for info, rows in _tables(world):
                    merged.backend.restore(info, rows)
            assert merged.stored() == 2
            again = merged.moved([merged.file()], declared)  # first undeclared, then declared
            merged.use(declared)
            for one in (merged, again):
                with one.epoch(T0 + TTL):
                    assert read(one.at("old")) == [5]
                    assert len(read(one.at("new"))) == int(declared.ttl_config is None)


def _tables(world: World) -> list[tuple[StateTableInfo, object]]:
    return list(read_snapshot(world.file(), (0, 15), 16))


@on_every_backend
def test_a_restore_into_a_declared_state_is_converted_and_swept(backend: str) -> None:
    world = World(backend, expiring("value"))
    world.fill(T0, ["a"], 5)
    plain, stamped = World(backend, descriptor("value")), World(backend, expiring("value"))
    for info, rows in _tables(world):
        plain.backend.restore(info, rows)
        stamped.backend.restore(info, rows)
    with plain.epoch(T0 + TTL):
        assert plain.at("a").value() == 5
    stamped.sweep(T0 + TTL)
    assert stamped.stored() == 0


@on_every_backend
def test_a_pickled_state_is_not_unpickled_when_its_stamps_change(backend: str) -> None:
    state = ValueStateDescriptor("state", Types.PICKLED_BYTE_ARRAY())
    world = World(backend, state)
    with world.epoch(T0):
        world.at("a").update({1, 2})
    stamped = ValueStateDescriptor("state", Types.PICKLED_BYTE_ARRAY())
    stamped.enable_time_to_live(expiring("value").ttl_config or pytest.fail("no configuration"))
    restored = world.moved([world.file()], stamped)
    with restored.epoch(T0):
        assert restored.at("a").value() == {1, 2}
    assert restored.moved([restored.file()], state).at("a").value() == {1, 2}


@on_every_backend
def test_another_type_is_refused_with_ttl_and_without(backend: str) -> None:
    world = World(backend, expiring("value"))
    world.fill(T0, ["a"])
    with pytest.raises(
        TypeMismatchError,
        match="saved as value state of LONG with a time to live and is declared as value state of STRING:",
    ):
        world.moved([world.file()], ValueStateDescriptor("state", Types.STRING()))
    with pytest.raises(TypeMismatchError, match="is declared as map state of STRING to LONG"):
        world.moved([world.file()], MapStateDescriptor("state", Types.STRING(), Types.LONG()))


@on_every_backend
def test_a_table_with_ttl_but_without_stamps_is_refused(backend: str) -> None:
    world = World(backend, descriptor("value"))
    world.fill(T0, ["a"])
    for info, rows in _tables(world):
        other = World(backend)
        with pytest.raises((TypeMismatchError, CheckpointCorruptError)):
            other.backend.restore(msgspec.structs.replace(info, ttl=True), rows)
            other.use(expiring("value"))


def test_a_table_of_contents_without_the_flag_is_one_without_ttl() -> None:
    text = b'{"operator_uid": "op", "name": "n", "kind": "value", "key_types": ["STRING"], "value_type": "LONG"}'
    assert not msgspec.json.decode(text, type=StateTableInfo).ttl
