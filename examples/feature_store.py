"""Feature store: each prediction request gets a customer's features as they were at the request's time.

Features and requests are unioned and keyed by customer. A request waits until the watermark has passed its time, so the
answer does not depend on which of the two streams is faster.
"""

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor

EVENT = "customer string, day int, amount double"
PURCHASES = [("ada", 1, 20.0), ("bob", 2, 5.0), ("ada", 3, 40.0), ("ada", 9, 10.0), ("bob", 9, 7.0)]
REQUESTS = [("ada", 3, None), ("ada", 8, None), ("bob", 8, None), ("ada", 9, None)]
DAY_MS = 86_400_000
WINDOW_DAYS = 7


class Features(KeyedProcessFunction):
    """Purchases of the last seven days: how many, their sum and the largest, by day in map state."""

    def open(self, ctx):
        self.amounts = ctx.get_map_state(MapStateDescriptor("amounts", Types.INT(), Types.LIST(Types.DOUBLE())))
        self.requests = ctx.get_list_state(ListStateDescriptor("requests", Types.INT()))

    def process_element(self, event, ctx):
        if event.amount is None:
            self.requests.add(event.day)
        else:
            self.amounts.put(event.day, [*(self.amounts.get(event.day) or []), event.amount])
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp, ctx):
        today = timestamp // DAY_MS
        days = dict(self.amounts.items())
        recent = [amount for day, found in days.items() if today - WINDOW_DAYS < day <= today for amount in found]
        waiting = list(self.requests.get())
        for _ in range(waiting.count(today)):
            yield ctx.get_current_key(), today, len(recent), sum(recent), max(recent, default=0.0)
        self.requests.update([day for day in waiting if day != today])
        for day in [day for day in days if day <= today - WINDOW_DAYS]:
            self.amounts.remove(day)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
purchases = env.from_collection(PURCHASES, EVENT).uid("purchases")
requests = env.from_collection(REQUESTS, EVENT).uid("requests")
by_day = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda event, _: event.day * DAY_MS)
(
    purchases.union(requests)
    .assign_timestamps_and_watermarks(by_day)
    .uid("time")
    .key_by("customer")
    .process(Features(), output_type="customer string, day int, purchases int, total double, largest double")
    .uid("features")
    .print()
)
env.execute("feature-store")
