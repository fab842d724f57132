"""Workload W1 on Bytewax: one process of the cluster."""

import argparse
import json
import time
from pathlib import Path

import bytewax.operators as op
from bytewax.connectors.files import DirSource
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.run import cli_main

# This process's part of the run: rows out, and when its first record came in and its last one went out.
span = {"rows": 0, "rows_out": 0, "started_ms": 0.0, "finished_ms": 0.0}


def parse(lines):
    if not span["rows"]:
        span["started_ms"] = time.time() * 1000
    span["rows"] += len(lines)
    return [(key, float(value)) for key, _, value in (line.split(",") for line in lines)]


def count_and_sum(totals, value):
    n, total = totals or (0, 0.0)
    totals = (n + 1, total + value)
    return totals, totals


class Discard(StatelessSinkPartition):
    def write_batch(self, items):
        span["rows_out"] += len(items)
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

    flow = Dataflow("w1")
    lines = op.input("read", flow, DirSource(args.data, batch_size=1000))
    events = op.flat_map_batch("parse", lines, parse)
    totals = op.stateful_map("count_and_sum", events, count_and_sum)
    op.output("discard", totals, DiscardSink())
    cli_main(flow, process_id=args.process, addresses=args.addresses.split(";"))
    if span["rows"] or span["rows_out"]:
        span["started_ms"] = span["started_ms"] or span["finished_ms"]
        span["finished_ms"] = span["finished_ms"] or span["started_ms"]
        args.events.write_text(json.dumps(span) + "\n")


if __name__ == "__main__":
    main()
