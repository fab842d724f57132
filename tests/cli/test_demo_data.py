"""The demo's click stream and its batch program."""

from itertools import pairwise
from pathlib import Path

import pytest

from penstock.cli.demo.demo_data import (
    MAX_JITTER_MS,
    Click,
    ClickStream,
    Session,
    Totals,
    generate,
    read_clicks,
    running_totals,
    user_sessions,
    write_files,
)

SMALL = ClickStream(seed=7, clicks=2_000, users=50, active_users=10)


def test_the_same_seed_gives_the_same_clicks_and_another_seed_others() -> None:
    assert list(generate(SMALL)) == list(generate(SMALL))
    assert list(generate(SMALL)) != list(generate(ClickStream(seed=8, clicks=2_000, users=50, active_users=10)))


def test_no_click_is_later_than_the_jitter_allows() -> None:
    newest = 0
    late = 0
    for click in generate(SMALL):
        assert click.at_ms >= newest - MAX_JITTER_MS
        late += click.at_ms < newest
        newest = max(newest, click.at_ms)
    assert late > 100


def test_files_hold_all_clicks_in_order_and_appear_whole(tmp_path: Path) -> None:
    paths = write_files(tmp_path, SMALL, files=7)
    assert len(paths) == 7 and sorted(tmp_path.iterdir()) == paths
    assert list(read_clicks(tmp_path)) == list(generate(SMALL))
    times = [path.stat().st_mtime_ns // 1_000_000 for path in paths]
    assert all(earlier < later for earlier, later in pairwise(times))


def test_writing_again_leaves_files_as_they_are(tmp_path: Path) -> None:
    paths = write_files(tmp_path, SMALL, files=4)
    before = [path.stat().st_mtime_ns for path in paths]
    paths[2].unlink()
    assert write_files(tmp_path, SMALL, files=4) == paths
    after = [path.stat().st_mtime_ns for path in paths]
    assert before[:2] + before[3:] == after[:2] + after[3:]
    assert list(read_clicks(tmp_path)) == list(generate(SMALL))


def test_files_are_paced_between_each_other(tmp_path: Path) -> None:
    pauses: list[float] = []
    write_files(tmp_path, SMALL, files=3, pause_s=0.5, sleep=pauses.append)
    assert pauses == [0.5, 0.5]


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="active_users"):
        ClickStream(users=5, active_users=6)
    with pytest.raises(ValueError, match="at least 1"):
        write_files(tmp_path, SMALL, files=0)


def click(number: int, user: str, at_s: float, dwell_ms: int = 1) -> Click:
    return Click(number, user, "/", int(at_s * 1000), dwell_ms)


def test_totals_count_every_click_of_a_user() -> None:
    clicks = [click(0, "a", 5, 10), click(1, "b", 1, 20), click(2, "a", 2, 30)]
    assert running_totals(clicks) == {"a": Totals(2, 40), "b": Totals(1, 20)}


def test_a_session_ends_when_the_gap_has_passed_in_event_time() -> None:
    clicks = [click(0, "a", 100, 1), click(1, "a", 60, 2), click(2, "b", 0, 4), click(3, "a", 130, 8)]
    assert user_sessions(clicks) == [
        Session("a", 60_000, 60_000, 1, 2),
        Session("a", 100_000, 130_000, 2, 9),
        Session("b", 0, 0, 1, 4),
    ]
    clicks.append(click(4, "a", 130 + 30.001, 16))
    assert user_sessions(clicks)[2] == Session("a", 160_001, 160_001, 1, 16)


def test_the_demo_has_sessions_of_several_clicks_and_users_who_come_back() -> None:
    clicks = list(generate(ClickStream(clicks=30_000)))
    sessions = user_sessions(clicks)
    assert sum(session.clicks for session in sessions) == len(clicks)
    assert len(sessions) > len({session.user for session in sessions}) > 500
    assert len(clicks) / len(sessions) > 5
