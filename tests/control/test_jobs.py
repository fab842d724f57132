"""The use cases behind `list`, `status` and `logs`."""

import os
import random
import resource
from pathlib import Path

from penstock.control.driver_log import DriverLog
from penstock.control.job_queries import (
    JobSelection,
    LogLine,
    LogSelection,
    LogTail,
    job_logs,
    job_status,
    list_jobs,
    recent_lines,
)
from penstock.control.registry import ProcessRecord, Registry
from penstock.runtime.process.log_parts import LogLimits
from penstock.testing import ManualClock
from tests.records import A_ID, B_ID, NO_PID, job_record

C_ID = "c" * 32
PROCESSES = [ProcessRecord(1, "here", "driver"), ProcessRecord(2, "here", "taskmanager", ["keyed/0", "keyed/1"])]


def registry_of_three(folder: Path) -> Registry:
    registry = Registry(folder)
    registry.write(job_record(A_ID, started_ms=1, processes=PROCESSES))
    registry.write(job_record(B_ID, started_ms=2, pid=NO_PID, processes=PROCESSES))
    registry.write(job_record(C_ID, started_ms=3, status="FINISHED"))
    return registry


def test_a_list_shows_jobs_that_run_that_have_not_ended_or_all(tmp_path: Path) -> None:
    registry = registry_of_three(tmp_path)

    def listed(selection: JobSelection) -> list[tuple[str, str]]:
        return [(record.job_id, record.status) for record in list_jobs(registry, selection)]

    assert listed(JobSelection.RUNNING) == [(A_ID, "RUNNING")]
    assert listed(JobSelection.NOT_ENDED) == [(A_ID, "RUNNING"), (B_ID, "LOST")]
    assert listed(JobSelection.ALL) == [(A_ID, "RUNNING"), (B_ID, "LOST"), (C_ID, "FINISHED")]


def test_processes_are_shown_only_while_the_driver_lives(tmp_path: Path) -> None:
    registry = registry_of_three(tmp_path)
    assert job_status(registry, A_ID).processes == PROCESSES
    lost = job_status(registry, B_ID)
    assert (lost.status, lost.processes) == ("LOST", [])


def test_lines_without_a_time_come_file_by_file_the_drivers_first(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    folder = registry.log_dir(A_ID)
    folder.mkdir()
    (folder / "alpha.log").write_text("x\ry\u2028z\n", encoding="utf-8")
    (folder / "driver.log").write_bytes(b"one\r\n\xff two\nno end")
    registry.write(job_record(log_dir=str(folder), status="FINISHED"))
    assert list(job_logs(registry, A_ID)) == [
        LogLine("driver.log", "one"),
        LogLine("driver.log", "\ufffd two"),
        LogLine("driver.log", "no end"),
        LogLine("alpha.log", "x\ry\u2028z"),
    ]


def test_a_job_without_logs_has_no_lines(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.write(job_record(log_dir=str(tmp_path / "absent")))
    assert list(job_logs(registry, A_ID)) == []


def test_following_yields_what_is_written_later_and_ends_with_the_job(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    log = tmp_path / "driver.log"
    log.write_text("first\nhal", encoding="utf-8")
    registry.write(job_record(log_dir=str(tmp_path)))
    steps = iter(["f\nthird\n", "last"])

    def pause() -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(text := next(steps))
        if text == "last":
            registry.write(job_record(log_dir=str(tmp_path), status="FINISHED"))

    assert [line.text for line in job_logs(registry, A_ID, pause=pause)] == ["first", "half", "third", "last"]


def test_a_tail_does_not_repeat_lines_and_sees_new_files(tmp_path: Path) -> None:
    tail = LogTail(tmp_path)
    (tmp_path / "driver.log").write_text("a\n", encoding="utf-8")
    assert [line.text for line in tail.read()] == ["a"]
    (tmp_path / "taskmanager-0.log").write_text("b\n", encoding="utf-8")
    assert [line.text for line in tail.read()] == ["b"]
    assert list(tail.read(last=True)) == []


def test_a_tail_follows_logs_from_file_to_file_without_losing_or_repeating_lines(tmp_path: Path) -> None:
    chance, clock = random.Random(11), ManualClock(1_700_000_000_000)
    log = DriverLog(tmp_path, A_ID, clock, LogLimits(max_bytes=300, backups=4))
    tail, found, written = LogTail(tmp_path), list[str](), 0
    while written < 300:
        for _ in range(chance.randrange(8)):
            clock.advance(1000)
            log.write("job", f"line {written}")
            written += 1
        lines = tail.read()
        for line in lines:
            found.append(line.text.rpartition(" ")[2])
            if chance.random() < 0.2:  # while the reader is in the middle
                log.write("job", f"line {written}")
                written += 1
    found += [line.text.rpartition(" ")[2] for line in tail.read(last=True)]
    assert found == [str(number) for number in range(written)]
    assert len(list(tmp_path.iterdir())) == 5


def test_the_end_of_a_log_is_read_from_as_many_files_as_it_takes(tmp_path: Path) -> None:
    log = DriverLog(tmp_path, A_ID, ManualClock(1_700_000_000_000), LogLimits(max_bytes=300, backups=4))
    for number in range(21):
        log.write("job", f"line {number:02}")
    length = len((tmp_path / "driver.log").read_bytes().splitlines(keepends=True)[0])
    assert len(list(tmp_path.iterdir())) == 4
    for count in (0, 1, 3, 4, 9, 20):
        lines = recent_lines(tmp_path, LogSelection(), most_bytes=count * length + 20)
        assert [line.text[-2:] for line in lines] == [f"{number:02}" for number in range(21 - count, 21)]
        assert {line.file for line in lines} <= {"driver.log"}


def test_what_sparks_jvm_prints_is_not_among_the_lines(tmp_path: Path) -> None:
    (tmp_path / "spark.log").write_text("WARNING: Using incubator modules\n", encoding="utf-8")
    assert list(LogTail(tmp_path).read(last=True)) == []


def test_the_logs_of_many_attempts_are_read_with_few_open_files(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    folder = registry.log_dir(A_ID)
    folder.mkdir()
    for number in range(300):
        text = (f"2026-05-04T10:{line:02}:{number % 60:02}.{number:03}Z INFO  x | {'y' * 200}\n" for line in range(60))
        (folder / f"taskmanager-{number}-0.log").write_text("".join(text), encoding="utf-8")
    registry.write(job_record(log_dir=str(folder), status="FINISHED"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 20, hard))
    try:
        lines = list(job_logs(registry, A_ID))
        recent = recent_lines(folder, LogSelection(last=100))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(lines) == 300 * 60
    assert [line.time for line in lines] == sorted(line.time for line in lines)
    assert recent == lines[-100:]
