"""Asks workload W1 for the values of 100 random keys at a time, from the end of its warm-up to its last row."""

import json
import random
import time
from pathlib import Path

from client_options import parse_client
from w1_values import check_values, early_keys, final_counts

import penstock.query
from penstock.errors import PenstockError

JOB = "bench-w1"
STATE = "totals"
BATCH_KEYS = 100
SEED = 7


def main() -> None:
    """Ask, and leave the number of look-ups and their seconds."""
    args, progress = parse_client()
    wait_for_input(args.events)
    keys, final = early_keys(args.data), final_counts(args.work / "input")
    progress.wait_until_warm()
    with penstock.query.connect(JOB, registry_dir=args.work / "registry") as job:
        lookups, seconds = ask(job, keys, final, progress)
    if not lookups:
        raise SystemExit("W1 was over before the first answer")
    args.result.write_text(json.dumps({"lookups": lookups, "seconds": seconds}))


def wait_for_input(events: Path) -> None:
    """Return when W1 has its input complete: it opens its file of batches after that."""
    while not events.exists():
        time.sleep(0.1)


def ask(job, keys, final, progress) -> tuple[int, float]:
    """How many look-ups were answered, and from the first request to the last answer."""
    chosen = random.Random(SEED)
    lookups, started_s = 0, time.monotonic()
    ended_s = started_s
    while not progress.is_done():
        batch = chosen.choices(keys, k=BATCH_KEYS)
        try:
            values = job.get_many(STATE, batch, consistency="committed")
        except PenstockError:
            if progress.is_done():  # the job was cancelled meanwhile
                break
            raise
        check_values(batch, values, final)
        lookups += len(batch)
        ended_s = time.monotonic()
    return lookups, ended_s - started_s


if __name__ == "__main__":
    main()
