"""Workload W5 on Penstock: workload W1, on a backend for more keys than fit into memory."""

import penstock_run

from penstock.common import Types
from penstock.connectors.discard import DiscardingSink
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ValueStateDescriptor


class CountAndSum(KeyedProcessFunction):
    """Running count and sum of a key's values."""

    def open(self, ctx: RuntimeContext) -> None:
        self.totals = ctx.get_state(ValueStateDescriptor("totals", Types.TUPLE([Types.LONG(), Types.DOUBLE()])))

    def process_element(self, event, ctx):
        n, total = self.totals.value() or (0, 0.0)
        n += 1
        total += event.value
        self.totals.update((n, total))
        yield event.key, n, total


def build(env, args) -> None:
    """Files, function, nothing."""
    events = penstock_run.read_stream(env, args, "events", "key string, value double")
    totals = events.key_by("key").process(CountAndSum(), output_type="key string, n bigint, total double")
    totals.uid("count-and-sum").sink_to(DiscardingSink()).uid("discard")


if __name__ == "__main__":
    penstock_run.run(build)
