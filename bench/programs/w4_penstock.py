"""Workload W4 on Penstock: an interval join."""

import penstock_run

from penstock.common import Time
from penstock.connectors.discard import DiscardingSink
from penstock.datastream import ProcessJoinFunction

SCHEMA = "key string, ts bigint, value double"
JOIN_MS = 10_000


class Pair(ProcessJoinFunction):
    """Both values."""

    def process_element(self, left, right, ctx):
        yield left.key, left.value, right.value


def build(env, args) -> None:
    """Two streams of files, the join, nothing."""
    left, right = (penstock_run.read_stream(env, args, name, SCHEMA, "6 seconds") for name in ("left", "right"))
    joined = left.key_by("key").interval_join(right.key_by("key")).between(0, Time.milliseconds(JOIN_MS))
    pairs = joined.process(Pair(), "key string, left_value double, right_value double").uid("pairs")
    pairs.sink_to(DiscardingSink()).uid("discard")


if __name__ == "__main__":
    penstock_run.run(build)
