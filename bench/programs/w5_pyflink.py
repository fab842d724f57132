"""Workload W5 on PyFlink: workload W1 on more keys, with state in RocksDB."""

import pyflink_run
from pyflink.common import Types
from w1_pyflink import TOTALS, CountAndSum


def parse_update(line):
    key, value = line.split(",")
    return key, float(value)


def build(env, args):
    update = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
    updates = pyflink_run.read_records(env, args, "events", parse_update, update)
    return updates.key_by(lambda event: event[0], Types.STRING()).process(CountAndSum(), TOTALS), TOTALS


if __name__ == "__main__":
    pyflink_run.run(build)
