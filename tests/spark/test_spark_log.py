"""What Spark's JVM prints: a file for each process, shown by each of its jobs, limited in size and number."""

import os
import stat
from pathlib import Path

import pytest

from penstock.runtime.process.log_parts import NO_LIMITS, LogLimits
from penstock.spark import spark_log
from penstock.spark.spark_log import KEPT_LOGS, begin_spark_log, cut, show_spark_log
from tests.records import NO_PID


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_log, "_file", None)


def begin(folder: Path, text: str) -> None:
    """A JVM starts and prints."""
    descriptor = begin_spark_log(folder, NO_LIMITS)
    os.write(descriptor, text.encode())
    os.close(descriptor)


def test_two_starts_have_files_of_their_own_that_only_their_owner_reads(tmp_path: Path) -> None:
    begin(tmp_path, "one")
    begin(tmp_path, "two")
    files = list(tmp_path.iterdir())
    assert sorted(path.read_text() for path in files) == ["one", "two"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_every_job_of_a_process_shows_its_file(tmp_path: Path) -> None:
    begin(tmp_path, "one")
    for job in ("a", "b", "a"):
        show_spark_log(tmp_path / job, NO_LIMITS)
    assert [os.listdir(tmp_path / job) for job in ("a", "b")] == [["spark.log"], ["spark.log"]]
    assert (tmp_path / "a" / "spark.log").read_text() == "one"


def test_a_job_that_is_resumed_keeps_that_of_the_driver_before(tmp_path: Path) -> None:
    for text in ("one", "two", "three", "four"):
        begin(tmp_path, text)
        show_spark_log(tmp_path / "a", LogLimits(0, backups=2))
    found = {path.name: path.read_text() for path in (tmp_path / "a").iterdir()}
    assert found == {"spark.log.2": "two", "spark.log.3": "three", "spark.log": "four"}


def test_without_a_jvm_of_its_own_a_process_shows_nothing(tmp_path: Path) -> None:
    show_spark_log(tmp_path / "a", NO_LIMITS)
    assert not (tmp_path / "a").exists()


def test_old_files_of_processes_that_have_ended_are_removed(tmp_path: Path) -> None:
    for number in range(KEPT_LOGS + 3):
        for pid in (NO_PID, os.getpid()):
            path = tmp_path / f"spark-{pid}-{number:02}.log"
            path.write_text("")
            os.utime(path, (number, number))
    (tmp_path / "other.log").write_text("")
    begin(tmp_path, "")
    ended = sorted(path.name for path in tmp_path.glob(f"spark-{NO_PID}-*.log"))
    assert ended == [f"spark-{NO_PID}-{number:02}.log" for number in range(3, KEPT_LOGS + 3)]
    assert len(list(tmp_path.glob(f"spark-{os.getpid()}-*.log"))) == KEPT_LOGS + 3 + 1
    assert (tmp_path / "other.log").exists()


def test_a_file_that_is_too_large_keeps_its_last_lines(tmp_path: Path) -> None:
    descriptor = begin_spark_log(tmp_path, NO_LIMITS)
    (path,) = tmp_path.iterdir()
    for number in range(10):
        os.write(descriptor, f"line {number}\n".encode())
    cut(path, 71)
    assert path.stat().st_size == 70
    cut(path, 70)
    os.write(descriptor, b"after\n")  # the JVM goes on with its open file
    os.close(descriptor)
    assert path.read_text() == "line 6\nline 7\nline 8\nline 9\nafter\n"
