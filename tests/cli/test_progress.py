"""The output of a run while its jobs run, with a terminal and without one."""

import io

import msgspec
import pytest
from rich.console import Console

from penstock.cli.progress import Progress, progress_line
from penstock.cli.time_texts import watermark_text
from penstock.control.terminal import MODE
from tests.records import A_ID, B_ID, job_record


class StepClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic_s(self) -> float:
        return self.seconds


@pytest.fixture(autouse=True)
def text_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODE, "json", False)


def plain() -> Console:
    return Console(file=io.StringIO(), force_terminal=False)


def test_a_line_of_progress_names_epoch_rate_watermark_and_checkpoint() -> None:
    record = job_record(epoch=42, rows=1000, rows_per_s=123.6, watermark=1_700_000_000_000, last_checkpoint=7)
    assert progress_line(record) == (
        "totals RUNNING | epoch 42 | 1000 rows | 124 rows/s | watermark 2023-11-14T22:13:20.000Z | checkpoint 7"
    )
    assert progress_line(job_record(attempt=2)).endswith("watermark none | checkpoint none yet | attempt 2")


@pytest.mark.parametrize(
    ("watermark", "text"),
    [(-(2**63), "none"), (2**63 - 1, "end of input"), (10**18, str(10**18)), (0, "1970-01-01T00:00:00.000Z")],
)
def test_a_watermark_outside_the_calendar_is_still_shown(watermark: int, text: str) -> None:
    assert watermark_text(watermark) == text


def test_the_id_is_the_first_line_and_the_end_the_last_one(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(StepClock(), plain())
    progress(job_record())
    progress(job_record(status="FINISHED"))
    print("the program goes on")
    progress.close()
    progress.close()
    assert capsys.readouterr().out.splitlines() == [
        f"Job has been submitted with JobID {A_ID}",
        "the program goes on",
        f"Job {A_ID} FINISHED",
    ]


def test_the_end_of_a_job_is_printed_before_the_next_one_starts(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(StepClock(), plain())
    for record in (job_record(), job_record(status="FAILED"), job_record(B_ID), job_record(B_ID, status="FINISHED")):
        progress(record)
    progress.close()
    assert capsys.readouterr().out.splitlines() == [
        f"Job has been submitted with JobID {A_ID}",
        f"Job {A_ID} FAILED",
        f"Job has been submitted with JobID {B_ID}",
        f"Job {B_ID} FINISHED",
    ]
    assert progress.any_failed


def test_without_a_terminal_there_is_one_line_every_five_seconds_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    clock = StepClock()
    progress = Progress(clock, plain())
    for epoch in range(13):
        progress(job_record(epoch=epoch))
        clock.seconds += 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" | ")[1] for line in lines] == ["epoch 5", "epoch 10"]


def test_a_change_of_status_is_shown_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(StepClock(), plain())
    for status in ("RUNNING", "RESTARTING", "RESTARTING", "RUNNING"):
        progress(job_record(status=status))
    assert [line.split(" | ")[0] for line in capsys.readouterr().err.splitlines()] == [
        "totals RESTARTING",
        "totals RUNNING",
    ]


def test_on_a_terminal_one_line_changes_in_place_and_is_gone_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    screen = io.StringIO()
    progress = Progress(StepClock(), Console(file=screen, force_terminal=True, width=200, _environ={"TERM": "xterm"}))
    progress(job_record(epoch=1))
    progress(job_record(epoch=2))
    progress(job_record(epoch=2, status="FINISHED"))
    progress.close()
    shown = screen.getvalue()
    assert "epoch 1" in shown and "epoch 2" in shown
    assert shown.endswith("\x1b[2K")  # erased
    assert capsys.readouterr().err == ""


def test_with_json_the_first_and_the_last_line_are_documents(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODE, "json", True)
    progress = Progress(StepClock(), plain())
    progress(job_record())
    progress(job_record(status="CANCELED"))
    progress.close()
    first, last = (msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines())
    assert first == {"job_id": A_ID, "name": "totals"}
    assert (last["job_id"], last["status"]) == (A_ID, "CANCELED")
