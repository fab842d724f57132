"""Time to live as a function sees it, to the millisecond: rows D1 to D8 and D15 to D17 of the features."""

from typing import Any

import pytest

from penstock.common import Types
from penstock.errors import StateAccessError, TypeMismatchError, UnsupportedValueError, UsageError
from penstock.model.descriptors import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from penstock.model.time import Time
from penstock.state.ttl.rules import SweepSettings
from tests.state.ttl import T0, TTL, World, descriptor, every_kind, expiring, on_every_backend, read, unattended, write


def shown(builder: StateTtlConfig.Builder) -> StateTtlConfig.Builder:
    return builder.return_expired_if_not_cleaned_up().disable_cleanup_in_background()


def refreshed(builder: StateTtlConfig.Builder) -> StateTtlConfig.Builder:
    return builder.update_ttl_on_read_and_write()


@on_every_backend
def test_d1_each_list_element_expires_separately(backend: str) -> None:
    world = World(backend, expiring("list", ttl_ms=8_000))
    with world.epoch(T0):
        world.at("a").add(1)
    with world.epoch(T0 + 5_000):
        world.at("a").add_all([2, 3])
    with world.epoch(T0 + 9_000):
        assert world.at("a").get() == [2, 3]
    with world.epoch(T0 + 13_000):
        assert list(world.at("a")) == []
    assert world.stored() == 0


@on_every_backend
def test_d1_each_map_entry_expires_separately(backend: str) -> None:
    world = World(backend, expiring("map", ttl_ms=8_000))
    with world.epoch(T0):
        world.at("a").put_all({"x": 1, "y": 2})
    with world.epoch(T0 + 5_000):
        world.at("a")["y"] = 3
    with world.epoch(T0 + 9_000):
        state = world.at("a")
        assert (state["x"], state["y"], "x" in state, "y" in state) == (None, 3, False, True)
        assert dict(state.items()) == {"y": 3} and list(state.keys()) == ["y"] and list(state.values()) == [3]
    assert world.stored() == 1


@on_every_backend
@every_kind
def test_d2_an_entry_is_expired_at_exactly_its_time_to_live(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind, unattended))
    world.fill(T0, ["a", "b"], 5)
    with world.epoch(T0 + TTL - 1):
        assert read(world.at("a")) == [5]
    with world.epoch(T0 + TTL):
        assert read(world.at("a")) == []
    assert world.stored() == 1  # "b" was not read


@on_every_backend
def test_d2_a_time_to_live_without_end_does_not_overflow(backend: str) -> None:
    world = World(backend, expiring("value", ttl_ms=2**63 - 1))
    world.fill(T0, ["a"], 5)
    with world.epoch(2**62):
        assert world.at("a").value() == 5
    assert world.backend.ttl.next_sweep_ms(SweepSettings()) == 2**63 - 1


@on_every_backend
@every_kind
def test_d3_writes_refresh_an_entry_and_reads_do_not(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind))
    world.fill(T0, ["read", "written"], 5)
    with world.epoch(T0 + TTL - 1):
        assert read(world.at("read")) == [5]
        write(world.at("written"), 7)
    with world.epoch(T0 + TTL):
        assert read(world.at("read")) == []
        assert read(world.at("written")) == {"list": [7], "reducing": [12], "aggregating": [6.0]}.get(kind, [7])


@on_every_backend
@every_kind
def test_d4_reads_refresh_an_entry_if_configured(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind, refreshed, ttl_ms=1_000))
    world.fill(T0, ["a", "unread"], 5)
    with world.epoch(T0 + 900):
        assert read(world.at("a")) == [5]
    with world.epoch(T0 + 1_500):
        assert read(world.at("a")) == [5]
        assert read(world.at("unread")) == []
    with world.epoch(T0 + 2_500):
        assert read(world.at("a")) == []


@on_every_backend
def test_d4_a_list_read_refreshes_all_live_elements(backend: str) -> None:
    world = World(backend, expiring("list", refreshed, ttl_ms=1_000))
    for number in range(3):
        world.fill(T0 + 400 * number, ["a"], number)
    with world.epoch(T0 + 1_100):  # the first has expired
        assert world.at("a").get() == [1, 2]
    with world.epoch(T0 + 2_099):
        assert world.at("a").get() == [1, 2]


@on_every_backend
def test_d4_reading_a_map_key_refreshes_only_that_key(backend: str) -> None:
    world = World(backend, expiring("map", refreshed, ttl_ms=1_000))
    with world.epoch(T0):
        world.at("a").put_all({"x": 1, "y": 2, "z": 3})
    with world.epoch(T0 + 900):
        assert world.at("a").contains("x") and world.at("a").get("y") == 2
    with world.epoch(T0 + 1_500):
        assert dict(world.at("a").items()) == {"x": 1, "y": 2}


@on_every_backend
@every_kind
def test_d5_with_the_update_type_disabled_nothing_expires(backend: str, kind: str) -> None:
    state = expiring(kind, lambda b: b.set_update_type(StateTtlConfig.UpdateType.Disabled))
    world = World(backend, state)
    world.fill(T0, ["a"], 5)
    world.sweep(T0 + 1_000 * TTL)
    with world.epoch(T0 + 1_000 * TTL):
        assert read(world.at("a")) == [5]
    assert type(world.state) is type(World(backend, descriptor(kind)).state)


@on_every_backend
@every_kind
def test_d6_d8_an_expired_entry_is_absent_and_removed_by_the_read(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind, unattended))
    world.fill(T0, ["a", "b"], 5)
    assert world.stored() == 2
    with world.epoch(T0 + TTL):
        assert read(world.at("a")) == []
    assert world.stored() == 1


@on_every_backend
@every_kind
def test_d7_an_expired_entry_is_returned_once(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind, shown))
    world.fill(T0, ["a"], 5)
    with world.epoch(T0 + TTL):
        assert read(world.at("a")) == [5]
        assert read(world.at("a")) == []
    assert world.stored() == 0


@on_every_backend
def test_d7_a_map_key_that_may_still_be_returned_stays_until_its_value_is_read(backend: str) -> None:
    world = World(backend, expiring("map", shown))
    world.fill(T0, ["a"], 5)
    with world.epoch(T0 + TTL):
        state = world.at("a")
        assert "m" in state and not state.is_empty()
        assert state["m"] == 5
        assert "m" not in state and state.is_empty()


@on_every_backend
def test_d7_of_a_list_only_expired_elements_are_returned_once(backend: str) -> None:
    world = World(backend, expiring("list", shown))
    world.fill(T0, ["a"], 1)
    world.fill(T0 + 1, ["a"], 2)
    with world.epoch(T0 + TTL):
        assert world.at("a").get() == [1, 2]
        assert world.at("a").get() == [2]


@on_every_backend
def test_d7_expired_values_are_not_combined_unless_they_may_be_returned(backend: str) -> None:
    for configure, expected in ((unattended, 2), (shown, 3)):
        world = World(backend, expiring("reducing", configure))
        world.fill(T0, ["a"], 1)
        world.fill(T0 + TTL, ["a"], 2)
        with world.epoch(T0 + 2 * TTL - 1):
            assert world.at("a").get() == expected


@on_every_backend
@every_kind
def test_d15_an_expired_value_is_not_replaced_by_a_default(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind))
    world.fill(T0, ["a"], 5)
    world.fill(T0 + TTL, ["a"], 6)
    with world.epoch(T0 + TTL):
        assert read(world.at("a")) == [6]  # not 11, and no average with 5
    with world.epoch(T0 + 2 * TTL):
        assert read(world.at("a")) == [] == read(world.at("never"))


@on_every_backend
def test_d16_a_map_of_expired_entries_is_empty(backend: str) -> None:
    world = World(backend, expiring("map", unattended))
    world.fill(T0, ["a", "b"], 5)
    with world.epoch(T0 + 1):
        world.at("b").put("late", 1)
    with world.epoch(T0 + TTL):
        assert world.at("a").is_empty() and not world.at("b").is_empty()
    assert world.stored() == 2  # of "b"


@on_every_backend
@every_kind
def test_d17_nothing_is_cached_between_a_write_and_a_read(backend: str, kind: str) -> None:
    state = expiring(kind, refreshed)
    world = World(backend, state)
    again = world.backend.table(expiring(kind, refreshed))
    assert again is world.state
    with world.epoch(T0):
        write(world.at("a"), 5)
        assert read(again) == [5]
        again.clear()
        assert read(world.state) == []


@on_every_backend
@every_kind
def test_outside_an_epoch_expired_entries_are_hidden_and_stay(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind, refreshed))
    world.fill(T0, ["a"], 5)
    world.backend.ttl.clock.now_ms = T0 + TTL - 1
    assert read(world.at("a")) == [5]  # which prolongs nothing
    world.backend.ttl.clock.now_ms = T0 + TTL
    assert read(world.at("a")) == []
    assert world.stored() == 1
    world.backend.ttl.clock.now_ms = T0
    assert read(world.at("a")) == [5]


@on_every_backend
@every_kind
def test_a_clock_that_goes_back_expires_nothing_early(backend: str, kind: str) -> None:
    world = World(backend, expiring(kind, refreshed))
    world.fill(T0, ["a"], 5)
    with world.epoch(T0 - 100 * TTL):
        assert read(world.at("a")) == [5]
    with world.epoch(T0 + TTL - 1):
        assert read(world.at("a")) == [5]


@on_every_backend
def test_a_map_key_may_hold_none_and_still_expires(backend: str) -> None:
    world = World(backend, expiring("map"))
    with world.epoch(T0):
        world.at("a").put("m", None)
        assert "m" in world.at("a") and world.at("a")["m"] is None and not world.at("a").is_empty()
    with world.epoch(T0 + TTL):
        assert "m" not in world.at("a")


@on_every_backend
def test_values_are_checked_and_copied_as_without_a_time_to_live(backend: str) -> None:
    world = World(backend, expiring("list"))
    with world.epoch(T0):
        with pytest.raises(UnsupportedValueError, match="You cannot add null to a ListState."):
            world.at("a").add(None)
        with pytest.raises(UnsupportedValueError, match="You cannot add null to a ListState."):
            world.at("a").add_all([1, None])
        with pytest.raises(UnsupportedValueError, match="List of values to add cannot be null."):
            world.at("a").update(None)
        with pytest.raises(UnsupportedValueError, match="'x' of type str does not fit the declared type LONG"):
            world.at("a").update(["x"])
        assert world.at("a").get() == []
    untyped = ValueStateDescriptor("untyped")
    untyped.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).update_ttl_on_read_and_write().build())
    world.use(untyped)
    for now in (T0, T0 + 1):  # the second one refreshes
        with world.epoch(now):
            given = [1, {"a": [2]}]
            if now == T0:
                world.at("a").update(given)
            given.append("not stored")
            world.at("a").value()[1]["a"].append("not stored")
            assert world.at("a").value() == [1, {"a": [2]}]


@on_every_backend
def test_clearing_and_none_remove_the_entry(backend: str) -> None:
    for kind in ("value", "reducing", "aggregating"):
        world = World(backend, expiring(kind))
        world.fill(T0, ["a", "b"], 5)
        with world.epoch(T0):
            (world.at("a").update if kind == "value" else world.at("a").add)(None)
            world.at("b").clear()
        assert world.stored() == 0


@on_every_backend
def test_iterating_a_map_notices_changes_and_removes_for_its_own_key(backend: str) -> None:
    world = World(backend, expiring("map"))
    with world.epoch(T0):
        world.at("a").put_all({"x": 1, "y": 2})
        world.at("b").put_all({"x": 1, "y": 2})
    with world.epoch(T0):
        iterator = world.at("a").keys()
        first = next(iterator)
        world.at("b")
        iterator.remove()
        with pytest.raises(StateAccessError, match="You need to call the '__next__' method"):
            iterator.remove()
        assert first not in world.at("a") and first in world.at("b")
        next(iterator)
        world.at("b").put("z", 1)
        with pytest.raises(StateAccessError, match="Concurrent modification detected"):
            next(iterator)
        with pytest.raises(StateAccessError, match="Concurrent modification detected"):
            iterator.remove()


@on_every_backend
def test_map_keys_that_are_equal_only_in_python_expire_separately(backend: str) -> None:
    state = MapStateDescriptor("state")
    state.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(TTL)).update_ttl_on_read_and_write().build())
    world = World(backend, state)
    with world.epoch(T0):
        world.at("a").put(1, "int")
    with world.epoch(T0 + 1):
        world.at("a").put(True, "bool")
        world.at("a").put([1, 2], "list")
    with world.epoch(T0 + TTL):
        assert sorted(world.at("a").values()) == ["bool", "list"]
    with world.epoch(T0 + 2 * TTL - 1):
        assert sorted(world.at("a").values()) == ["bool", "list"]


@on_every_backend
def test_one_state_has_one_time_to_live(backend: str) -> None:
    world = World(backend, expiring("value"))
    with pytest.raises(TypeMismatchError, match="two different times to live"):
        world.backend.table(expiring("value", ttl_ms=TTL + 1))
    with pytest.raises(TypeMismatchError, match="value state of LONG with a time to live and as value state of LONG;"):
        world.backend.table(descriptor("value"))
    with pytest.raises(TypeMismatchError, match="The state name 'state' is already in use and not a map state."):
        world.backend.table(expiring("map"))


@on_every_backend
def test_a_type_that_could_not_be_read_back_is_refused_at_once(backend: str) -> None:
    nested: Any = Types.LONG()
    for _ in range(31):
        nested = Types.LIST(nested)
    deep = ListStateDescriptor("state", nested)
    World(backend, deep)
    deep.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    with pytest.raises(UsageError, match="nested more than"):
        World(backend, deep)
