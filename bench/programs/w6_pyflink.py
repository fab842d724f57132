"""Queries of workload W6 on PyFlink."""

import pyflink_run
from pyflink.common import Time, Types
from pyflink.datastream import AggregateFunction, ProcessWindowFunction
from pyflink.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

AUCTION, BIDDER, PRICE, TS = range(4)
BUCKETS = 16
BID = Types.TUPLE([Types.LONG()] * 4)
TRIPLE = Types.TUPLE([Types.LONG()] * 3)
"""The end of a window, an amount and an auction."""


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Highest(AggregateFunction):
    """The record with the highest value in a position; of equal ones that with the smallest auction."""

    def __init__(self, position, auction_position):
        self.position = position
        self.auction_position = auction_position

    def create_accumulator(self):
        return -1, 0

    def add(self, value, accumulator):
        return max(accumulator, (value[self.position], -value[self.auction_position]))

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return max(acc_a, acc_b)


class WithWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        for count in elements:
            yield context.window().end, count, key


class WindowOnly(ProcessWindowFunction):
    def process(self, key, context, elements):
        for amount, negative_auction in elements:
            yield context.window().end, amount, -negative_auction


def parse_bid(line):
    return tuple(map(int, line.split(",")))


def read_bids(env, args):
    return pyflink_run.read_records(env, args, "bids", parse_bid, BID, time_position=TS)


def aggregate(windows, function, window_function, accumulator_type):
    return windows.aggregate(function, window_function, accumulator_type, TRIPLE)


def hot_items(env, args):
    keyed = read_bids(env, args).key_by(lambda bid: bid[AUCTION], Types.LONG())
    windows = keyed.window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2)))
    counts = aggregate(windows, Count(), WithWindow(), Types.LONG())
    windows = counts.key_by(lambda count: count[0], Types.LONG()).window(TumblingEventTimeWindows.of(Time.seconds(2)))
    return aggregate(windows, Highest(1, 2), WindowOnly(), pyflink_run.LONG_PAIR)


def highest_bid(env, args):
    keyed = read_bids(env, args).key_by(lambda bid: bid[AUCTION] % BUCKETS, Types.LONG())
    windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(10)))
    parts = aggregate(windows, Highest(PRICE, AUCTION), WindowOnly(), pyflink_run.LONG_PAIR)
    windows = parts.key_by(lambda part: part[0], Types.LONG()).window(TumblingEventTimeWindows.of(Time.seconds(10)))
    return aggregate(windows, Highest(1, 2), WindowOnly(), pyflink_run.LONG_PAIR)


QUERIES = {"q5": hot_items, "q7": highest_bid}


def build(env, args):
    return QUERIES[args.query](env, args), TRIPLE


if __name__ == "__main__":
    pyflink_run.run(build)
