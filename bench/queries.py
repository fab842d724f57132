"""What queries cost a job, and how many it answers: `python -m bench.queries [--rounds 3] [--quick] [--json FILE]`.

Workload W1 with its state published, in turns alone and with one client that asks for the committed values of 100
random keys at a time, 21,000 keys a second, for the whole steady phase. Printed: the figures of each round, with the
median of the latency and what 95 % of the requests do not exceed, and the medians of the rounds against the limits.
Exit codes: 0 within the limits, 1 not, or a round failed or miscounted, 2 usage.
"""

import sys
from collections.abc import Sequence
from statistics import median

from bench.client_cost import Client, Comparison, Found, Verdict, rate_lines, run_benchmark
from bench.figures import limit_line

LEAST_LOOKUPS_PER_S = 20_000.0
MOST_LOST_PERCENT = 10.0
CLIENT = Client("query_client.py", "queried", w1_options=("--queryable",))


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    return run_benchmark(CLIENT, arguments, __doc__ or "", judge)


def judge(comparison: Comparison) -> Verdict:
    """The medians against the limits."""
    lookups, lost = median(map(lookups_per_s, comparison.found)), comparison.lost_percent
    enough, cheap = lookups >= LEAST_LOOKUPS_PER_S, lost <= MOST_LOST_PERCENT
    lines = (
        *rate_lines(comparison, describe),
        limit_line(f"look-ups: {lookups:,.0f}/s", f"at least {LEAST_LOOKUPS_PER_S:,.0f}/s", is_within=enough),
        limit_line(f"cost: {lost:.1f} % of the rows/s", f"at most {MOST_LOST_PERCENT:.0f} %", is_within=cheap),
    )
    return Verdict(lines, {"lookups_per_s": lookups, "lost_percent": lost}, enough and cheap)


def describe(found: Found) -> str:
    """The figures of one round.

    >>> describe({"lookups": 5000, "seconds": 0.25, "latency_ms": 2.04, "latency_p95_ms": 3.5})
    '20,000 look-ups/s, 2.0 ms (95 %: 3.5 ms)'
    """
    return (
        f"{lookups_per_s(found):,.0f} look-ups/s, {found['latency_ms']:.1f} ms (95 %: {found['latency_p95_ms']:.1f} ms)"
    )


def lookups_per_s(found: Found) -> float:
    """The rate of one round.

    >>> lookups_per_s({"lookups": 5000, "seconds": 0.25})
    20000.0
    """
    return found["lookups"] / found["seconds"]


if __name__ == "__main__":
    sys.exit(main())
