"""`driver.log`: one form of line, whatever is written."""

import threading
from pathlib import Path

from penstock.control.driver_log import DriverLog
from penstock.runtime.process.log_parts import LogLimits
from penstock.testing import ManualClock

JOB_ID = "0123abcd" * 4


def test_a_line_says_when_and_of_which_job_attempt_and_epoch(tmp_path: Path) -> None:
    log = DriverLog(tmp_path / "job", JOB_ID, ManualClock(1_700_000_000_123))
    log.write("job", "one")
    log.write("checkpoint", "two", level="WARN", attempt=2, epoch=17)
    log.audit("PATCH /jobs", token="a\nb")
    assert (tmp_path / "job" / "driver.log").read_text("utf-8").splitlines() == [
        "2023-11-14T22:13:20.123Z INFO  job job=0123abcd | one",
        "2023-11-14T22:13:20.123Z WARN  checkpoint job=0123abcd attempt=2 epoch=17 | two",
        "2023-11-14T22:13:20.123Z INFO  audit job=0123abcd | PATCH /jobs token=a?b",
    ]


def test_an_error_is_written_with_its_traceback(tmp_path: Path) -> None:
    log = DriverLog(tmp_path, JOB_ID)
    try:
        raise ValueError("broken")
    except ValueError as error:
        log.write_error("job", "the job restarts", error, attempt=1)
    first, *rest = (tmp_path / "driver.log").read_text("utf-8").splitlines()
    assert first.endswith(" ERROR job job=0123abcd attempt=1 | the job restarts")
    assert rest[0].startswith("Traceback") and rest[-1] == "ValueError: broken"


def test_lines_of_several_threads_are_not_mixed(tmp_path: Path) -> None:
    log = DriverLog(tmp_path, JOB_ID)
    text = "x" * 10_000
    threads = [threading.Thread(target=log.write, args=("job", text)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (tmp_path / "driver.log").read_text("utf-8").splitlines()
    assert len(lines) == 8 and all(line.endswith(" " + text) for line in lines)


def test_a_log_that_cannot_be_written_changes_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("not a folder")
    DriverLog(tmp_path / "job", JOB_ID).write("job", "one")


def test_a_log_that_is_full_goes_on_in_a_new_file(tmp_path: Path) -> None:
    log = DriverLog(tmp_path, JOB_ID, ManualClock(1_700_000_000_123), LogLimits(max_bytes=150, backups=2))
    for number in range(20):
        log.write("checkpoint", f"checkpoint {number}")
    kept = ["driver.log.5", "driver.log.6", "driver.log"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
    lines = [line for name in kept for line in (tmp_path / name).read_text("utf-8").splitlines()]
    assert [line.rpartition(" ")[2] for line in lines] == [str(number) for number in range(12, 20)]
