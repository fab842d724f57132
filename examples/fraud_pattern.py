"""Fraud: a small payment that tries the card, then a large one within ten minutes, without a login in between."""

from penstock.cep import CEP, AfterMatchSkipStrategy, Pattern
from penstock.common import Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import OutputTag, StreamExecutionEnvironment

MINUTE = 60_000
EVENTS = [
    ("ada", "pay", 1.0, 0 * MINUTE),
    ("bob", "pay", 0.5, 1 * MINUTE),
    ("bob", "login", 0.0, 2 * MINUTE),
    ("ada", "pay", 1.5, 3 * MINUTE),
    ("cleo", "pay", 1.0, 4 * MINUTE),
    ("ada", "pay", 900.0, 5 * MINUTE),
    ("bob", "pay", 700.0, 6 * MINUTE),
    ("cleo", "pay", 800.0, 20 * MINUTE),
]
EVENT = Types.ROW_NAMED(
    ["card", "what", "amount", "at"], [Types.STRING(), Types.STRING(), Types.DOUBLE(), Types.LONG()]
)
TESTED = OutputTag("tested", Types.STRING())


class ByTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.at


fraud = (
    Pattern.begin("small", AfterMatchSkipStrategy.skip_past_last_event())
    .where(lambda e: e.what == "pay" and e.amount < 2)
    .one_or_more()
    .greedy()
    .not_followed_by("login")
    .where(lambda e: e.what == "login")
    .followed_by("large")
    .where(lambda e, ctx: e.amount > 100 * max(small.amount for small in ctx.get_events_for_pattern("small")))
    .within(Time.minutes(10))
)


def alert(match):
    return f"{match['large'][0].card}: {match['large'][0].amount} after {[e.amount for e in match['small']]}"


env = StreamExecutionEnvironment.get_execution_environment()
times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByTime())
payments = env.from_collection(EVENTS, EVENT).assign_timestamps_and_watermarks(times)
alerts = (
    CEP.pattern(payments.key_by(lambda e: e.card, Types.STRING()), fraud)
    .select(alert, Types.STRING(), timeout_tag=TESTED, timeout_fn=lambda match, at: f"tested: {match['small'][0].card}")
    .uid("fraud")
)
alerts.print()
alerts.get_side_output(TESTED).print()
env.execute("fraud")
