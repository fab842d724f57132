"""The job that commands in a terminal steer: made-up purchases, summed up by customer in a queryable state, into files.

Arguments: the folder for the results.
"""

import sys

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource, FileSink
from penstock.datastream.state import ValueStateDescriptor


class Total(KeyedProcessFunction):
    """The sum of each customer's purchases."""

    def open(self, ctx):
        descriptor = ValueStateDescriptor("total", Types.LONG())
        descriptor.set_queryable("totals")
        self.total = ctx.get_state(descriptor)

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield value[0], total


def main(output: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(2_000)
    record = Types.TUPLE([Types.STRING(), Types.LONG()])
    source = DataGeneratorSource.of(lambda number: (f"customer-{number % 7}", number % 90), record, rows_per_second=50)
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "purchases")
        .uid("purchases")
        .key_by(lambda value: value[0], Types.STRING())
        .process(Total(), "customer string, total bigint")
        .uid("totals")
        .sink_to(FileSink.for_row_format(output, "json").build())
        .uid("results")
    )
    env.execute("purchases")


if __name__ == "__main__":
    main(*sys.argv[1:])
