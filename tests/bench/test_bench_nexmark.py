"""The events of Nexmark."""

from collections import Counter

from bench.datasets import START_MS, Dataset
from bench.nexmark import JITTER_MS, generate_auctions, generate_bids, generate_persons

SMALL = Dataset("small", rows=46_000, keys=1, events_per_s=1_000)


def test_events_are_the_same_every_time() -> None:
    for generate in (generate_bids, generate_auctions, generate_persons):
        assert generate(SMALL).equals(generate(SMALL))


def test_persons_auctions_and_bids_are_one_to_three_to_forty_six() -> None:
    people = Dataset("people", rows=4_000, keys=1, events_per_s=1_000)
    assert (generate_persons(people).num_rows, generate_auctions(people).num_rows) == (1_000, 3_000)
    last_person, last_auction = generate_persons(people)["ts"][-1].as_py(), generate_auctions(people)["ts"][-1].as_py()
    last_bid = generate_bids(SMALL)["ts"][-1].as_py()  # of the same thousand cycles
    assert max(last_person, last_auction, last_bid) - min(last_person, last_auction, last_bid) <= 2 * JITTER_MS


def test_bids_are_for_auctions_and_by_persons_that_exist_already() -> None:
    bids = generate_bids(SMALL).to_pylist()
    for number, bid in enumerate(bids):
        cycle = number // 46
        assert 0 <= bid["auction"] < 3 * (cycle + 1) and 0 <= bid["bidder"] <= cycle
        assert 100 <= bid["price"] <= 10**8


def test_half_of_the_bids_are_for_hot_auctions_and_most_by_hot_persons() -> None:
    bids = generate_bids(SMALL)
    hot = sum(auction % 100 == 0 for auction in bids["auction"].to_pylist()) / SMALL.rows
    assert 0.49 < hot < 0.53
    bidders = Counter(bids["bidder"].to_pylist())
    assert sum(count for bidder, count in bidders.items() if bidder % 100 == 0) / SMALL.rows > 0.74


def test_timestamps_are_even_and_at_most_a_second_late() -> None:
    for number, ts in enumerate(generate_bids(SMALL)["ts"].to_pylist()):
        event = number // 46 * 50 + 4 + number % 46
        assert ts % 2 == 0 and -2 < ts - START_MS - event < JITTER_MS
