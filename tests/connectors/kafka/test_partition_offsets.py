"""Offsets without a broker: what an epoch reads, and when records are lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.kafka.partition_offsets import (
    find_lost,
    from_json_form,
    limit_end,
    to_json_form,
    within_stops,
)
from penstock.errors import CheckpointCorruptError

PARTITIONS = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 20))
COUNTS = st.dictionaries(PARTITIONS, st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1)


@given(st.dictionaries(PARTITIONS, st.integers(0, 2**62)))
def test_offsets_survive_their_json_form(offsets: dict[tuple[str, int], int]) -> None:
    assert from_json_form(to_json_form(offsets)) == offsets


@pytest.mark.parametrize("text", [[1], {"a": 3}, {"a": {"x": 1}}, {"a": {"0": None}}])
def test_another_form_is_a_damaged_position(text: object) -> None:
    with pytest.raises(CheckpointCorruptError):
        from_json_form(text)


@given(COUNTS, st.integers(1, 500))
def test_an_epoch_stays_within_what_is_there_and_near_its_limit(
    counts: dict[tuple[str, int], tuple[int, int]], max_rows: int
) -> None:
    start = {partition: first for partition, (first, _) in counts.items()}
    available = {partition: first + left for partition, (first, left) in counts.items()}
    end = limit_end(start, available, max_rows)
    assert all(start[p] <= end[p] <= available[p] for p in start)
    read = sum(end[p] - start[p] for p in start)
    left = sum(left for _, left in counts.values())
    assert read <= max_rows + len(start) and (read > 0) == (left > 0)


@given(COUNTS, st.integers(1, 50))
def test_epochs_after_each_other_read_everything(counts: dict[tuple[str, int], tuple[int, int]], max_rows: int) -> None:
    position = {partition: first for partition, (first, _) in counts.items()}
    available = {partition: first + left for partition, (first, left) in counts.items()}
    for _ in range(sum(left for _, left in counts.values()) + 1):
        if position == available:
            break
        position = limit_end(position, available, max_rows)
    assert position == available


def test_without_a_limit_an_epoch_reads_what_is_there() -> None:
    assert limit_end({("t", 0): 3}, {("t", 0): 10}, None) == {("t", 0): 10}


def test_a_position_beyond_the_end_never_goes_back() -> None:
    assert limit_end({("t", 0): 30}, {("t", 0): 10}, 5) == {("t", 0): 30}


def test_a_bounded_source_stops_and_ignores_later_partitions() -> None:
    available = {("t", 0): 10, ("t", 1): 10, ("t", 2): 10}
    assert within_stops(available, {("t", 0): 4, ("t", 1): 20}) == {("t", 0): 4, ("t", 1): 10}
    assert within_stops(available, None) == available


def test_what_cannot_be_read_is_named() -> None:
    start = {("t", 0): 5, ("t", 1): 5, ("t", 2): 50, ("gone", 0): 1}
    first = {("t", 0): 5, ("t", 1): 6, ("t", 2): 0}
    end = {("t", 0): 5, ("t", 1): 9, ("t", 2): 9}
    lost = find_lost(start, first, end)
    assert set(lost) == {("t", 1), ("t", 2), ("gone", 0)}
    assert "records 5 to 5 were deleted" in lost["t", 1]
    assert "ends at 9: the topic was created again" in lost["t", 2]
    assert "no longer exists" in lost["gone", 0]
