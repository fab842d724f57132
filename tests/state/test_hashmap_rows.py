"""The HashMap backend as the rows F1 to F6 of the feature table want it."""

import threading
import time
from typing import Any

from penstock.model.descriptors import ValueStateDescriptor
from penstock.model.ids import CheckpointId
from penstock.model.time import TimeDomain
from penstock.model.types import Types
from penstock.state.format.snapshot_file import encode_snapshot, read_chain
from penstock.state.heap.hashmap_backend import HashMapBackend
from penstock.state.timers import Timers
from tests.state.backends import at, encoded, epoch, hashmap_backend, restored

ALL = (0, 15)


def filled(count: int) -> tuple[HashMapBackend, Any]:
    backend = hashmap_backend()
    state = backend.table(ValueStateDescriptor("v", Types.TUPLE([Types.LONG(), Types.LONG()])))
    with epoch(backend):
        for number in range(count):
            at(backend, f"key {number}")
            state.update((number, number))
    return backend, state


def values(data: bytes) -> dict[str, Any]:
    ((_, rows),) = read_chain([data], ALL, 16)
    return {row["_key_0"]: tuple(row["value"].values()) for row in rows.to_pylist()}


def test_f1_an_access_encodes_nothing() -> None:
    backend, state = filled(1)
    at(backend, "key 0")
    assert state.value() is state.value()


def test_f2_f3_the_barrier_is_short_and_what_follows_is_not_in_the_snapshot() -> None:
    count = 50_000
    backend, state = filled(count)
    started = time.perf_counter()
    sealed = backend.seal(CheckpointId(1), None, full=True)
    pause = time.perf_counter() - started
    found: list[bytes] = []
    writer = threading.Thread(target=lambda: found.append(encode_snapshot([sealed])))
    writer.start()
    started = time.perf_counter()
    with epoch(backend):
        for number in range(0, count, 10):
            at(backend, f"key {number}")
            state.update((-1, -1))
    writer.join()
    assert pause < 0.2 * (time.perf_counter() - started)
    written = values(found[0])
    assert written["key 10"] == (10, 10) and len(written) == count


def test_f4_a_full_snapshot_stands_alone_and_one_range_is_read_alone() -> None:
    backend, _ = filled(500)
    data = encoded(backend)
    parts = [rows for first in (0, 4, 8, 12) for _, rows in read_chain([data], (first, first + 3), 16)]
    assert sum(map(len, parts)) == 500 and all(map(len, parts))


def test_f5_two_seals_that_overlap_are_each_consistent() -> None:
    backend, state = filled(10)
    seals = []
    for number in (1, 2):
        with epoch(backend):
            for key in range(10):
                at(backend, f"key {key}")
                state.update((number, number))
        seals.append(backend.seal(CheckpointId(number), None, full=True))
    for number, sealed in enumerate(seals, 1):
        assert set(values(encode_snapshot([sealed])).values()) == {(number, number)}


def test_f6_timers_are_in_the_snapshot() -> None:
    backend, _ = filled(1)
    timers = Timers(backend, TimeDomain.EVENT_TIME)
    with epoch(backend):
        at(backend, "key 0")
        timers.register(7)
    (other,) = restored([[encoded(backend)]])
    assert Timers(other, TimeDomain.EVENT_TIME).next_timestamp() == 7
