"""What it costs a job to be watched: `python -m bench.watching [--rounds 3] [--quick] [--json FILE]`.

Workload W1 in turns alone, without its control server, and with the server and a client that reads all server-sent
events, as the job's page does, and scrapes `/metrics` every 5 s, as Prometheus would, for the whole steady phase.
Nothing is sent to OpenTelemetry. Printed: the figures of each round, and the medians against the limit. Exit codes: 0
within the limit, 1 not, or a round failed or miscounted, 2 usage.
"""

import sys
from collections.abc import Sequence

from bench.client_cost import Client, Comparison, Verdict, rate_lines, run_benchmark
from bench.figures import limit_line

MOST_LOST_PERCENT = 2.0
CLIENT = Client("watch_client.py", "watched", alone_options=("--without-server",))


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    return run_benchmark(CLIENT, arguments, __doc__ or "", judge)


def judge(comparison: Comparison) -> Verdict:
    """The loss against the limit."""
    lost = comparison.lost_percent
    is_cheap = lost <= MOST_LOST_PERCENT
    lines = (
        *rate_lines(comparison, lambda found: f"{found['events']:.0f} events, {found['scrapes']:.0f} scrapes"),
        limit_line(f"cost: {lost:.1f} % of the rows/s", f"at most {MOST_LOST_PERCENT:.0f} %", is_within=is_cheap),
    )
    return Verdict(lines, {"lost_percent": lost}, is_cheap)


if __name__ == "__main__":
    sys.exit(main())
