"""The output of a run while its jobs run, with a terminal and without one."""

import io
import sys

import msgspec
import pytest
from rich.console import Console

from penstock.cli.progress import Progress, progress_line
from penstock.cli.time_texts import watermark_text
from penstock.control.registry import PhaseRecord
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
    now_ms = 1_700_000_000_000
    record = job_record(
        epoch=42, rows=1000, rows_per_s=123.6, watermark=now_ms, last_checkpoint=7, updated_ms=now_ms + 2_300
    )
    assert progress_line(record) == (
        "totals RUNNING | epoch 42 | 1000 rows | 124 rows/s | watermark 2023-11-14T22:13:20.000Z (2.3 s behind)"
        " | checkpoint 7"
    )
    assert progress_line(msgspec.structs.replace(record, has_backlog=True)).endswith(
        " | checkpoint 7 | more input waits"
    )
    assert progress_line(msgspec.structs.replace(record, state_bytes=1_500)).endswith(" | checkpoint 7 | state 1.5 kB")
    assert "| 1000 rows + 250 in epoch 43 |" in progress_line(msgspec.structs.replace(record, epoch_rows=250))
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
        progress(job_record(epoch=epoch, rows=epoch))
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


def test_without_a_terminal_an_idle_job_does_not_repeat_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    clock = StepClock()
    progress = Progress(clock, plain())
    for second in range(100):
        rows = min(second, 8)
        progress(job_record(epoch=second, rows=rows, epoch_rows=2, last_checkpoint=second))
        clock.seconds += 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" | ")[2].split(" rows")[0] for line in lines] == ["5", "8"]


def test_the_phases_of_the_start_are_shown_once_each(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(StepClock(), plain())
    progress.announce("starting Spark")
    phases = [("starting TaskManagers", 0, 2), ("starting TaskManagers", 1, 2), ("restoring checkpoint 7", 1, 4)]
    for name, done, total in [*phases, ("first epoch", 0, 0)]:
        progress(job_record(phase=PhaseRecord(name, done, total), epoch_rows=0 if total else 1200))
    progress(job_record(rows=5000))
    assert capsys.readouterr().err.splitlines() == [
        "starting Spark",
        "totals RUNNING | starting TaskManagers (0 of 2)",
        "totals RUNNING | restoring checkpoint 7 (1 of 4)",
        "totals RUNNING | first epoch | 1200 rows so far",
    ]


def test_on_a_terminal_the_phases_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    screen = io.StringIO()
    progress = Progress(StepClock(), Console(file=screen, force_terminal=True, width=200, _environ={"TERM": "xterm"}))
    progress.announce("starting Spark")
    progress(job_record(phase=PhaseRecord("starting TaskManagers", 1, 2)))
    progress.close()
    shown = screen.getvalue()
    assert "starting Spark" in shown and "starting TaskManagers (1 of 2)" in shown and shown.endswith("\x1b[2K")
    assert capsys.readouterr().err == ""


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


def test_on_a_narrow_terminal_the_line_is_cut_and_printed_rows_stay_in_one_piece() -> None:
    screen = io.StringIO()
    progress = Progress(StepClock(), Console(file=screen, force_terminal=True, width=30, _environ={"TERM": "xterm"}))
    progress(job_record(epoch=1))
    row = "1> Row(text='" + "many words " * 10 + "')"
    print(row, file=sys.stderr)
    progress.close()
    shown = screen.getvalue()
    assert row in shown
    assert "totals RUNNING | epoch 1 | 0 …" in shown and "watermark" not in shown


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
