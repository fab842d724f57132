"""`penstock top` and the completion of commands and jobs."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.cli.flags import complete_job
from penstock.cli.main import main
from penstock.cli.top_command import COLUMNS, job_row, top_text
from penstock.control.registry import PhaseRecord, Registry
from penstock.model.snapshot import StateSize
from penstock.model.subtask_work import SubtaskFigures
from tests.records import A_ID, B_ID, NO_PID, job_record

NOW = 1_700_000_060_000


def cells(**changes: Any) -> dict[str, str]:
    return dict(zip(COLUMNS, job_row(job_record(**changes), NOW), strict=True))


def test_a_row_has_rates_lag_busiest_subtask_checkpoint_and_state() -> None:
    subtasks = [SubtaskFigures("s0", index, busy_ms_per_s=busy) for index, busy in enumerate((100.0, 700.0))]
    row = cells(
        epoch=7,
        rows=1_000,
        epoch_rows=20,
        rows_per_s=12.3,
        watermark=NOW - 3_000,
        updated_ms=NOW,
        subtasks=subtasks,
        last_checkpoint=3,
        checkpoints=[CheckpointStats(3, "completed", NOW - 6_000, NOW - 5_000)],
        states=[StateSize("total", "sum", 40, 1_500, True, True)],
    )
    assert list(row.values()) == [
        A_ID[:8],
        "totals",
        "RUNNING",
        "7",
        "1020",
        "12",
        "3.0 s",
        "70 %",
        "3",
        "5.0 s",
        "1.5 kB",
        "1 min 0 s",
    ]


def test_a_job_that_does_not_run_has_no_rates() -> None:
    row = cells(status="SUSPENDED", rows_per_s=50.0, watermark=1, ended_ms=1_700_000_002_000)
    assert (row["ROWS/S"], row["LAG"], row["BUSY"], row["UPTIME"]) == ("-", "-", "-", "2.0 s")
    assert cells(phase=PhaseRecord("restoring checkpoint 7", 1, 4))["STATUS"] == "restoring checkpoint 7"


def test_without_jobs_it_says_how_to_start_one() -> None:
    assert "penstock run job.py" in top_text([], NOW)


def test_json_and_a_pipe_print_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    registry = Registry(tmp_path)
    registry.write(job_record(A_ID))
    setting = f"-Dpenstock.registry.dir={tmp_path}"
    assert main(["top", setting]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "1 job, 1 running, 0 rows/s; Ctrl-C ends"
    assert main(["top", "--json", setting]) == 0
    assert [one["job_id"] for one in json.loads(capsys.readouterr().out)] == [A_ID]
    assert main(["top", "--interval", "0", setting]) == 2


def test_a_shell_completes_names_of_jobs_and_ids_that_are_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert complete_job("") == []
    registry = Registry(tmp_path / "penstock" / "registry")
    registry.write(job_record(A_ID))
    registry.write(job_record(B_ID, name="old", status="FINISHED", pid=NO_PID))
    assert complete_job("") == ["totals"]
    assert complete_job("t") == ["totals"]
    assert complete_job("ab") == [B_ID]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_every_shell_calls_penstock_back(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_PENSTOCK_COMPLETE=complete_{shell}" in script and "penstock" in script
    assert main(["completion", "tcsh"]) == 2


def test_a_shell_that_asks_gets_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in {"_PENSTOCK_COMPLETE": "complete_bash", "COMP_WORDS": "penstock sta", "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    assert capsys.readouterr().out.split() == ["standby", "status", "state"]
