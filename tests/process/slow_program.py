"""A function slower than its input. Arguments: folder of events, folder for output, microseconds for each event."""

import sys
import time

from penstock.common import Duration, Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import FileSink, FileSource
from penstock.datastream.state import ValueStateDescriptor


class Slow(KeyedProcessFunction):
    """Counts the events of each key, and takes its time for each."""

    def __init__(self, pause_s):
        self.pause_s = pause_s

    def open(self, ctx):
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, event, ctx):
        time.sleep(self.pause_s)  # noqa: TID251 - the program under test is slow
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield event.id, event.key, count


def main(events: str, output: str, pause_us: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    source = FileSource.of(events, "json", "id bigint, key string").monitor_continuously(Duration.of_millis(200))
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "events")
        .key_by("key")
        .process(Slow(int(pause_us) / 1e6), output_type="id bigint, key string, count bigint")
        .uid("slow")
        .sink_to(FileSink.for_row_format(output, "json").build())
        .uid("out")
    )
    env.execute("slow")


if __name__ == "__main__":
    main(*sys.argv[1:])
