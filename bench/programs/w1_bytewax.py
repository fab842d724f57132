"""Workload W1 on Bytewax: one process of the cluster."""

import bytewax.operators as op
import bytewax_run


def parse(lines):
    return [(key, float(value)) for key, _, value in (line.split(",") for line in lines)]


def count_and_sum(totals, value):
    n, total = totals or (0, 0.0)
    totals = (n + 1, total + value)
    return totals, totals


def build(flow, args):
    return op.stateful_map("count_and_sum", bytewax_run.read_records(flow, args.input / "events", parse), count_and_sum)


if __name__ == "__main__":
    bytewax_run.run(build)
