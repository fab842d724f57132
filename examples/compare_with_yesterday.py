"""Comparison with yesterday: each hour's flow next to that of the same hour a day before, kept in map state."""

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import MapStateDescriptor

READINGS = [  # meter, hours since Monday 00:00, flow
    ("mill", 8, 40.0),
    ("mill", 9, 44.0),
    ("dam", 9, 100.0),
    ("mill", 32, 50.0),
    ("mill", 33, 33.0),
    ("dam", 34, 90.0),
    ("mill", 56, 55.0),
]
HOUR_MS = 3_600_000
DAY_HOURS = 24


class AgainstYesterday(KeyedProcessFunction):
    """Remembers the flow of each hour for a day; a timer removes what nothing can be compared with any more."""

    def open(self, ctx):
        self.flows = ctx.get_map_state(MapStateDescriptor("flows", Types.LONG(), Types.DOUBLE()))

    def process_element(self, reading, ctx):
        before = self.flows.get(reading.hour - DAY_HOURS)
        self.flows.put(reading.hour, reading.flow)
        ctx.timer_service().register_event_time_timer((reading.hour + DAY_HOURS + 1) * HOUR_MS)
        change = None if before is None else round(100 * (reading.flow - before) / before, 1)
        yield reading.meter, reading.hour, reading.flow, change

    def on_timer(self, timestamp, ctx):
        self.flows.remove(timestamp // HOUR_MS - DAY_HOURS - 1)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
in_order = WatermarkStrategy.for_monotonous_timestamps()
(
    env.from_collection(READINGS, "meter string, hour bigint, flow double")
    .uid("readings")
    .assign_timestamps_and_watermarks(in_order.with_timestamp_assigner(lambda reading, _: reading.hour * HOUR_MS))
    .uid("time")
    .key_by("meter")
    .process(AgainstYesterday(), output_type="meter string, hour bigint, flow double, change_percent double")
    .uid("against-yesterday")
    .print()
)
env.execute("compare-with-yesterday")
