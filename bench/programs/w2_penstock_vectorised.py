"""Workload W2 on Penstock with `window(...).agg`, which aggregates columns."""

import argparse

from w2_input import WINDOW_MS
from w2_penstock import main, timed_events

from penstock.common import Time
from penstock.connectors.discard import DiscardingSink
from penstock.datastream import StreamExecutionEnvironment, agg
from penstock.datastream.window import TumblingEventTimeWindows


def build(env: StreamExecutionEnvironment, args: argparse.Namespace) -> None:
    windows = timed_events(env, args).key_by("key").window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
    totals = windows.agg(n=agg.count(), total=agg.sum("value"))
    totals.uid("count-and-sum").sink_to(DiscardingSink()).uid("discard")


if __name__ == "__main__":
    main(build)
