"""Compares the output of the demo's job with that of a batch program over the same clicks."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.cli.demo.demo_data import Click, Session, Totals, read_clicks, running_totals, user_sessions
from penstock.cli.demo.demo_job import DemoFolders


@dataclass(frozen=True)
class Verdict:
    """The result of the comparison. An event is lost, or counted twice, if any of the outputs shows it."""

    events: int
    users: int
    sessions: int
    lost: int
    counted_twice: int

    @property
    def is_exact(self) -> bool:
        """Whether the job's results equal those of the batch program."""
        return self.lost == self.counted_twice == 0

    def __str__(self) -> str:
        return f"{self.events} events, {self.lost} lost, {self.counted_twice} counted twice"


def check(folders: DemoFolders) -> Verdict:
    """Compare the rows, the final totals and the sessions in the finished files with those of the clicks."""
    clicks = list(read_clicks(folders.clicks))
    rows = list(read_rows(folders.totals))
    sessions = Counter(Session(**row) for row in read_rows(folders.sessions))
    expected_sessions = Counter(user_sessions(clicks))
    found = [_compare_rows(clicks, rows), _compare_totals(clicks, rows), _compare(expected_sessions, sessions)]
    return Verdict(
        events=len(clicks),
        users=len({click.user for click in clicks}),
        sessions=expected_sessions.total(),
        lost=max(lost for lost, _ in found),
        counted_twice=max(twice for _, twice in found),
    )


def read_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """The rows of the finished files of a FileSink: their names start with neither `.` nor `_`."""
    for path in sorted(folder.glob("[!._]*")):
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def _compare_rows(clicks: list[Click], rows: list[dict[str, Any]]) -> tuple[int, int]:
    """Each click has exactly one row."""
    expected = Counter((click.id, click.user) for click in clicks)
    found = Counter((row["id"], row["user"]) for row in rows)
    return (expected - found).total(), (found - expected).total()


def _compare_totals(clicks: list[Click], rows: list[dict[str, Any]]) -> tuple[int, int]:
    """Each user's last total covers all their clicks."""
    newest: dict[str, Totals] = {}
    for row in rows:
        newest[row["user"]] = max(newest.get(row["user"], Totals(0, 0)), Totals(row["clicks"], row["dwell_ms"]))
    lost = twice = 0
    for user, expected in running_totals(clicks).items():
        found = newest.get(user, Totals(0, 0))
        difference = found.clicks - expected.clicks
        # The same number of clicks but another sum: one is lost and another counted twice.
        swapped = int(difference == 0 and found != expected)
        lost += max(0, -difference) + swapped
        twice += max(0, difference) + swapped
    return lost, twice


def _compare(expected: "Counter[Session]", found: "Counter[Session]") -> tuple[int, int]:
    missing, surplus = expected - found, found - expected
    return _clicks_in(missing), _clicks_in(surplus)


def _clicks_in(sessions: "Counter[Session]") -> int:
    return sum(session.clicks * count for session, count in sessions.items())
