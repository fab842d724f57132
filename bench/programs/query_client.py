"""Asks workload W1 for the values of 100 random keys at a time, from the end of its warm-up to its last row.

Requests are due at a fixed rate. A client that has fallen behind asks without a pause until it has caught up.
"""

import argparse
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

from client_options import parse_client
from w1_values import check_values, early_keys, final_counts

import penstock.query
from penstock.errors import PenstockError

JOB = "bench-w1"
STATE = "totals"
BATCH_KEYS = 100
LOOKUPS_PER_S = 21_000.0
PROGRESS_S = 0.1
"""How often the end of the workload is looked for."""
SEED = 7


def main() -> None:
    """Ask, and leave the number of look-ups, their seconds, and how long each request took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lookups-per-s", type=float, default=LOOKUPS_PER_S, help="0: without any pause")
    args, progress = parse_client(parser)
    wait_for_input(args.events)
    keys, final = early_keys(args.data), final_counts(args.work / "input")
    progress.wait_until_warm()
    interval_s = BATCH_KEYS / args.lookups_per_s if args.lookups_per_s else 0.0
    with penstock.query.connect(JOB, registry_dir=args.work / "registry") as job:
        latencies_s, seconds = ask(job, keys, final, progress.is_done, interval_s)
    if not latencies_s:
        raise SystemExit("W1 was over before the first answer")
    found = {"lookups": len(latencies_s) * BATCH_KEYS, "seconds": seconds, **percentiles_ms(latencies_s)}
    args.result.write_text(json.dumps(found))


def wait_for_input(events: Path) -> None:
    """Return when W1 has its input complete: it opens its file of batches after that."""
    while not events.exists():
        time.sleep(0.1)


def ask(job, keys, final, is_done: Callable[[], bool], interval_s: float) -> tuple[list[float], float]:
    """How long each request took, and the time from the first one to the last answer."""
    chosen = random.Random(SEED)
    latencies_s: list[float] = []
    started_s = ended_s = due_s = look_s = time.monotonic()
    while True:
        if ended_s >= look_s:
            if is_done():
                break
            look_s = ended_s + PROGRESS_S
        batch = chosen.choices(keys, k=BATCH_KEYS)
        time.sleep(max(0.0, due_s - time.monotonic()))
        due_s += interval_s
        asked_s = time.monotonic()
        try:
            values = job.get_many(STATE, batch, consistency="committed")
        except PenstockError:
            if is_done():  # the job was cancelled meanwhile
                break
            raise
        ended_s = time.monotonic()
        latencies_s.append(ended_s - asked_s)
        check_values(batch, values, final)
    return latencies_s, ended_s - started_s


def percentiles_ms(latencies_s: list[float]) -> dict[str, float]:
    """The median, and what 95 % of the requests have not exceeded."""
    ordered = sorted(latencies_s)
    return {
        "latency_ms": 1000 * ordered[len(ordered) // 2],
        "latency_p95_ms": 1000 * ordered[len(ordered) * 95 // 100],
    }


if __name__ == "__main__":
    main()
