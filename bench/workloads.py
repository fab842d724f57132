"""All workloads by name."""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench import nexmark, oracles
from bench.datasets import Dataset, generate_events
from bench.errors import BenchUsageError
from bench.workload import Copy, Tables, Workload, days_before, other_keys

WINDOW_MS = 10_000
SLIDE_MS = 2_000
JOIN_MS = 10_000
SESSION_GAP_MS = 9_999
"""Odd, so that no two bids are exactly a gap apart: engines differ in whether these are one session."""
BUCKETS = 16
"""The highest bid of a window is first sought in each of so many parts of the auctions."""


def events(dataset: Dataset) -> Tables:
    """One stream of key, ts and value."""
    return {"events": generate_events(dataset)}


def two_streams(dataset: Dataset) -> Tables:
    """Alternate events, each stream half of them."""
    rows = generate_events(dataset)
    left, right = (rows.take(pa.array(np.arange(side, rows.num_rows, 2))) for side in range(2))
    return {"left": left, "right": right}


def updates(dataset: Dataset) -> Tables:
    """One stream of key and value; the keys are drawn uniformly from all of the dataset."""
    random = np.random.default_rng([dataset.rows, dataset.keys])
    return {"events": update_rows(random.integers(0, dataset.keys, dataset.rows), dataset.keys)}


def each_key(table: pa.Table, copy: Copy) -> pa.Table:
    """As many rows, which go through the keys of the dataset in turn from copy to copy."""
    keys, start = copy.dataset.keys, copy.rows_before
    return update_rows(np.arange(start, start + table.num_rows, dtype=np.int64) % keys, keys)


def update_rows(keys: np.ndarray, count: int) -> pa.Table:
    """Key, such as user-0001234, and value."""
    digits = pc.utf8_lpad(pa.array(keys, pa.int64()).cast(pa.string()), len(str(count)), "0")
    names = pc.binary_join_element_wise("user", digits, "-")
    return pa.table({"key": names, "value": pa.array((keys % 10_000) / 100.0, pa.float64())})


def bids(dataset: Dataset) -> Tables:
    """The bids of Nexmark."""
    return {"bids": nexmark.generate_bids(dataset)}


def persons_and_auctions(dataset: Dataset) -> Tables:
    """The persons and auctions of Nexmark."""
    return {"persons": nexmark.generate_persons(dataset), "auctions": nexmark.generate_auctions(dataset)}


def bids_per_bucket(tables: Tables) -> int:
    """The highest bids of all parts of the auctions."""
    table = tables["bids"]
    parts = pa.array(table["auction"].to_numpy() % BUCKETS)
    return oracles.window_keys(table.append_column("bucket", parts), "bucket", WINDOW_MS)


nexmark_query = partial(
    Workload, tables=bids, copy=days_before, fires_windows=True, data="nexmark", quick_data="nexmark_smoke"
)

ALL = (
    Workload("w1", "Running count and sum per key, a row out for each row in", events),
    Workload(
        "w2",
        "Count and sum per key in tumbling windows of 10 s of event time",
        events,
        lambda tables: oracles.window_counts(tables["events"], WINDOW_MS),
        days_before,
        fires_windows=True,
    ),
    Workload(
        "w3",
        "De-duplication: the first event of each key",
        events,
        lambda tables: oracles.key_count(tables["events"]),
        other_keys,
    ),
    Workload(
        "w4",
        "Interval join of two streams by key, right row at most 10 s after the left one",
        two_streams,
        lambda tables: oracles.join_pairs(tables["left"], tables["right"], JOIN_MS),
        days_before,
    ),
    Workload(
        "w5",
        "w1 on state in RocksDB, after every key was written once",
        updates,
        copy=each_key,
        fills_keys=True,
        data="keys_10m",
    ),
    nexmark_query(
        "w6_q5",
        "Nexmark q5, hot items: the auction with most bids in each window of 10 s, every 2 s",
        results=lambda tables: oracles.window_keys(tables["bids"], None, WINDOW_MS, SLIDE_MS),
        inner_results=lambda tables: oracles.window_keys(tables["bids"], "auction", WINDOW_MS, SLIDE_MS),
    ),
    nexmark_query(
        "w6_q7",
        "Nexmark q7, highest bid: of each window of 10 s",
        results=lambda tables: oracles.window_keys(tables["bids"], None, WINDOW_MS),
        inner_results=bids_per_bucket,
    ),
    nexmark_query(
        "w6_q8",
        "Nexmark q8, new users: persons who open an auction in the window of 10 s in which they came",
        tables=persons_and_auctions,
        results=lambda tables: oracles.common_window_keys(
            tables["persons"], tables["auctions"], ("id", "seller"), WINDOW_MS
        ),
    ),
    nexmark_query(
        "w6_q11",
        "Nexmark q11, sessions: bids of each bidder in sessions with a gap of 10 s",
        results=lambda tables: oracles.session_count(tables["bids"], "bidder", SESSION_GAP_MS),
    ),
    Workload(
        "w7",
        "Checkpoints, savepoints and restores of one subtask",
        events,
        reads_input=False,
        made_rows=lambda dataset: dataset.keys,
        data="keys_1m",
    ),
    Workload(
        "w8",
        "Latency: from a row's creation to its output, at a fixed rate",
        events,
        reads_input=False,
        data="rate_10k",
        quick_data="rate_smoke",
    ),
    Workload("w9", "w1, and behind a second exchange the sum of all totals with the same count", events),
)
WORKLOADS = {workload.name: workload for workload in ALL}


def load_workload(name: str) -> Workload:
    """The workload of that name."""
    if name not in WORKLOADS:
        raise BenchUsageError(f"there is no workload {name!r}; choose from {', '.join(WORKLOADS)}")
    return WORKLOADS[name]
