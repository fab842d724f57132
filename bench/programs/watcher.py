"""Watches a job until it ends: reads all of its events as its page does, and scrapes its metrics as Prometheus does."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from penstock.control.registry import JobRecord
from penstock.control.tokens import READ_FILE, read_token

SCRAPE_S = 5.0
TIMEOUT_S = 60.0
END_S = 30.0


def watch(record: JobRecord) -> tuple[int, int]:
    """The numbers of events and scrapes; SystemExit if there were none."""
    headers = {"Authorization": f"Bearer {read_token(Path(record.log_dir) / READ_FILE)}"}
    ended = threading.Event()
    with (
        httpx.Client(base_url=record.rest or "", headers=headers, timeout=TIMEOUT_S, trust_env=False) as http,
        ThreadPoolExecutor(1) as threads,
    ):
        scraping = threads.submit(scrape, http, ended)
        try:
            events = read_events(http, f"/jobs/{record.job_id}/events")
        finally:
            ended.set()
        scrapes = scraping.result()
    if not events or not scrapes:
        raise SystemExit(f"only {events} events and {scrapes} scrapes")
    return events, scrapes


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
