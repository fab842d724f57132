"""Sizes of subtasks added up to those of the job's states, and kept small."""

from typing import Any

import pytest

from penstock.checkpoint.stats import state_sizes
from penstock.checkpoint.stats.state_sizes import add_up, bounded
from penstock.model.snapshot import StateSize


def size(name: str, first: int, groups: list[int], **more: Any) -> StateSize:
    """Every entry has ten bytes."""
    values: dict[str, Any] = {
        "operator_uid": "op",
        "name": name,
        "entries": sum(groups),
        "size_bytes": 10 * sum(groups),
        "entries_exact": True,
        "bytes_exact": True,
        "first_key_group": first,
        "group_entries": groups,
        "group_bytes": [10 * count for count in groups],
    }
    return StateSize(**{**values, **more})


def test_subtasks_are_added_up_per_operator_and_state() -> None:
    parts = [
        size("b", 2, [3, 4], largest=[("x", 9), ("z", 1)]),
        size("a", 2, [7, 8]),
        size("b", 0, [1, 2], largest=[("y", 5)]),
        size("a", 0, [5, 6]),
        size("a", 0, [1], operator_uid="another"),
    ]
    assert add_up(parts) == [
        size("a", 0, [1], operator_uid="another"),
        size("a", 0, [5, 6, 7, 8]),
        size("b", 0, [1, 2, 3, 4], largest=[("x", 9), ("y", 5), ("z", 1)]),
    ]
    assert add_up([]) == []


def test_a_sum_is_exact_only_if_all_its_parts_are() -> None:
    (found,) = add_up([size("a", 0, [1]), size("a", 1, [1], bytes_exact=False)])
    assert (found.entries_exact, found.bytes_exact) == (True, False)
    (found,) = add_up([size("a", 0, [1], entries_exact=False), size("a", 1, [1])])
    assert (found.entries_exact, found.bytes_exact) == (False, True)


def test_a_sum_is_of_files_if_a_part_is() -> None:
    (found,) = add_up([size("a", 0, [1]), size("a", 1, [1], on_disk=True)])
    assert found.on_disk and not add_up([size("a", 0, [1])])[0].on_disk


def test_of_all_subtasks_together_ten_keys_are_named() -> None:
    parts = [size("a", index, [1], largest=[(f"{index} {n}", n) for n in range(10)]) for index in range(3)]
    (found,) = add_up(parts)
    assert found.largest[:4] == [("0 9", 9), ("1 9", 9), ("2 9", 9), ("0 8", 8)] and len(found.largest) == 10


def test_key_groups_of_the_largest_states_are_kept_and_of_others_only_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_sizes, "MAX_KEY_GROUPS", 4)
    monkeypatch.setattr(state_sizes, "MAX_STATES", 3)
    sizes = [size("small", 0, [1, 1]), size("tiny", 0, [1]), size("large", 0, [9, 9]), size("medium", 0, [5, 5])]
    assert bounded(sizes) == [
        size("small", 0, [1, 1], group_entries=[], group_bytes=[]),
        size("large", 0, [9, 9]),
        size("medium", 0, [5, 5]),
    ]


def test_key_groups_of_some_subtasks_only_are_not_shown_as_those_of_all() -> None:
    cut = size("a", 2, [3, 4], group_entries=[], group_bytes=[])
    (found,) = add_up([size("a", 0, [1, 2]), cut])
    assert (found.entries, found.size_bytes, found.group_entries, found.group_bytes) == (10, 100, [], [])
