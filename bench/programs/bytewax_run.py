"""Runs one process of a cluster on Bytewax, and says which part of the run was its own."""

import argparse
import json
import os
import time
from datetime import timedelta
from pathlib import Path

import bytewax.operators as op
from bytewax.connectors.files import DirSource
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

POLL_S = 0.05

# This process's part of the run: rows out, and when its first record came in and its last one went out.
span = {"rows": 0, "rows_out": 0, "started_ms": 0.0, "finished_ms": 0.0}


class Discard(StatelessSinkPartition):
    def __init__(self, count):
        self.count = count

    def write_batch(self, items):
        span["rows_out"] += self.count(items)
        span["finished_ms"] = time.time() * 1000


class DiscardSink(DynamicSink):
    def __init__(self, count):
        self.count = count

    def build(self, step_id, worker_index, worker_count):
        return Discard(self.count)


def read_records(flow, folder, parse):
    """The records that `parse` makes of a thousand lines of the files in a folder."""

    def parse_and_count(lines):
        if not span["rows"]:
            span["started_ms"] = time.time() * 1000
        span["rows"] += len(lines)
        return parse(lines)

    lines = op.input("read", flow, DirSource(folder, batch_size=1000))
    return op.flat_map_batch("parse", lines, parse_and_count)


def recovery_config(args):
    """Where snapshots go: the first process makes the files, the others wait for them."""
    if args.recovery is None:
        return None
    if args.process == 0:
        unfinished = args.recovery.with_name("recovery.new")
        unfinished.mkdir()
        init_db_dir(unfinished, len(args.addresses.split(";")))
        os.rename(unfinished, args.recovery)
    while not args.recovery.exists():
        time.sleep(POLL_S)
    return RecoveryConfig(args.recovery)


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", type=Path, help="a folder for each stream")
    parser.add_argument("--addresses", required=True)
    parser.add_argument("--process", type=int, required=True)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--recovery", type=Path, help="folder of snapshots, one every 5 s")
    parser.add_argument("--query", default="")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--keys", type=int)
    parser.add_argument("--rows-per-s", type=int)
    return parser.parse_args()


def run_flow(flow, args):
    """Run this process to the end of the input."""
    interval = None if args.recovery is None else timedelta(seconds=5)
    cli_main(
        flow,
        process_id=args.process,
        addresses=args.addresses.split(";"),
        epoch_interval=interval,
        recovery_config=recovery_config(args),
    )


def run(build, count=len):
    """Run the flow that ends with the stream `build(flow, args)`; `count` says for how many results its items stand."""
    args = parse_arguments()
    flow = Dataflow("bench")
    results = build(flow, args)
    op.output("discard", results, DiscardSink(count))
    run_flow(flow, args)
    if span["rows"] or span["rows_out"]:
        span["started_ms"] = span["started_ms"] or span["finished_ms"]
        span["finished_ms"] = span["finished_ms"] or span["started_ms"]
        args.events.write_text(json.dumps(span) + "\n")
