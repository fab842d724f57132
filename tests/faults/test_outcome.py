"""The check of the fault tests must see what it is there for: a lost event, one that was counted twice, a wrong sum."""

from pathlib import Path
from typing import Any

import pytest

from tests.faults.events import Expected, Load, batch_result, write_events
from tests.faults.outcome import Tables, compare

LOAD = Load(events=200, keys=7, files=3)


@pytest.fixture
def expected(tmp_path: Path) -> Expected:
    write_events(LOAD, tmp_path / "events")
    return batch_result(tmp_path / "events")


def right_state(expected: Expected) -> Tables:
    return {
        "ids": {key: sorted(ids) for key, ids in expected.ids.items()},
        "seen": {(key, number): True for key, ids in expected.ids.items() for number in ids},
        "count": expected.counts(),
        "sum": dict(expected.sums),
        "xor": dict(expected.xors),
        "taken": {
            "events": sum(expected.counts().values()),
            "ids": sum(number for ids in expected.ids.values() for number in ids),
        },
    }


def right_output(expected: Expected) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for key, ids in expected.ids.items():
        rows += [{"id": number, "key": key, "amount": 1, "count": at} for at, number in enumerate(sorted(ids), 1)]
        rows.append({"id": None, "key": key, "amount": expected.sums[key], "count": len(ids)})
    return rows


def test_the_input_repeats_ids_and_the_oracle_takes_each_once(expected: Expected) -> None:
    assert 0 < sum(expected.counts().values()) < LOAD.events
    assert len(expected.ids) == LOAD.keys


def test_of_a_job_that_was_stopped_the_oracle_takes_what_it_has_seen(tmp_path: Path, expected: Expected) -> None:
    seen = set(list(expected.ids["k0"])[:2])
    part = batch_result(tmp_path / "events", seen)
    assert part.ids == {"k0": seen} and not part.closed
    state = right_state(part)
    rows = [row for row in right_output(part) if row["id"] is not None]
    assert compare(part, state, rows).exact
    assert not compare(part, state, right_output(part)).exact  # no key is closed


def test_the_right_outcome_is_exact(expected: Expected) -> None:
    assert compare(expected, right_state(expected), right_output(expected)).exact


def test_a_row_that_is_missing_in_the_output_is_lost(expected: Expected) -> None:
    verdict = compare(expected, right_state(expected), right_output(expected)[1:])
    assert (verdict.lost, verdict.doubled) == (1, 0)


def test_a_row_that_is_there_twice_is_doubled(expected: Expected) -> None:
    rows = right_output(expected)
    verdict = compare(expected, right_state(expected), [*rows, rows[0]])
    assert (verdict.lost, verdict.doubled) == (0, 1)


def test_an_event_that_state_took_twice_is_doubled(expected: Expected) -> None:
    tables = right_state(expected)
    tables["ids"]["k0"].append(tables["ids"]["k0"][0])
    assert compare(expected, tables, right_output(expected)).doubled == 1


@pytest.mark.parametrize("name", ["count", "sum", "xor", "seen", "taken"])
def test_any_other_difference_in_state_is_named(expected: Expected, name: str) -> None:
    tables = right_state(expected)
    tables[name].popitem()
    verdict = compare(expected, tables, right_output(expected))
    assert not verdict.exact and name in verdict.wrong[0]
