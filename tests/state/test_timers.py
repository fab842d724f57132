"""Timers as keyed state (features B10, F6): what the backend keeps of them."""

import random
from decimal import Decimal

import numpy as np
import pytest

from penstock.errors import StateAccessError, UnsupportedValueError
from penstock.model.time import MAX_WATERMARK, MIN_WATERMARK, TimeDomain
from penstock.model.type_information import parse_type
from penstock.model.types import Types
from penstock.state.heap.hashmap_backend import HashMapBackend
from penstock.state.timers import Timers
from tests.state.backends import at, encoded, epoch, keyed_backend, restored, seal, string_backend


def event_timers(backend: HashMapBackend) -> Timers:
    return Timers(backend, TimeDomain.EVENT_TIME)


def register(backend: HashMapBackend, timers: Timers, *pending: tuple[str, int]) -> None:
    for key, timestamp in pending:
        at(backend, key)
        timers.register(timestamp)


def test_b10_the_same_time_twice_is_one_timer() -> None:
    backend = string_backend()
    timers = event_timers(backend)
    with epoch(backend):
        register(backend, timers, ("a", 5), ("a", 5), ("b", 5), ("a", 6))
        assert list(timers.due(5)) == [(5, "a"), (5, "b")]
        assert list(timers.due(5)) == []
        assert timers.next_timestamp() == 6


def test_b10_timers_fire_by_time_and_then_by_key() -> None:
    backend = keyed_backend([Types.LONG(), Types.STRING()])
    timers = event_timers(backend)
    pending = [(timestamp, (number, text)) for timestamp in range(3) for number in range(-2, 12) for text in ("", "z")]
    shuffled = pending.copy()
    random.Random(7).shuffle(shuffled)
    with epoch(backend):
        for timestamp, key in shuffled:
            at(backend, key)
            timers.register(timestamp)
        assert list(timers.due(MAX_WATERMARK)) == pending


def test_b10_timers_registered_while_firing_fire_too_if_they_are_due() -> None:
    backend = string_backend()
    timers = event_timers(backend)
    fired = []
    with epoch(backend):
        register(backend, timers, ("a", 1), ("b", 3), ("b", 10))
        for timestamp, key in timers.due(4):
            fired.append((timestamp, key))
            backend.keys.key = key
            timers.register(timestamp + 1)
            if timestamp == 3:
                timers.register(-timestamp)  # late, so it fires next
            if timestamp < 0:
                timers.delete(timestamp + 1)
    assert fired == [(1, "a"), (2, "a"), (3, "a"), (-3, "a"), (3, "b"), (-3, "b"), (4, "a"), (4, "b")]
    assert timers.next_timestamp() == 5


def test_b10_a_timer_that_fires_may_be_registered_again_for_the_same_time() -> None:
    backend = string_backend()
    timers = event_timers(backend)
    fired = 0
    with epoch(backend):
        register(backend, timers, ("a", 1))
        for _, key in timers.due(1):
            fired += 1
            backend.keys.key = key
            if fired < 3:
                timers.register(1)
    assert fired == 3 and timers.next_timestamp() is None


def test_b10_a_deleted_timer_does_not_fire() -> None:
    backend = string_backend()
    timers = event_timers(backend)
    with epoch(backend):
        register(backend, timers, ("a", 1), ("a", 2), ("b", 1))
        at(backend, "a")
        timers.delete(1)
        timers.delete(7)
        assert timers.next_timestamp() == 1
        assert list(timers.due(9)) == [(1, "b"), (2, "a")]
        register(backend, timers, ("a", 1))
        timers.delete(1)
        timers.register(1)
        assert list(timers.due(9)) == [(1, "a")]


def test_b10_event_time_and_processing_time_are_two_clocks() -> None:
    backend = string_backend()
    event, processing = event_timers(backend), Timers(backend, TimeDomain.PROCESSING_TIME)
    with epoch(backend):
        register(backend, event, ("a", 1))
        register(backend, processing, ("a", 2))
        assert list(processing.due(9)) == [(2, "a")]
        assert event.next_timestamp() == 1 and processing.next_timestamp() is None


def test_b10_timers_are_rolled_back_with_the_epoch() -> None:
    backend = string_backend()
    timers = event_timers(backend)
    with epoch(backend):
        register(backend, timers, ("a", 1), ("a", 2))
    with pytest.raises(ZeroDivisionError), epoch(backend):
        assert list(timers.due(1)) == [(1, "a")]
        register(backend, timers, ("b", 0))
        at(backend, "a")
        timers.delete(2)
        raise ZeroDivisionError
    with epoch(backend):
        assert list(timers.due(9)) == [(1, "a"), (2, "a")]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_b10_pending_timers_survive_a_restore_and_overdue_ones_fire_at_once(parallelism: int) -> None:
    backend = string_backend()
    timers = event_timers(backend)
    pending = [(timestamp, f"k{number}") for timestamp in (1, 2) for number in range(10)]
    with epoch(backend):
        register(backend, timers, *((key, timestamp) for timestamp, key in pending))
    found = []
    for other in restored([[encoded(backend)]], parallelism):
        with epoch(other):
            found += list(event_timers(other).due(100))
    assert sorted(found) == sorted(pending)


@pytest.mark.hashmap_only
def test_b10_a_delta_carries_fired_timers_as_deletes() -> None:
    backend = string_backend()
    timers = event_timers(backend)
    with epoch(backend):
        register(backend, timers, *((f"k{number}", number) for number in range(10)))
    seal(backend, 1)
    with epoch(backend):
        assert list(timers.due(0)) == [(0, "k0")]
        register(backend, timers, ("new", 50))
    (table,) = seal(backend, 2, 1).tables
    rows = table.rows()
    assert not table.full and list(zip(rows.keys, rows.values, rows.deleted or [], strict=True)) == [
        ("k0", 0, True), ("new", 50, False),
    ]  # fmt: skip


@pytest.mark.hashmap_only
def test_many_deleted_timers_do_not_pile_up() -> None:
    backend = string_backend()
    timers = event_timers(backend)
    with epoch(backend):
        at(backend, "a")
        for timestamp in range(10_000):
            timers.register(timestamp)
            timers.delete(timestamp - 1)
    assert len(backend._tables["_timers_event"]._times) < 200
    assert timers.next_timestamp() == 9_999


def test_near_timers_before_a_far_one_do_not_pile_up() -> None:
    backend = string_backend()
    timers = event_timers(backend)
    far = MAX_WATERMARK
    with epoch(backend):
        register(backend, timers, ("a", far), ("b", far))
    for now in range(300):
        with epoch(backend):
            register(backend, timers, ("a", now))
            assert timers.next_timestamp() == now
        with epoch(backend):
            assert list(timers.due(now)) == [(now, "a")]
            assert timers.next_timestamp() == far
    table = backend.timer_table("_timers_event")
    assert len(getattr(table, "_unread", ())) < 200  # RocksDB's first times of key groups
    with epoch(backend):
        assert list(timers.due(far)) == [(far, "a"), (far, "b")]


@pytest.mark.parametrize("timestamp", [1.5, "1", None, True, MAX_WATERMARK + 1, MIN_WATERMARK - 1])
def test_a_time_that_is_no_64_bit_int_is_refused(timestamp: object) -> None:
    backend = string_backend()
    timers = event_timers(backend)
    with epoch(backend):
        at(backend, "a")
        for use in (timers.register, timers.delete):
            with pytest.raises(UnsupportedValueError, match="is not a timestamp of a timer"):
                use(timestamp)  # type: ignore[arg-type]
        timers.register(np.int64(3))
        assert list(timers.due(3)) == [(3, "a")]


def test_a_timer_without_a_current_key_is_an_error() -> None:
    timers = event_timers(string_backend())
    for use in (timers.register, timers.delete):
        with pytest.raises(StateAccessError, match="no current key"):
            use(1)


def test_a_decimal_key_keeps_its_scale_until_its_timer_fires() -> None:
    backend = keyed_backend([parse_type("DECIMAL(10,2)")])
    timers = event_timers(backend)
    with epoch(backend):
        backend.keys.key = backend.key_codec.to_state_key(Decimal(100))
        timers.register(5)
    with epoch(backend):
        assert repr(list(timers.due(5))) == "[(5, Decimal('100.00'))]"


@pytest.mark.parametrize("limit", [0, 3, 400, MAX_WATERMARK])
def test_b10_timers_that_are_taken_together_are_those_that_would_fire_one_by_one(limit: int) -> None:
    backend, other = string_backend(), string_backend()
    timers, reference = event_timers(backend), event_timers(other)
    pending = [(f"k{number % 7}", number % 500) for number in range(2000)]
    for owner, own in ((backend, timers), (other, reference)):
        with epoch(owner):
            register(owner, own, *pending)
            at(owner, "k3")
            own.delete(3)
    backend.begin_epoch()
    expected = None
    with epoch(other):
        expected = list(reference.due(limit))
    assert timers.take_due(limit) == expected
    assert timers.next_timestamp() == reference.next_timestamp()
    backend.roll_back()
    with epoch(backend):
        assert timers.take_due(limit) == expected
