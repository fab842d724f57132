"""The numbers of right results, beside what a few plain loops find."""

import random
from collections import Counter, defaultdict

import pyarrow as pa
import pytest

from bench import oracles
from bench.datasets import Dataset, generate_events
from bench.workloads import SESSION_GAP_MS, load_workload

TINY = Dataset("tiny", rows=800, keys=30, events_per_s=100)
SEEDS = [1, 2, 3]


def made_up(seed: int, rows: int = 300) -> pa.Table:
    """Rows with an id and a key of few values, and times before and after 0."""
    source = random.Random(seed)
    return pa.table(
        {
            "key": [f"k{source.randrange(9)}" for _ in range(rows)],
            "id": [source.randrange(9) for _ in range(rows)],
            "ts": [source.randrange(-50_000, 50_000) for _ in range(rows)],
        }
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_of_an_interval_join(seed: int) -> None:
    left, right = made_up(seed), made_up(seed + 100, 200)
    expected = sum(
        a["key"] == b["key"] and 0 <= b["ts"] - a["ts"] <= 5_000 for a in left.to_pylist() for b in right.to_pylist()
    )
    assert oracles.join_pairs(left, right, 5_000) == expected > 0


def test_both_ends_of_the_interval_belong_to_it() -> None:
    left = pa.table({"key": ["a"], "ts": [1_000]})
    right = pa.table({"key": ["a"] * 4 + ["b"], "ts": [999, 1_000, 1_010, 1_011, 1_005]})
    assert oracles.join_pairs(left, right, 10) == 2
    assert oracles.join_pairs(left, right.slice(0, 0), 10) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_with_rows(seed: int) -> None:
    table = made_up(seed)
    rows = table.to_pylist()
    assert oracles.window_keys(table, "id", 10_000) == len({(row["id"], row["ts"] // 10_000) for row in rows})
    assert oracles.window_keys(table, None, 10_000) == len({row["ts"] // 10_000 for row in rows})
    assert oracles.window_counts(table.filter(pa.compute.greater_equal(table["ts"], 0)), 10_000) == len(
        {(row["key"], row["ts"] // 10_000) for row in rows if row["ts"] >= 0}
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_sliding_windows_hold_a_row_several_times(seed: int) -> None:
    table = made_up(seed)
    starts = {
        (row["id"], start)
        for row in table.to_pylist()
        for start in range(-60_000, 60_000, 2_000)
        if start <= row["ts"] < start + 10_000
    }
    assert oracles.window_keys(table, "id", 10_000, 2_000) == len(starts)


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_that_are_in_a_window_of_both_tables(seed: int) -> None:
    left, right = made_up(seed), made_up(seed + 100)
    found = [{(row["id"], row["ts"] // 1_000) for row in table.to_pylist()} for table in (left, right)]
    assert oracles.common_window_keys(left, right, ("id", "id"), 1_000) == len(found[0] & found[1]) > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_sessions_end_where_no_row_comes_for_the_gap(seed: int) -> None:
    table = made_up(seed)
    times = defaultdict(list)
    for row in table.to_pylist():
        times[row["id"]].append(row["ts"])
    expected = 0
    for own in times.values():
        own.sort()
        expected += 1 + sum(later - earlier >= 700 for earlier, later in zip(own, own[1:], strict=False))
    assert oracles.session_count(table, "id", 700) == expected
    assert oracles.session_count(table.slice(0, 0), "id", 700) == 0


def test_de_duplication_has_a_result_for_each_key() -> None:
    tables = load_workload("w3").tables(TINY)
    assert load_workload("w3").results(tables) == len(set(tables["events"]["key"].to_pylist())) == TINY.keys


def test_the_interval_join_has_two_streams() -> None:
    workload = load_workload("w4")
    tables = workload.tables(TINY)
    assert tables["left"].num_rows == tables["right"].num_rows == TINY.rows // 2
    assert sorted([*tables["left"]["ts"].to_pylist(), *tables["right"]["ts"].to_pylist()]) == sorted(
        generate_events(TINY)["ts"].to_pylist()
    )
    assert workload.results(tables) > 0


def test_query_q5_hands_a_count_for_each_auction_and_window_to_its_second_step() -> None:
    workload = load_workload("w6_q5")
    tables = workload.tables(TINY)
    rows = tables["bids"].to_pylist()
    windows = {(row["auction"], (row["ts"] // 2_000 - back) * 2_000) for row in rows for back in range(5)}
    assert workload.inner_results(tables) == len(windows)
    assert workload.results(tables) == len({start for _, start in windows})


def test_query_q7_hands_the_best_of_each_bucket_to_its_second_step() -> None:
    workload = load_workload("w6_q7")
    tables = workload.tables(TINY)
    rows = tables["bids"].to_pylist()
    assert workload.inner_results(tables) == len({(row["auction"] % 16, row["ts"] // 10_000) for row in rows})
    assert workload.results(tables) == len({row["ts"] // 10_000 for row in rows})


def test_query_q8_finds_persons_who_sell_at_once() -> None:
    workload = load_workload("w6_q8")
    tables = workload.tables(TINY)
    came = {(row["id"], row["ts"] // 10_000) for row in tables["persons"].to_pylist()}
    sold = Counter((row["seller"], row["ts"] // 10_000) for row in tables["auctions"].to_pylist())
    assert workload.results(tables) == len(came & set(sold)) > 0


def test_query_q11_has_sessions_whose_gap_no_two_bids_match_exactly() -> None:
    workload = load_workload("w6_q11")
    tables = workload.tables(TINY)
    assert SESSION_GAP_MS % 2 == 1 and not any(ts % 2 for ts in tables["bids"]["ts"].to_pylist())
    assert workload.results(tables) >= len(set(tables["bids"]["bidder"].to_pylist()))
