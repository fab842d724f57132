"""The events of the Nexmark benchmark, made from a fixed seed: an auction house with persons, auctions and bids.

Of 50 events one is a new person, three are auctions and 46 are bids. Half of the bids are for one of the hot auctions,
and three quarters of bids and auctions come from one of the hot persons. Only the columns that the queries read are
made. Timestamps are even and up to a second late.
"""

import numpy as np
import pyarrow as pa

from bench.datasets import START_MS, Dataset

EVENTS, PERSONS, AUCTIONS, BIDS = 50, 1, 3, 46
"""Of each kind, in a cycle of the generator."""
JITTER_MS = 1_000
HOT_STEP = 100
"""Every hundredth auction and person is hot while it is the newest of them."""
AUCTIONS_IN_FLIGHT, ACTIVE_PERSONS = 100, 1_000
FIRST_NAMES = ("Ada", "Bea", "Carl", "Dora", "Emil", "Fay", "Gus", "Hal", "Ida", "Jon")
LAST_NAMES = ("Abel", "Berg", "Cole", "Dunn", "Eder", "Frey", "Gray", "Hale", "Ives", "Jung")


def generate_bids(dataset: Dataset) -> pa.Table:
    """`dataset.rows` bids: auction, bidder, price in cents, ts."""
    random = np.random.default_rng([dataset.rows, BIDS])
    number = np.arange(dataset.rows, dtype=np.int64)
    cycle = number // BIDS
    event = cycle * EVENTS + PERSONS + AUCTIONS + number % BIDS
    price = (100 * 10 ** (6 * random.random(dataset.rows))).round().astype(np.int64)
    return pa.table(
        {
            "auction": _pick(random, cycle * AUCTIONS + AUCTIONS - 1, 0.5, AUCTIONS_IN_FLIGHT),
            "bidder": _pick(random, cycle, 0.75, ACTIVE_PERSONS),
            "price": price,
            "ts": _times(random, event, dataset.events_per_s),
        }
    )


def generate_persons(dataset: Dataset) -> pa.Table:
    """The persons, a quarter of `dataset.rows`: id, name, ts."""
    count = dataset.rows * PERSONS // (PERSONS + AUCTIONS)
    random = np.random.default_rng([dataset.rows, PERSONS])
    number = np.arange(count, dtype=np.int64)
    names = pa.array([f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES])
    return pa.table(
        {
            "id": number,
            "name": names.take(pa.array(random.integers(0, len(names), count))),
            "ts": _times(random, number * EVENTS, dataset.events_per_s),
        }
    )


def generate_auctions(dataset: Dataset) -> pa.Table:
    """The auctions, three quarters of `dataset.rows`: id, seller, ts."""
    count = dataset.rows * AUCTIONS // (PERSONS + AUCTIONS)
    random = np.random.default_rng([dataset.rows, AUCTIONS])
    number = np.arange(count, dtype=np.int64)
    cycle = number // AUCTIONS
    event = cycle * EVENTS + PERSONS + number % AUCTIONS
    return pa.table(
        {
            "id": number,
            "seller": _pick(random, cycle, 0.75, ACTIVE_PERSONS),
            "ts": _times(random, event, dataset.events_per_s),
        }
    )


def _pick(random: np.random.Generator, newest: np.ndarray, hot_part: float, recent: int) -> np.ndarray:
    """For each event the hot id, or one of the most recent ones."""
    ids = newest - random.integers(0, recent, len(newest))
    is_hot = random.random(len(newest)) < hot_part
    return np.where(is_hot, newest // HOT_STEP * HOT_STEP, np.maximum(ids, 0))


def _times(random: np.random.Generator, event: np.ndarray, events_per_s: int) -> np.ndarray:
    """Even, so that no two of them are an odd gap apart."""
    late_ms = random.integers(0, JITTER_MS, len(event))
    return START_MS + (event * 1000 // events_per_s + late_ms) // 2 * 2
