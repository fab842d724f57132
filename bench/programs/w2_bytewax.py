"""Workload W2 on Bytewax: one process of the cluster."""

from datetime import datetime, timedelta, timezone

import bytewax.operators.windowing as win
import bytewax_run

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def parse(lines):
    parts = (line.split(",") for line in lines)
    return [(key, (datetime.fromtimestamp(int(ts) / 1000, timezone.utc), float(value))) for key, ts, value in parts]


def event_time(event):
    return event[0]


def nothing():
    return 0, 0.0


def add(totals, event):
    return totals[0] + 1, totals[1] + event[1]


def merge(a, b):
    return a[0] + b[0], a[1] + b[1]


def build(flow, args):
    events = bytewax_run.read_records(flow, args.input / "events", parse)
    # The processes read at different speeds, and the watermark of a key goes on while no row of it comes: ten minutes
    # are enough that no row is late, as for the other engines.
    clock = win.EventClock(event_time, wait_for_system_duration=timedelta(minutes=10))
    windower = win.TumblingWindower(length=timedelta(seconds=10), align_to=EPOCH)
    return win.fold_window("count_and_sum", events, clock, windower, nothing, add, merge).down


if __name__ == "__main__":
    bytewax_run.run(build)
