"""Sessions: the clicks of a visitor with less than half a minute between them are one visit."""

from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import EventTimeSessionWindows

CLICKS = [
    ("ada", 0, "/"),
    ("bob", 3, "/"),
    ("ada", 20, "/cart"),
    ("ada", 90, "/"),
    ("ada", 45, "/pay"),  # late: it belongs to the first visit
    ("bob", 60, "/help"),
]


class Visit(ProcessWindowFunction):
    """One row per visit, numbered by a state that outlives the window."""

    def open(self, ctx):
        self.visits = ValueStateDescriptor("visits", Types.LONG())

    def process(self, visitor, context, clicks):
        visits = context.global_state().get_state(self.visits)
        visits.update((visits.value() or 0) + 1)
        pages = [page for _, _, page in sorted(clicks, key=lambda click: click[1])]
        seconds = (context.window().end - context.window().start) // 1000 - 30
        yield visitor, visits.value(), seconds, " ".join(pages)


class At(TimestampAssigner):
    def extract_timestamp(self, click, record_timestamp):
        return click[1] * 1000


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(60)).with_timestamp_assigner(At())
clicks = env.from_collection(CLICKS, Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()])).uid("clicks")
(
    clicks.assign_timestamps_and_watermarks(strategy)
    .uid("time")
    .key_by(lambda click: click[0], Types.STRING())
    .window(EventTimeSessionWindows.with_gap(Time.seconds(30)))
    .process(Visit(), "visitor string, visit bigint, seconds bigint, pages string")
    .uid("visits")
    .print()
)
env.execute("sessions")
