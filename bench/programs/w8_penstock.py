"""Workload W8 on Penstock: a running count per key; the latency is taken where the sink gets the row."""

import argparse
from pathlib import Path

import rate_rows
from latency_log import LatencyLog, sum_up, wait_for_rows
from penstock_run import configure

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.model.sink import Sink, SinkWriter


class Count(KeyedProcessFunction):
    """Running count of a key."""

    def open(self, ctx: RuntimeContext) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, row, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield row.number, row.made_us


class LatencySink(Sink):
    """Writes down when each row comes."""

    def __init__(self, work: str) -> None:
        self.work = work

    def open(self, context):
        return LatencyWriter(self.work)

    def commit(self, committable):
        pass

    def sweep(self, job_id, sink_uid, keep, before_attempt):
        pass


class LatencyWriter(SinkWriter):
    def __init__(self, work: str) -> None:
        self.log = LatencyLog(work)

    def begin_epoch(self):
        pass

    def write(self, records):
        self.log.add(records)

    def roll_back(self):
        raise RuntimeError("rows were written twice")

    def pre_commit(self):
        return []

    def close(self):
        self.log.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--rows-per-s", type=int, required=True)
    parser.add_argument("--parallelism", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--checkpoints", default="5s", help="how often, or none")
    parser.add_argument("--backend", default="hashmap")
    args = parser.parse_args()

    rate_rows.prepare_workers()
    env = StreamExecutionEnvironment.get_execution_environment(configure(args))
    rows = env.from_dataframe(rate_rows.read_rows(env.spark, args), replayable=True).uid("rows")
    counts = rows.key_by("key").process(Count(), output_type="number bigint, made_us bigint").uid("count")
    counts.sink_to(LatencySink(str(args.work))).uid("latency")
    job = env.execute_async("bench-w8")
    wait_for_rows(args.work, args.rows)
    job.cancel().result()
    sum_up(args.work, args.events, args.rows)


if __name__ == "__main__":
    main()
