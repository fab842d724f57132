"""Runs a program on Pathway until every row is in a commit. A file source never ends, so the process ends itself.

A commit is a batch: Pathway updates the counts of rows and results together, with one change of each for a commit.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import pathway as pw


class Event(pw.Schema):
    key: str
    ts: int
    value: float


class Commits:
    """Writes down each commit, and ends the process after the last one. Called by one thread of Pathway."""

    def __init__(self, args):
        self.args = args
        self.file = args.events.open("w")
        self.totals = {"rows": 0, "rows_out": 0}
        self.written = dict(self.totals)
        self.last_ms = time.time() * 1000

    def follow(self, counts):
        """Subscribe to a table of one row with the columns `rows` and `rows_out`."""
        pw.io.subscribe(counts, on_change=self.change, on_time_end=self.end_of_commit)

    def change(self, key, row, time, is_addition):
        if is_addition:
            self.totals = {name: row[name] for name in self.totals}

    def end_of_commit(self, commit_time):
        if self.totals == self.written:
            return
        now_ms = time.time() * 1000
        batch = {name: self.totals[name] - self.written[name] for name in self.totals}
        print(
            json.dumps({**batch, "started_ms": self.last_ms, "finished_ms": now_ms}),
            file=self.file,
            flush=True,
        )
        self.last_ms, self.written = now_ms, dict(self.totals)
        if self.totals["rows"] >= self.args.rows:
            sys.stdout.flush()
            os._exit(0)


def run(build):
    """Run the program: `build(events)` returns its results as a table of one row with their number, `rows_out`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--parallelism", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--events", type=Path, required=True)
    args = parser.parse_args()
    if os.environ.get("PATHWAY_THREADS") != str(args.parallelism):
        os.environ["PATHWAY_THREADS"] = str(args.parallelism)
        os.execv(sys.executable, [sys.executable, *sys.argv])  # it is read when Pathway is imported
    folder = str(args.input / "events")
    events = pw.io.csv.read(folder, schema=Event, mode="streaming", autocommit_duration_ms=200)
    rows = events.reduce(rows=pw.reducers.count())
    results = build(events)
    Commits(args).follow(rows.join(results).select(rows.rows, results.rows_out))
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
