"""Workload W3 on Penstock: the first event of each key, by a function with one value state."""

import penstock_run

from penstock.common import Types
from penstock.connectors.discard import DiscardingSink
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ValueStateDescriptor

SEEN = True


class FirstOfKey(KeyedProcessFunction):
    """Passes the first event of a key on."""

    def open(self, ctx: RuntimeContext) -> None:
        self.seen = ctx.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def process_element(self, event, ctx):
        if self.seen.value() is None:
            self.seen.update(SEEN)
            yield event.key, event.ts, event.value


def build(env, args) -> None:
    """Files, function, nothing."""
    schema = "key string, ts bigint, value double"
    events = penstock_run.read_stream(env, args, "events", schema)
    firsts = events.key_by("key").process(FirstOfKey(), output_type=schema).uid("first-of-key")
    firsts.sink_to(DiscardingSink()).uid("discard")


if __name__ == "__main__":
    penstock_run.run(build)
