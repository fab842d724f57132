"""What the demo prints, without a terminal and on one."""

import io

from rich.console import Console

from penstock.cli.demo.demo_check import Verdict
from penstock.cli.demo.demo_data import ClickStream
from penstock.cli.demo.demo_view import DemoView
from penstock.control.registry import ProcessRecord
from penstock.testing.clocks import ManualClock
from tests.records import job_record


def test_the_output_is_readable_without_a_terminal() -> None:
    out = io.StringIO()
    clock = ManualClock()
    view = DemoView(Console(file=out, highlight=False), 1_000, clock)
    view.introduce(ClickStream(clicks=1_000, users=50, active_users=10), 4)
    with view.starting():
        pass
    with view.running():
        for rows in range(0, 1_000, 100):
            view.show_progress(job_record(rows=rows, attempt=1))
            clock.advance(1_000)
        view.killed(
            ProcessRecord(4711, "here", "taskmanager", ["s0/1", "s1/1"]), job_record(rows=900, last_checkpoint=3)
        )
        view.recovered(2, 3, 4.25)
    view.checking()
    view.show_verdict(Verdict(1_000, 50, 60, 0, 0))
    lines = out.getvalue().splitlines()
    assert [line for line in lines if line[:1].isdigit()] == [
        "1  1,000 clicks of 50 users, in 4 files",
        "2  A job on local Spark with 2 TaskManagers and a checkpoint every 2 s",
        "3  kill -9 4711: a TaskManager, with the state of s0/1 and s1/1 in its memory",
        "4  The job has finished; a batch program reads the same clicks and compares",
    ]
    assert len([line for line in lines if "RUNNING" in line]) == 2  # one every five seconds
    assert (
        "   recovered after 4.2 s: attempt 2 has restored checkpoint 3, and Spark continues from its position" in lines
    )
    assert "\x1b" not in out.getvalue()


def test_a_line_is_not_repeated_without_a_terminal() -> None:
    out, clock = io.StringIO(), ManualClock()
    view = DemoView(Console(file=out, highlight=False), 1_000, clock)
    for _ in range(30):
        view.show_progress(job_record(rows=100, attempt=1))
        clock.advance(1_000)
    assert len(out.getvalue().splitlines()) == 1


def test_a_terminal_shows_checkpoints_the_kill_and_the_recovery() -> None:
    out = io.StringIO()
    view = DemoView(Console(file=out, force_terminal=True, width=100, highlight=False, color_system=None), 1_000)
    with view.running():
        view.show_progress(job_record(rows=300, last_checkpoint=2, rows_per_s=150.0))
        view.show_progress(job_record(rows=400, last_checkpoint=3, rows_per_s=150.0))
        view.killed(ProcessRecord(4711, "here", "taskmanager", ["s0/1"]), job_record(rows=400, last_checkpoint=3))
        view.recovered(2, 3, 4.25)
        view.show_progress(job_record(rows=600, last_checkpoint=4, rows_per_s=150.0))
    last = [line for line in out.getvalue().splitlines() if "checkpoints" in line][-1]
    assert "checkpoints 2 3 killed restored 3 4" in last
    assert "60% 150 clicks/s" in out.getvalue()


def test_commands_to_try_next_are_printed_as_they_are() -> None:
    out = io.StringIO()
    command = "penstock state ls '/a folder/[x]/savepoint'"
    DemoView(Console(file=out, width=40), 1_000).propose([(command, "what it does")])
    assert out.getvalue().splitlines() == ["", "Try next:", "  # what it does", f"  {command}"]


def test_a_difference_is_not_called_equal() -> None:
    out = io.StringIO()
    DemoView(Console(file=out), 1_000).show_verdict(Verdict(1_000, 50, 60, 1, 0))
    assert "not equal" in out.getvalue()
