"""Stream-stream join: orders with the payments that came within ten minutes, and both per customer and hour.

The interval join keeps an order in state for as long as a payment for it may come. The coGroup is an outer join: an
hour without payments gives a result too.
"""

from penstock.common import Time, Types, WatermarkStrategy
from penstock.datastream import CoGroupFunction, ProcessJoinFunction, StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows

ORDER, PAYMENT = "id int, customer string, minute int", "order_id int, customer string, minute int, paid double"
ORDERS = [(1, "ada", 0), (2, "bob", 3), (3, "ada", 70), (4, "eve", 75)]
PAYMENTS = [
    (1, "ada", 2, 20.0),
    (2, "bob", 12, 5.0),
    (1, "ada", 8, 1.5),
    (3, "ada", 81, 9.0),
]  # the last one is too late
MINUTE_MS = 60_000


class Paid(ProcessJoinFunction):
    def process_element(self, order, payment, ctx):
        if order.id == payment.order_id:
            waited_ms = ctx.get_right_timestamp() - ctx.get_left_timestamp()
            yield order.id, order.customer, payment.paid, waited_ms // MINUTE_MS


class Open(CoGroupFunction):
    """Orders of a customer's hour against payments of that hour."""

    def co_group(self, orders, payments):
        customer = (orders or payments)[0].customer
        yield customer, len(orders), sum(payment.paid for payment in payments)


def stream(env, records, kind, name):
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r.minute * MINUTE_MS)
    return env.from_collection(records, kind).uid(name).assign_timestamps_and_watermarks(timed).uid(f"{name}-time")


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
orders, payments = stream(env, ORDERS, ORDER, "orders"), stream(env, PAYMENTS, PAYMENT, "payments")
(
    orders.key_by("customer")
    .interval_join(payments.key_by("customer"))
    .between(Time.minutes(0), Time.minutes(10))
    .process(Paid(), Types.TUPLE([Types.INT(), Types.STRING(), Types.DOUBLE(), Types.LONG()]))
    .uid("paid")
    .print("paid")
)
hours = TumblingEventTimeWindows.of(Time.hours(1))
both = orders.co_group(payments).where("customer").equal_to("customer").window(hours)
both.apply(Open(), "customer string, orders int, paid double").uid("hours").print("hour")
env.execute("stream-join")
