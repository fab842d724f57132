"""Workload W3 on PyFlink: the first event of each key."""

import pyflink_run
from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor

SEEN = True


class FirstOfKey(KeyedProcessFunction):
    def open(self, ctx: RuntimeContext):
        self.seen = ctx.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def process_element(self, event, ctx):
        if self.seen.value() is None:
            self.seen.update(SEEN)
            yield event


def build(env, args):
    events = pyflink_run.read_records(env, args, "events", pyflink_run.parse_event, pyflink_run.EVENT)
    firsts = events.key_by(lambda event: event[0], Types.STRING()).process(FirstOfKey(), pyflink_run.EVENT)
    return firsts, pyflink_run.EVENT


if __name__ == "__main__":
    pyflink_run.run(build)
