"""The job that the tests look at in a browser: made-up purchases, at a steady rate, summed up by customer."""

import sys

from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor

CUSTOMERS = ("ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal")
RATE = 200


def purchases(start_ms):
    """The function that makes them. It is called in Spark's Python processes, which have other arguments."""

    def purchase(number):
        customer = CUSTOMERS[number % 7] if number % 3 else f"guest-{number % 500}"
        return customer, float(number % 90), start_ms + number * 1000 // RATE

    return purchase


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Total(KeyedProcessFunction):
    """The sum of each customer's purchases, kept for a day after the last one."""

    def open(self, ctx):
        descriptor = ValueStateDescriptor("total", Types.DOUBLE())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())
        self.total = ctx.get_state(descriptor)

    def process_element(self, value, ctx):
        total = (self.total.value() or 0.0) + value[1]
        self.total.update(total)
        yield value[0], total


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(5_000)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_assigner(At())
    record = Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.LONG()])
    source = DataGeneratorSource.of(purchases(int(sys.argv[1])), record, rows_per_second=RATE)
    (
        env.from_source(source, strategy, "purchases")
        .uid("purchases")
        .filter(lambda value: value[1] > 0)
        .uid("positive")
        .key_by(lambda value: value[0], Types.STRING())
        .process(Total(), Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
        .uid("totals")
        .name("Total per customer")
        .print()
    )
    env.execute("purchases")


if __name__ == "__main__":
    main()
