"""The demo's check: it recognises exact results, and finds every kind of error."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.demo.demo_check import check
from penstock.cli.demo.demo_data import ClickStream, Totals, read_clicks, user_sessions, write_files
from penstock.cli.demo.demo_job import DemoFolders

STREAM = ClickStream(seed=3, clicks=400, users=20, active_users=5)
Rows = list[dict[str, Any]]


def write_rows(folder: Path, rows: Iterable[dict[str, Any]]) -> None:
    folder.mkdir()
    (folder / "part-0").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / ".part-1.inprogress").write_text('{"id": 0}\n', encoding="utf-8")


def exact_rows(folders: DemoFolders) -> Rows:
    totals: dict[str, Totals] = {}
    rows = []
    for click in read_clicks(folders.clicks):
        before = totals.get(click.user, Totals(0, 0))
        totals[click.user] = Totals(before.clicks + 1, before.dwell_ms + click.dwell_ms)
        rows.append({"id": click.id, "user": click.user, **totals[click.user]._asdict()})
    return rows


def exact_sessions(folders: DemoFolders) -> Rows:
    return [session._asdict() for session in user_sessions(read_clicks(folders.clicks))]


def drop_row(rows: Rows, sessions: Rows) -> None:
    rows.pop(7)


def double_row(rows: Rows, sessions: Rows) -> None:
    rows.append(rows[7])


def count_once_more(rows: Rows, sessions: Rows) -> None:
    """A click that was added to the state again although its row was written once."""
    rows[-1]["clicks"] += 1


def take_another_click(rows: Rows, sessions: Rows) -> None:
    rows[-1]["dwell_ms"] += 1


def lose_session(rows: Rows, sessions: Rows) -> None:
    sessions.pop()


def double_session(rows: Rows, sessions: Rows) -> None:
    sessions.append(sessions[0])


def nothing(rows: Rows, sessions: Rows) -> None: ...


@pytest.mark.parametrize(
    ("change", "is_lost", "is_counted_twice"),
    [
        (nothing, False, False),
        (drop_row, True, False),
        (double_row, False, True),
        (count_once_more, False, True),
        (take_another_click, True, True),
        (lose_session, True, False),
        (double_session, False, True),
    ],
)
def test_every_kind_of_mistake_shows(
    tmp_path: Path, change: Callable[[Rows, Rows], None], is_lost: bool, is_counted_twice: bool
) -> None:
    folders = DemoFolders(tmp_path)
    write_files(folders.clicks, STREAM, 4)
    rows, sessions = exact_rows(folders), exact_sessions(folders)
    change(rows, sessions)
    write_rows(folders.totals, rows)
    write_rows(folders.sessions, sessions)
    verdict = check(folders)
    assert (verdict.lost > 0, verdict.counted_twice > 0) == (is_lost, is_counted_twice)
    assert verdict.is_exact == (change is nothing)
    assert str(verdict) == f"400 events, {verdict.lost} lost, {verdict.counted_twice} counted twice"
