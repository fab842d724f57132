"""Query q11 of workload W6 on Bytewax: one process of the cluster."""

from datetime import datetime, timedelta, timezone

import bytewax.operators.windowing as win
import bytewax_run


def parse(lines):
    parts = (line.split(",") for line in lines)
    return [(bidder, datetime.fromtimestamp(int(ts) / 1000, timezone.utc)) for _, bidder, _, ts in parts]


def itself(time):
    return time


def zero():
    return 0


def add(count, time):
    return count + 1


def merge(a, b):
    return a + b


def build(flow, args):
    bids = bytewax_run.read_records(flow, args.input / "bids", parse)
    # The processes read at different speeds, and the watermark of a key goes on while no row of it comes: ten minutes
    # are enough that no row is late, as for the other engines.
    clock = win.EventClock(itself, wait_for_system_duration=timedelta(minutes=10))
    windower = win.SessionWindower(gap=timedelta(milliseconds=9_999))
    return win.fold_window("sessions", bids, clock, windower, zero, add, merge).down


if __name__ == "__main__":
    bytewax_run.run(build)
