"""Workload W2 on Bytewax: one process of the cluster. `rows_out` are the rows of all windows together."""

import argparse
import json
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.connectors.files import DirSource
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.run import cli_main

# This process's part of the run: rows out, and when its first record came in and its last one went out.
span = {"rows": 0, "rows_out": 0, "started_ms": 0.0, "finished_ms": 0.0}
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def parse(lines):
    if not span["rows"]:
        span["started_ms"] = time.time() * 1000
    span["rows"] += len(lines)
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


class Discard(StatelessSinkPartition):
    def write_batch(self, items):
        span["rows_out"] += sum(totals[0] for _, (_, totals) in items)
        span["finished_ms"] = time.time() * 1000


class DiscardSink(DynamicSink):
    def build(self, step_id, worker_index, worker_count):
        return Discard()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--addresses", required=True)
    parser.add_argument("--process", type=int, required=True)
    parser.add_argument("--events", type=Path, required=True)
    args = parser.parse_args()

    flow = Dataflow("w2")
    lines = op.input("read", flow, DirSource(args.data, batch_size=1000))
    events = op.flat_map_batch("parse", lines, parse)
    # The processes read at different speeds: a minute is enough that no row is late, as for the other engines.
    clock = win.EventClock(event_time, wait_for_system_duration=timedelta(minutes=1))
    windower = win.TumblingWindower(length=timedelta(seconds=10), align_to=EPOCH)
    totals = win.fold_window("count_and_sum", events, clock, windower, nothing, add, merge)
    op.output("discard", totals.down, DiscardSink())
    cli_main(flow, process_id=args.process, addresses=args.addresses.split(";"))
    if span["rows"] or span["rows_out"]:
        span["started_ms"] = span["started_ms"] or span["finished_ms"]
        span["finished_ms"] = span["finished_ms"] or span["started_ms"]
        args.events.write_text(json.dumps(span) + "\n")


if __name__ == "__main__":
    main()
