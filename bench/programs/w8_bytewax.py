"""Workload W8 on Bytewax: one process of the cluster. The first one sums up."""

import time
from datetime import datetime, timedelta, timezone

import bytewax.operators as op
import bytewax_run
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from latency_log import LatencyLog, now_us, sum_up, wait_for_rows

PAUSE = timedelta(milliseconds=1)
START_DELAY_S = 5


class Rows(StatelessSourcePartition):
    """Every n-th row, as they are made."""

    def __init__(self, args, start_us, index, count):
        self.args = args
        self.start_us = start_us
        self.number = index
        self.count = count

    def next_batch(self):
        if self.number >= self.args.rows:
            raise StopIteration
        rate = self.args.rows_per_s
        due = min(self.args.rows, (now_us() - self.start_us) * rate // 1_000_000)
        numbers = range(self.number, due, self.count)
        self.number += len(numbers) * self.count
        made_us = self.start_us
        return [(str(n * 7919 % self.args.keys), (n, made_us + n * 1_000_000 // rate)) for n in numbers]

    def next_awake(self):
        return datetime.now(timezone.utc) + PAUSE


class RowSource(DynamicSource):
    def __init__(self, args, start_us):
        self.args = args
        self.start_us = start_us

    def build(self, step_id, worker_index, worker_count):
        return Rows(self.args, self.start_us, worker_index, worker_count)


class Latencies(StatelessSinkPartition):
    def __init__(self, work):
        self.log = LatencyLog(work)

    def write_batch(self, items):
        self.log.add(row for _, row in items)

    def close(self):
        self.log.close()


class LatencySink(DynamicSink):
    def __init__(self, work):
        self.work = work

    def build(self, step_id, worker_index, worker_count):
        return Latencies(self.work)


def count(counted, row):
    return (counted or 0) + 1, row


def agree_on_start(work, process):
    """The first process writes down when the first row is made."""
    path = work / "start"
    if process == 0:
        unfinished = work / "start.new"
        unfinished.write_text(str(now_us() + START_DELAY_S * 1_000_000))
        unfinished.rename(path)
    while not path.exists():
        time.sleep(bytewax_run.POLL_S)
    return int(path.read_text())


def main():
    args = bytewax_run.parse_arguments()
    work = args.events.parent
    flow = Dataflow("w8")
    rows = op.input("rows", flow, RowSource(args, agree_on_start(work, args.process)))
    op.output("latencies", op.stateful_map("count", rows, count), LatencySink(str(work)))
    bytewax_run.run_flow(flow, args)
    if args.process == 0:
        wait_for_rows(work, args.rows)
        sum_up(work, args.events, args.rows)


if __name__ == "__main__":
    main()
