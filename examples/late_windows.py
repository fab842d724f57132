"""Windows with late data: sales per minute, corrected while a late sale may still count, and what came too late."""

from penstock.common import Configuration, Duration, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import OutputTag, ProcessWindowFunction, StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows

SALES = [
    ("tea", 5, 2.0),
    ("tea", 50, 3.0),
    ("nuts", 40, 1.0),
    ("tea", 20, 1.5),  # out of order, but by less than a minute: not late
    ("tea", 170, 4.0),
    ("nuts", 250, 5.0),
    ("nuts", 251, 1.0),
    ("nuts", 252, 1.0),
    ("tea", 165, 7.0),  # late: the result of its minute was out, and is corrected
    ("tea", 55, 6.0),  # too late: its minute is forgotten
]
SALE = Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()])
TOO_LATE = OutputTag("too late", SALE)


class WithMinute(ProcessWindowFunction):
    """Gets the one sale that a window was reduced to."""

    def process(self, product, context, sales):
        for _, _, total in sales:
            yield product, context.window().start // 60_000, total


class At(TimestampAssigner):
    def extract_timestamp(self, sale, record_timestamp):
        return sale[1] * 1000


# One sale per epoch, so that time passes between them as it would in a stream.
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"penstock.epoch.max-rows": "1"}))
env.set_parallelism(2)
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(1)).with_timestamp_assigner(At())
totals = (
    env.from_collection(SALES, SALE)
    .uid("sales")
    .assign_timestamps_and_watermarks(strategy)
    .uid("time")
    .key_by(lambda sale: sale[0], Types.STRING())
    .window(TumblingEventTimeWindows.of(Time.minutes(1)))
    .allowed_lateness(60_000)
    .side_output_late_data(TOO_LATE)
    .reduce(lambda a, b: (a[0], a[1], a[2] + b[2]), WithMinute(), "product string, minute bigint, total double")
    .uid("totals")
)
totals.print()
totals.get_side_output(TOO_LATE).print("too late")
env.execute("late_windows")
