"""Watches workload W1 from the end of its warm-up: reads all of its events and scrapes its metrics every 5 s."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
from client_options import parse_client

from penstock.control.registry import Registry
from penstock.control.tokens import READ_FILE, read_token

SCRAPE_S = 5.0
TIMEOUT_S = 60.0
END_S = 30.0


def main() -> None:
    """Watch, and leave the numbers of events and scrapes."""
    args, progress = parse_client()
    progress.wait_until_warm()
    [record] = Registry(args.work / "registry").list()
    headers = {"Authorization": f"Bearer {read_token(Path(record.log_dir) / READ_FILE)}"}
    ended = threading.Event()
    with (
        httpx.Client(base_url=record.rest, headers=headers, timeout=TIMEOUT_S, trust_env=False) as http,
        ThreadPoolExecutor(1) as threads,
    ):
        scraping = threads.submit(scrape, http, ended)
        try:
            events = read_events(http, f"/jobs/{record.job_id}/events")
        finally:
            ended.set()
        scrapes = scraping.result()
    if not progress.is_done():
        raise SystemExit("the events have ended before the job")
    if not events or not scrapes:
        raise SystemExit(f"only {events} events and {scrapes} scrapes")
    args.result.write_text(json.dumps({"events": events, "scrapes": scrapes}))


def read_events(http: httpx.Client, path: str) -> int:
    """The number of events with figures, until the stream ends with the job."""
    count = 0
    try:
        with http.stream("GET", path) as response:
            response.raise_for_status()
            for line in response.iter_lines():
                if line.startswith("data: ") and "rows-per-s" in json.loads(line.removeprefix("data: ")):
                    count += 1
    except httpx.TransportError:
        pass  # the driver has ended; whether it should have, the caller knows
    return count


def scrape(http: httpx.Client, ended: threading.Event) -> int:
    """The number of scrapes until the events have ended."""
    count = 0
    while True:
        try:
            response = http.get("/metrics")
            response.raise_for_status()
        except httpx.HTTPError:
            if ended.wait(END_S):
                return count
            raise
        if "penstock_job_status" not in response.text:
            raise SystemExit("/metrics does not hold the status of the job")
        count += 1
        if ended.wait(SCRAPE_S):
            return count


if __name__ == "__main__":
    main()
