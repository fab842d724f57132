"""Workload W2 on PyFlink: count and sum per key in tumbling windows of 10 s."""

import pyflink_run
from pyflink.common import Time, Types
from pyflink.datastream import AggregateFunction
from pyflink.datastream.window import TumblingEventTimeWindows


class CountAndSum(AggregateFunction):
    def create_accumulator(self):
        return 0, 0.0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value[2]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def build(env, args):
    pair = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
    events = pyflink_run.read_records(env, args, "events", pyflink_run.parse_event, pyflink_run.EVENT, time_position=1)
    windows = events.key_by(lambda event: event[0], Types.STRING()).window(
        TumblingEventTimeWindows.of(Time.seconds(10))
    )
    return windows.aggregate(CountAndSum(), accumulator_type=pair, output_type=pair), pair


if __name__ == "__main__":
    pyflink_run.run(build)
