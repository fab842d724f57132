"""The parts of a log: when a new one begins, how they are numbered and removed, and how they are found again."""

import fcntl
import os
import stat
from pathlib import Path

import pytest

from penstock.runtime.process.log_lines import open_log
from penstock.runtime.process.log_parts import (
    KEPT_ATTEMPTS,
    LogLimits,
    LogPart,
    end_of_log,
    end_part,
    full_path,
    log_size,
    logs_in,
    open_within,
    parts_of,
    remove_old_attempts,
    taskmanager_log,
)
from penstock.runtime.process.subtask_log import continue_log

LIMITS = LogLimits(max_bytes=10, backups=2)


def append(log: Path, text: str, limits: LogLimits = LIMITS) -> None:
    with open_within(log, limits) as file:
        file.write(text.encode())


def text_of(part: LogPart) -> bytes | None:
    file = part.open()
    if file is None:
        return None
    with file:
        return file.read()


def test_a_full_log_goes_on_in_a_new_file_and_the_oldest_are_removed(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "driver.log"
    for number in range(9):
        append(log, f"line {number}\n")
    assert {path.name: path.read_text() for path in log.parent.iterdir()} == {
        "driver.log.3": "line 4\nline 5\n",
        "driver.log.4": "line 6\nline 7\n",
        "driver.log": "line 8\n",
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in log.parent.iterdir()} == {0o600}


def test_without_a_limit_a_log_is_one_file(tmp_path: Path) -> None:
    for number in range(9):
        append(tmp_path / "driver.log", f"line {number}\n", LogLimits(max_bytes=0))
    assert os.listdir(tmp_path) == ["driver.log"]


def test_of_two_processes_one_ends_a_part(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    append(log, "0123456789\n")
    with open_log(log) as one, open_log(log) as other:
        fcntl.flock(one, fcntl.LOCK_EX)
        end_part(log, other.fileno(), LIMITS)
        assert os.listdir(tmp_path) == ["driver.log"]  # the first one is doing it
        fcntl.flock(one, fcntl.LOCK_UN)
        end_part(log, one.fileno(), LIMITS)
        one.close()
        append(log, "next\n")
        end_part(log, other.fileno(), LIMITS)
    assert sorted(os.listdir(tmp_path)) == ["driver.log", "driver.log.1"]
    assert log.read_text() == "next\n"


def test_a_part_is_found_again_whatever_happens_before_it_is_opened(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    append(log, "part one, full\n")
    append(log, "two\n")
    one, two = parts_of(log)
    assert (one.number, two.number, one.is_full, two.is_full) == (1, 2, True, False)

    def contents() -> list[bytes | None]:
        return [text_of(part) for part in (one, two)]

    assert contents() == [b"part one, full\n", b"two\n"]
    append(log, "and so it is full\n")
    append(log, "three, full\n")
    assert contents() == [b"part one, full\n", b"two\nand so it is full\n"]
    append(log, "four, full\n")
    assert contents() == [None, b"two\nand so it is full\n"]
    append(log, "five\n")
    assert contents() == [None, None]


def test_a_part_that_is_not_begun_does_not_exist_yet(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    assert [text_of(part) for part in parts_of(log)] == [None] and log_size(log) is None
    full_path(log, 7).write_text("full\n")
    assert [(part.number, text_of(part)) for part in parts_of(log)] == [(7, b"full\n"), (8, None)]


def test_the_end_and_the_size_of_a_log_are_those_of_all_its_parts(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    for number in range(5):
        append(log, f"line {number}\n")
    size = log_size(log)
    assert size is not None and size[0] == 35
    assert end_of_log(log, 100) == b"line 0\nline 1\nline 2\nline 3\nline 4\n"
    assert end_of_log(log, 9) == b"3\nline 4\n"


def test_the_logs_of_a_folder_are_those_that_have_any_part(tmp_path: Path) -> None:
    for name in ("driver.log", "output.log", "taskmanager-1-0.log.3", "driver.log.2", "rest-token", "a.log.gz"):
        (tmp_path / name).write_text("x")
    found = logs_in(tmp_path)
    assert {path.name: [part.number for part in parts] for path, parts in found.items()} == {
        "driver.log": [2, 3],
        "output.log": [1],
        "taskmanager-1-0.log": [3, 4],
    }
    assert logs_in(tmp_path / "absent") == logs_in(tmp_path / "driver.log") == {}


def test_the_logs_of_the_newest_attempts_are_kept(tmp_path: Path) -> None:
    attempts = [1, 2, *range(5, 5 + KEPT_ATTEMPTS)]
    for attempt in attempts:
        for index in (0, 1):
            (tmp_path / taskmanager_log(attempt, index)).write_text("x")
    full_path(tmp_path / taskmanager_log(1, 0), 3).write_text("x")
    (tmp_path / "driver.log").write_text("x")
    remove_old_attempts(tmp_path)
    kept = {taskmanager_log(attempt, index) for attempt in attempts[2:] for index in (0, 1)}
    assert set(os.listdir(tmp_path)) == {"driver.log", *kept}


def test_what_writes_to_descriptors_of_a_log_goes_on_in_its_next_part(tmp_path: Path) -> None:
    log = tmp_path / "taskmanager-1-0.log"
    with open_log(log) as own, open_log(log) as output:
        descriptors = (own.fileno(), output.fileno())
        for number in range(5):
            continue_log(log, LIMITS, descriptors)
            os.write(descriptors[number % 2], f"line {number}\n".encode())
    assert full_path(log, 1).read_text() == "line 0\nline 1\n" and log.read_text() == "line 4\n"


def test_a_log_that_cannot_be_continued_is_written_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "rename", refuse)
    for number in range(3):
        append(tmp_path / "driver.log", f"line {number}\n")
    assert (tmp_path / "driver.log").read_text() == "line 0\nline 1\nline 2\n"
