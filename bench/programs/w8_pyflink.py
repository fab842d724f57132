"""Workload W8 on PyFlink. A reader gets half of the numbers, so each makes rows at half of the rate."""

import time

import pyflink_run
from latency_log import LatencyLog, now_us, sum_up
from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, MapFunction, RuntimeContext
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor

AHEAD_US = 1_000
"""Rows that are due within a millisecond are not waited for."""


class Make(MapFunction):
    """Waits until a row is due."""

    def __init__(self, rows, rate, readers):
        self.part = rows // readers
        self.rate = rate
        self.readers = readers

    def open(self, ctx: RuntimeContext):
        self.start_us = 0

    def map(self, number):
        self.start_us = self.start_us or now_us()
        made_us = self.start_us + number % self.part * self.readers * 1_000_000 // self.rate
        ahead_us = made_us - now_us()
        if ahead_us > AHEAD_US:
            time.sleep(ahead_us / 1_000_000)
        return number, made_us


class Count(KeyedProcessFunction):
    def open(self, ctx: RuntimeContext):
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, row, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield row


class Latency(MapFunction):
    def __init__(self, work):
        self.work = work

    def open(self, ctx: RuntimeContext):
        self.log = LatencyLog(self.work)

    def map(self, row):
        self.log.add([row])
        return row

    def close(self):
        self.log.close()


def main():
    args = pyflink_run.parse_arguments()
    env = pyflink_run.make_environment(args)
    source = NumberSequenceSource(0, args.rows - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    pair = pyflink_run.LONG_PAIR
    rows = numbers.map(Make(args.rows, args.rows_per_s, args.parallelism), pair)
    keys = args.keys
    counts = rows.key_by(lambda row: row[0] * 7919 % keys, Types.LONG()).process(Count(), pair)
    counts.map(Latency(str(args.work)), pair).filter(lambda row: False).print()
    env.execute("bench-w8")
    sum_up(args.work, args.events, args.rows)


if __name__ == "__main__":
    main()
