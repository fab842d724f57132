"""Workload W3 on Pathway: `deduplicate` with an acceptor in Python that keeps the first event of each key."""

import pathway as pw
import pathway_run


def is_new(new, old) -> bool:
    return False


def build(events):
    firsts = events.deduplicate(value=events.ts, instance=events.key, acceptor=is_new)
    return firsts.reduce(rows_out=pw.reducers.count())


if __name__ == "__main__":
    pathway_run.run(build)
