"""Workload W1 on PyFlink."""

import pyflink_run
from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor


class CountAndSum(KeyedProcessFunction):
    """Running count and sum of a key's values; the value is the last field."""

    def open(self, ctx: RuntimeContext):
        totals = ValueStateDescriptor("totals", Types.TUPLE([Types.LONG(), Types.DOUBLE()]))
        self.totals = ctx.get_state(totals)

    def process_element(self, event, ctx):
        n, total = self.totals.value() or (0, 0.0)
        n += 1
        total += event[-1]
        self.totals.update((n, total))
        yield event[0], n, total


TOTALS = Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()])


def build(env, args):
    events = pyflink_run.read_records(env, args, "events", pyflink_run.parse_event, pyflink_run.EVENT)
    return events.key_by(lambda event: event[0], Types.STRING()).process(CountAndSum(), TOTALS), TOTALS


if __name__ == "__main__":
    pyflink_run.run(build)
