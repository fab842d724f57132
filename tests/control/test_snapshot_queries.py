"""Queries of real savepoints: no more is read than an answer needs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.snapshot.stored_snapshot import KeyedState
from penstock.control.inspect import snapshot_lookup
from penstock.control.inspect.snapshot_lookup import SnapshotLookup
from penstock.control.state_query import StateQuery
from penstock.datastream import KeyedProcessFunction
from penstock.errors import RequestRefusedError
from penstock.model.descriptors import MapStateDescriptor, ValueStateDescriptor
from penstock.model.types import Types
from penstock.testing import Harness


class Totals(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.seen = ctx.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update(value[1])
        for number in range(3):
            self.seen.put(number, value[1])
        yield value


@pytest.fixture
def savepoint(tmp_path: Path) -> str:
    harness = Harness.keyed(Totals(), key=lambda record: record[0], key_type=Types.STRING(), parallelism=4)
    harness.feed([(f"k{number}", number) for number in range(40)])
    return harness.savepoint(tmp_path)


@pytest.fixture
def rows_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One for each row that was read; every row comes alone, as at the end of a file."""
    found: list[int] = []
    read = KeyedState.read

    def counted(state: KeyedState, *arguments: Any) -> Iterator[Any]:
        for table in read(state, *arguments):
            for start in range(len(table)):
                found.append(1)
                yield table.slice(start, 1)

    monkeypatch.setattr(KeyedState, "read", counted)
    return found


def entries(answer: Any) -> list[Any]:
    return [json.loads(bytes(entry)) for entry in answer.values]


def test_a_scan_reads_no_more_than_it_answers(savepoint: str, rows_read: list[int]) -> None:
    answer = SnapshotLookup().read(savepoint, "function", "total", StateQuery(limit=5))
    assert [key for key, value in entries(answer) if key == f"k{value}"] == [key for key, _ in entries(answer)]
    assert len(entries(answer)) == 5 and answer.more
    assert len(rows_read) == 6


def test_a_scan_of_maps_reads_the_last_one_to_its_end(savepoint: str, rows_read: list[int]) -> None:
    answer = SnapshotLookup().read(savepoint, "function", "seen", StateQuery(limit=2))
    assert [len(value["$map"]) for _, value in entries(answer)] == [3, 3] and answer.more
    assert len(rows_read) < 12


def test_a_scan_of_everything_says_that_there_is_no_more(savepoint: str, rows_read: list[int]) -> None:
    lookup = SnapshotLookup()
    for _ in range(2):  # the second time from memory
        for state in ("total", "seen"):
            answer = lookup.read(savepoint, "function", state, StateQuery(limit=40))
            assert sorted(key for key, _ in entries(answer)) == sorted(f"k{n}" for n in range(40)) and not answer.more
    some = lookup.read(savepoint, "function", "seen", StateQuery((b'"k7"', b'"nobody"')))
    assert entries(some) == [{"$map": [[0, 7], [1, 7], [2, 7]]}, None]


def test_a_query_that_would_wait_long_comes_again(savepoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_lookup, "TURN_LIMIT_S", 0.01)
    lookup = SnapshotLookup()
    with lookup._turn(), pytest.raises(RequestRefusedError) as refused:
        lookup.read(savepoint, "function", "total", StateQuery(limit=5))
    assert (refused.value.status, refused.value.code, refused.value.retry_after_s) == (503, "BUSY", 1)
    assert len(lookup.read(savepoint, "function", "total", StateQuery(limit=5)).values) == 5
