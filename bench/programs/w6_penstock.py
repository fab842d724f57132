"""Workload W6 on Penstock: four queries of Nexmark."""

import penstock_run

from penstock.common import Time, Types
from penstock.connectors.discard import DiscardingSink
from penstock.datastream import AggregateFunction, ProcessWindowFunction
from penstock.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

BIDS = "auction bigint, bidder bigint, price bigint, ts bigint"
LATENESS = "2 seconds"
WINDOW = Time.milliseconds(10_000)
SLIDE = Time.milliseconds(2_000)
SESSION_GAP = Time.milliseconds(9_999)
BUCKETS = 16


class Count(AggregateFunction):
    """How many records."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Highest(AggregateFunction):
    """The record with the highest value of a column; of equal ones that with the smallest id."""

    def __init__(self, column: str, id_column: str) -> None:
        self.column = column
        self.id_column = id_column

    def create_accumulator(self):
        return -1, 0

    def add(self, value, accumulator):
        return max(accumulator, (value[self.column], -value[self.id_column]))

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return max(acc_a, acc_b)


class WithWindow(ProcessWindowFunction):
    """The key, the end of the window and the result."""

    def process(self, key, context, elements):
        for result in elements:
            yield key, context.window().end, result


class WindowOnly(ProcessWindowFunction):
    """The end of the window and both parts of the result."""

    def process(self, key, context, elements):
        for amount, negative_id in elements:
            yield context.window().end, amount, -negative_id


class Newcomer(AggregateFunction):
    """The name of a person who came, and whether the person has opened an auction."""

    def create_accumulator(self):
        return "", False

    def add(self, value, accumulator):
        return value.name or accumulator[0], accumulator[1] or not value.name

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a[0] or acc_b[0], acc_a[1] or acc_b[1]


class IfBoth(ProcessWindowFunction):
    """A result for persons with both."""

    def process(self, key, context, elements):
        for name, has_auction in elements:
            if name and has_auction:
                yield key, name, context.window().start


PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


def hot_items(env, args):
    """The auction with most bids in each window."""
    bids = penstock_run.read_stream(env, args, "bids", BIDS, LATENESS)
    windows = bids.key_by("auction").window(SlidingEventTimeWindows.of(WINDOW, SLIDE))
    counts = windows.aggregate(Count(), WithWindow(), Types.LONG(), "auction bigint, until bigint, bids bigint")
    windows = counts.uid("bids-per-auction").key_by("until").window(TumblingEventTimeWindows.of(SLIDE))
    return windows.aggregate(
        Highest("bids", "auction"), WindowOnly(), PAIR, "until bigint, bids bigint, auction bigint"
    )


def highest_bid(env, args):
    """The highest bid of each window, first of each part of the auctions."""
    bids = penstock_run.read_stream(env, args, "bids", BIDS, LATENESS)
    windows = bids.with_column("bucket", f"auction % {BUCKETS}").key_by("bucket")
    parts = windows.window(TumblingEventTimeWindows.of(WINDOW)).aggregate(
        Highest("price", "auction"), WindowOnly(), PAIR, "until bigint, price bigint, auction bigint"
    )
    windows = parts.uid("highest-of-part").key_by("until").window(TumblingEventTimeWindows.of(WINDOW))
    return windows.aggregate(
        Highest("price", "auction"), WindowOnly(), PAIR, "until bigint, price bigint, auction bigint"
    )


def new_users(env, args):
    """Persons who open an auction in the window in which they came."""
    persons = penstock_run.read_stream(env, args, "persons", "id bigint, name string, ts bigint", LATENESS)
    auctions = penstock_run.read_stream(env, args, "auctions", "id bigint, seller bigint, ts bigint", LATENESS)
    sellers = auctions.select("seller as id", "'' as name", "at")
    windows = persons.union(sellers).key_by("id").window(TumblingEventTimeWindows.of(WINDOW))
    kept = Types.TUPLE([Types.STRING(), Types.BOOLEAN()])
    return windows.aggregate(Newcomer(), IfBoth(), kept, "id bigint, name string, start bigint")


def sessions(env, args):
    """How many bids each session of a bidder has."""
    bids = penstock_run.read_stream(env, args, "bids", BIDS, LATENESS)
    windows = bids.key_by("bidder").window(EventTimeSessionWindows.with_gap(SESSION_GAP))
    return windows.aggregate(Count(), WithWindow(), Types.LONG(), "bidder bigint, until bigint, bids bigint")


QUERIES = {"q5": hot_items, "q7": highest_bid, "q8": new_users, "q11": sessions}


def build(env, args) -> None:
    """The query, and nothing behind it."""
    QUERIES[args.query](env, args).uid("results").sink_to(DiscardingSink()).uid("discard")


if __name__ == "__main__":
    penstock_run.run(build)
