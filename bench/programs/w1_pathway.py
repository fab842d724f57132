"""Workload W1 on Pathway: a row out for each key and commit, not for each row in. The last counts must add up."""

import pathway as pw
import pathway_run


@pw.reducers.stateful_many
def count_and_sum(state: tuple[int, float] | None, rows: list[tuple[list[float], int]]) -> tuple[int, float]:
    n, total = state or (0, 0.0)
    for [value], count in rows:
        n += count
        total += value * count
    return n, total


def build(events):
    totals = events.groupby(events.key).reduce(events.key, totals=count_and_sum(events.value))
    counts = totals.select(n=pw.apply_with_type(lambda both: both[0], int, totals.totals))
    return counts.reduce(rows_out=pw.reducers.sum(counts.n))


if __name__ == "__main__":
    pathway_run.run(build)
