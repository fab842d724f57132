"""Watches workload W1 from the end of its warm-up: reads all of its events and scrapes its metrics every 5 s."""

import json

from client_options import parse_client
from watcher import watch

from penstock.control.registry import Registry


def main() -> None:
    """Watch, and leave the numbers of events and scrapes."""
    args, progress = parse_client()
    progress.wait_until_warm()
    [record] = Registry(args.work / "registry").list()
    events, scrapes = watch(record)
    if not progress.is_done():
        raise SystemExit("the events have ended before the job")
    args.result.write_text(json.dumps({"events": events, "scrapes": scrapes}))


if __name__ == "__main__":
    main()
