"""The demo's click stream, and the results that a batch program computes from it.

The same settings give the same clicks on every machine. The batch program reads the same files in plain Python and
shares no code with the engine, so the demo's output can be compared with its results.
"""

import json
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from penstock.model.time import EPOCH

MAX_JITTER_MS = 5_000
"""How much earlier than a click that was written before it a click may be."""
SESSION_GAP_MS = 30_000
SCHEMA = "id bigint, user string, url string, at timestamp, dwell_ms bigint"

_PAGES = ("/", "/search", "/product", "/product/reviews", "/cart", "/checkout", "/account", "/help")
_PAGE_WEIGHTS = (20, 25, 30, 8, 8, 3, 4, 2)
_MEAN_STEP_MS = 20.0
_LEAVE_CHANCE = 0.05


@dataclass(frozen=True)
class ClickStream:
    """About fifty clicks per second of event time, by users who come, click for a while, and leave."""

    seed: int = 1
    clicks: int = 100_000
    users: int = 1_000
    active_users: int = 100
    """How many users are on the site at a time."""
    start_ms: int = 1_767_225_600_000
    """2026-01-01T00:00:00Z"""

    def __post_init__(self) -> None:
        if not 0 < self.active_users <= self.users or self.clicks < 0:
            raise ValueError(f"{self} is not possible: it needs 0 < active_users <= users and clicks >= 0")


class Click(NamedTuple):
    """One click. `id` counts from 0 in the order of writing; `at_ms` is event time."""

    id: int
    user: str
    url: str
    at_ms: int
    dwell_ms: int


def generate(stream: ClickStream) -> Iterator[Click]:
    """The clicks in the order in which they are written, at most MAX_JITTER_MS out of order in event time."""
    chance = random.Random(f"clicks {stream.seed}")
    active = chance.sample(range(stream.users), stream.active_users)
    now_ms = float(stream.start_ms + MAX_JITTER_MS)
    for number in range(stream.clicks):
        now_ms += chance.expovariate(1 / _MEAN_STEP_MS)
        place = chance.randrange(len(active))
        if chance.random() < _LEAVE_CHANCE:
            active[place] = chance.randrange(stream.users)
        page = chance.choices(_PAGES, _PAGE_WEIGHTS)[0]
        url = f"{page}?item={chance.randrange(500)}" if page == "/product" else page
        at_ms = int(now_ms) - chance.randrange(MAX_JITTER_MS + 1)
        yield Click(number, f"user-{active[place]:05d}", url, at_ms, chance.randrange(100, 30_000))


def write_files(
    folder: Path,
    stream: ClickStream,
    files: int = 100,
    *,
    pause_s: float = 0.0,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Path]:
    """Write the clicks as that many JSON-lines files, with a pause between them, and return their paths in order.

    A file appears complete, by a rename. Files that exist are kept, so that an interrupted run can be repeated.
    Modification times increase from file to file, because readers order the files by them.
    """
    if files < 1:
        raise ValueError(f"cannot write {files} files; give at least 1")
    folder.mkdir(parents=True, exist_ok=True)
    clicks = generate(stream)
    paths: list[Path] = []
    modified_ns = 0
    for index in range(files):
        if index and pause_s > 0:
            sleep(pause_s)
        share = (index + 1) * stream.clicks // files - index * stream.clicks // files
        path = folder / f"clicks-{index:06d}.json"
        modified_ns = _write_complete(path, list(islice(clicks, share)), modified_ns)
        paths.append(path)
    return paths


def read_clicks(folder: Path) -> Iterator[Click]:
    """The clicks of all files in a folder, in the order in which they were written."""
    for path in sorted(folder.glob("clicks-*.json")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                yield _parse(line)


class Totals(NamedTuple):
    """The totals of one user so far."""

    clicks: int
    dwell_ms: int


class Session(NamedTuple):
    """Consecutive clicks of one user, each at most the gap after the previous one."""

    user: str
    start_ms: int
    end_ms: int
    """Event time of the last click."""
    clicks: int
    dwell_ms: int


def running_totals(clicks: Iterable[Click]) -> dict[str, Totals]:
    """The last running total of every user. A job with one row per click emits clicks 1, 2, … up to it."""
    totals: dict[str, Totals] = {}
    for click in clicks:
        before = totals.get(click.user, Totals(0, 0))
        totals[click.user] = Totals(before.clicks + 1, before.dwell_ms + click.dwell_ms)
    return totals


def user_sessions(clicks: Iterable[Click], gap_ms: int = SESSION_GAP_MS) -> list[Session]:
    """All sessions in event time, by user and start. As in Flink, clicks exactly the gap apart are in one session."""
    by_user: dict[str, list[tuple[int, int]]] = {}
    for click in clicks:
        by_user.setdefault(click.user, []).append((click.at_ms, click.dwell_ms))
    sessions: list[Session] = []
    for user, visits in sorted(by_user.items()):
        visits.sort()
        run: list[tuple[int, int]] = []
        for visit in visits:
            if run and visit[0] - run[-1][0] > gap_ms:
                sessions.append(_session(user, run))
                run = []
            run.append(visit)
        sessions.append(_session(user, run))
    return sessions


def _session(user: str, run: list[tuple[int, int]]) -> Session:
    return Session(user, run[0][0], run[-1][0], len(run), sum(dwell_ms for _, dwell_ms in run))


def _write_complete(path: Path, clicks: list[Click], after_ns: int) -> int:
    """Write one file unless it exists; returns its modification time, which is later than `after_ns`."""
    if path.exists():
        return max(path.stat().st_mtime_ns, after_ns)
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    hidden.write_text("".join(map(_line, clicks)), encoding="utf-8")
    modified_ns = max(hidden.stat().st_mtime_ns, after_ns + 1_000_000)
    os.utime(hidden, ns=(modified_ns, modified_ns))
    hidden.rename(path)
    return modified_ns


def _line(click: Click) -> str:
    at = (EPOCH + timedelta(milliseconds=click.at_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    record = {"id": click.id, "user": click.user, "url": click.url, "at": at, "dwell_ms": click.dwell_ms}
    return json.dumps(record) + "\n"


def _parse(line: str) -> Click:
    record = json.loads(line)
    at = datetime.fromisoformat(record["at"].replace("Z", "+00:00"))
    at_ms = (at - EPOCH) // timedelta(milliseconds=1)
    return Click(record["id"], record["user"], record["url"], at_ms, record["dwell_ms"])
