"""Workload W3 on Bytewax: one process of the cluster."""

import bytewax.operators as op
import bytewax_run


def parse(lines):
    return [(key, (ts, float(value))) for key, ts, value in (line.split(",") for line in lines)]


def first_of_key(seen, event):
    return True, () if seen else (event,)


def build(flow, args):
    events = bytewax_run.read_records(flow, args.input / "events", parse)
    return op.stateful_flat_map("first_of_key", events, first_of_key)


if __name__ == "__main__":
    bytewax_run.run(build)
