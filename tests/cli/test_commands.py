"""`list`, `status`, `logs`, `demo` and the command itself: text, JSON, exit codes."""

import json
from datetime import datetime
from pathlib import Path
from unittest.mock import ANY

import pytest

from penstock import __version__
from penstock.cli.demo import demo_command
from penstock.cli.main import main
from penstock.cli.status_commands import hottest_text
from penstock.control.registry import FailureRecord, ProcessRecord, Registry, StatusChange
from penstock.control.terminal import table
from penstock.model.recent_epoch import EpochPhases, RecentEpoch
from penstock.model.snapshot import StateSize
from penstock.model.subtask_work import SubtaskFigures
from tests.records import A_ID, B_ID, NO_PID, job_record


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    registry = Registry(tmp_path / "registry")
    driver = ProcessRecord(11, "here", "driver")
    manager = ProcessRecord(12, "here", "taskmanager", ["keyed/0", "keyed/1"])
    registry.write(job_record(A_ID, log_dir=str(tmp_path), processes=[driver, manager], last_checkpoint=3, rows=5))
    registry.write(job_record(B_ID, name="other", pid=NO_PID, failure="Traceback: boom\n"))
    return registry


def in_registry(registry: Registry, *arguments: str) -> list[str]:
    return [*arguments, f"-Dpenstock.registry.dir={registry.folder}"]


def test_list_has_flinks_form(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    registry.write(job_record("c" * 32, name="old", status="FINISHED"))
    assert main(in_registry(registry, "list")) == 0
    shown = capsys.readouterr().out.splitlines()
    started = datetime.fromtimestamp(1_700_000_000).strftime("%d.%m.%Y %H:%M:%S")
    line = "-" * 62
    expected = [
        "------------------ Running/Restarting Jobs -------------------",
        f"{started} : {A_ID} : totals (RUNNING)",
        line,
        "No scheduled jobs.",
        "------------------------- Lost Jobs --------------------------",
        f"{started} : {B_ID} : other (LOST)",
        line,
    ]
    assert shown == expected
    assert main(in_registry(registry, "list", "-a")) == 0
    assert capsys.readouterr().out.splitlines() == [
        *expected,
        "---------------------- Terminated Jobs -----------------------",
        f"{started} : {'c' * 32} : old (FINISHED)",
        line,
    ]
    assert main(in_registry(registry, "list", "-s")) == 0
    assert capsys.readouterr().out == "No scheduled jobs.\n"


def test_a_suspended_job_is_listed_because_it_can_be_resumed(
    registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.write(job_record(B_ID, name="other", status="SUSPENDED", pid=NO_PID))
    assert main(in_registry(registry, "list")) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[-3] == "----------------------- Suspended Jobs -----------------------" and "(SUSPENDED)" in shown[-2]
    assert main(in_registry(registry, "list", "-r", "--json")) == 0
    assert [job["job_id"] for job in json.loads(capsys.readouterr().out)] == [A_ID]


def test_a_lost_job_can_be_forgotten(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    registry.write(job_record(B_ID, name="other", pid=NO_PID, checkpoint_dir="/data/checkpoints"))
    assert main(in_registry(registry, "forget", "other")) == 0
    line = f"job {B_ID} (other) is forgotten; its checkpoints in /data/checkpoints stay\n"
    assert capsys.readouterr().out == line
    assert main(in_registry(registry, "forget", "other")) == 3
    assert main(in_registry(registry, "forget", A_ID)) == 4


@pytest.mark.parametrize(("flag", "ids"), [("-r", [A_ID]), ("-a", [A_ID, B_ID]), ("--all", [A_ID, B_ID])])
def test_list_selects_and_prints_json(
    registry: Registry, capsys: pytest.CaptureFixture[str], flag: str, ids: list[str]
) -> None:
    assert main(in_registry(registry, "list", flag, "--json")) == 0
    assert [job["job_id"] for job in json.loads(capsys.readouterr().out)] == ids


def test_list_names_a_record_that_cannot_be_read_and_goes_on(
    registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    (registry.folder / f"{'c' * 32}.json").write_bytes(b"{")
    assert main(in_registry(registry, "list", "-a", "--json")) == 0
    shown = capsys.readouterr()
    assert [job["job_id"] for job in json.loads(shown.out)] == [A_ID, B_ID]
    assert "c" * 32 in shown.err and shown.err.startswith("warning: ")


def test_list_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(in_registry(Registry(tmp_path), "list")) == 0
    assert capsys.readouterr().out == "No running jobs.\nNo scheduled jobs.\n"


def test_the_settings_file_of_the_working_folder_names_the_registry(
    registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "penstock.yaml").write_text(f"penstock.registry.dir: {registry.folder}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["list", "-r", "--json"]) == 0
    assert [job["job_id"] for job in json.loads(capsys.readouterr().out)] == [A_ID]
    assert main(["list", "-Dpenstock.registry.dri=x"]) == 2
    assert "did you mean 'penstock.registry.dir'" in capsys.readouterr().err


def test_list_cannot_be_both_running_and_all(registry: Registry) -> None:
    assert main(in_registry(registry, "list", "-r", "-a")) == 2


def test_status_names_the_processes_and_their_subtasks(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(in_registry(registry, "status", "totals")) == 0
    shown = capsys.readouterr().out
    assert "checkpoint   3" in shown and "rows         5 (0 rows/s)" in shown
    assert shown.splitlines()[-1].split() == ["12", "here", "taskmanager", "keyed/0", "keyed/1"]


def test_status_shows_where_the_time_of_the_last_epoch_and_of_the_subtasks_goes(
    registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    epoch = RecentEpoch(7, 1000, 1400, 50, 20, 3, EpochPhases(30, 200, 120, 15, 5, 30))
    figures = SubtaskFigures("s0", 1, 50, 20, 12.5, 5.0, 700, 100, 200)
    registry.write(job_record(B_ID, name="busy", subtasks=[figures], last_epoch=epoch))
    assert main(in_registry(registry, "status", "busy")) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    parts = "scheduling 30, reading 200, functions 120, state 15, sealing 5, committing 30"
    assert f"last epoch 400 ms ({parts})".split() in lines
    assert "s0/1 50 20 12 70 % 10 % 20 %".split() in lines


def test_status_in_json_has_pid_host_role_and_subtasks(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(in_registry(registry, "status", A_ID[:4] + "a", "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["processes"] == [
        {"pid": 11, "host": "here", "role": "driver", "subtasks": [], "id": ""},
        {"pid": 12, "host": "here", "role": "taskmanager", "subtasks": ["keyed/0", "keyed/1"], "id": ""},
    ]


def test_status_shows_why_a_job_failed(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(in_registry(registry, "status", B_ID)) == 0
    assert capsys.readouterr().out.endswith("Traceback: boom\n")


def test_status_lists_the_attempts_that_failed(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    failures = [
        FailureRecord(1000, 1, "UserFunctionError", "Traceback\nin operator 'x', record 1", "ValueError: no"),
        FailureRecord(2000, 2, "TaskManagerLostError", ""),
    ]
    registry.write(job_record(A_ID, failures=failures, transitions=[StatusChange("RUNNING", 900)]))
    assert main(in_registry(registry, "status", A_ID)) == 0
    first, second = capsys.readouterr().out.splitlines()[-2:]
    assert first.split()[0] == "1" and first.endswith("UserFunctionError     ValueError: no")
    assert second.split()[0] == "2" and second.endswith("TaskManagerLostError  -")
    assert main(in_registry(registry, "status", A_ID, "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["failures"][0]["root_cause"] == "ValueError: no"
    assert document["transitions"] == [{"status": "RUNNING", "at_ms": 900}]


SIZES = [
    StateSize("totals", "total", 1200, 52_300, True, False, 0, [400, 700, 100], [20_000, 30_300, 2_000], [("ada", 99)]),
    StateSize("totals", "seen", 7, 0, False, False),
    StateSize("totals", "disk", 9, 90, False, False, 0, [8, 1], [80, 10], [("ada", 990)], on_disk=True),
]


def test_status_prints_a_line_for_each_state(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    timers = [StateSize("totals", name, count, 9, True, True) for name, count in (("_timers_a", 0), ("_timers_b", 1))]
    registry.write_sizes(A_ID, [*SIZES, *timers])
    assert main(in_registry(registry, "status", A_ID)) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("OPERATOR", "totals"))]
    assert lines == [
        "OPERATOR  STATE      ENTRIES  BYTES     HOTTEST KEY GROUP  LARGEST KEY",
        "totals    total      1200     ~52.3 kB  1 (30.3 kB)        ada (99 B)",
        "totals    seen       ~7       ~0 B      -                  -",
        "totals    disk       ~9       ~90 B     0 (~80 B)          ada (990 B uncompressed)",
        "totals    _timers_b  1        9 B       -                  -",
    ]


@pytest.mark.parametrize(
    ("first", "group_bytes", "text"),
    [
        (4, [10, 10, 40], "6 (40 B)"),
        (0, [100, 101, 100], "-"),
        (0, [0, 0], "-"),
        (0, [], "-"),
        (0, [90, 120], "1 (120 B)"),
    ],
)
def test_a_key_group_is_named_only_if_it_stands_out(first: int, group_bytes: list[int], text: str) -> None:
    size = StateSize("op", "state", 1, sum(group_bytes), True, True, first, [1] * len(group_bytes), group_bytes)
    assert hottest_text(size) == text


def test_status_in_json_has_the_figures_of_every_key_group(
    registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.write_sizes(A_ID, SIZES)
    assert main(in_registry(registry, "status", A_ID, "--json")) == 0
    total, *_ = json.loads(capsys.readouterr().out)["states"]
    assert (total["entries"], total["size_bytes"], total["entries_exact"], total["bytes_exact"]) == (
        1200,
        52_300,
        True,
        False,
    )
    assert (total["group_entries"], total["group_bytes"]) == ([400, 700, 100], [20_000, 30_300, 2_000])
    assert total["largest"] == [["ada", 99]]
    assert main(in_registry(registry, "list", "-a", "--json")) == 0
    assert all("states" not in job for job in json.loads(capsys.readouterr().out))


def test_status_without_sizes_has_no_states(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(in_registry(registry, "status", A_ID)) == 0
    assert "OPERATOR" not in capsys.readouterr().out
    registry.write_sizes(A_ID, SIZES)
    (registry.log_dir(A_ID) / "state-sizes.json").write_text("{")
    assert main(in_registry(registry, "status", A_ID, "--json")) == 0
    assert json.loads(capsys.readouterr().out)["states"] == []


@pytest.mark.parametrize("command", ["status", "logs"])
def test_an_unknown_job_is_3_and_an_ambiguous_one_4(
    registry: Registry, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main(in_registry(registry, command, "zzz")) == 3
    assert "no job 'zzz'" in capsys.readouterr().err
    assert main(in_registry(registry, command, "a")) == 4
    assert main(in_registry(registry, command, "zzz", "--json")) == 3
    assert json.loads(capsys.readouterr().out)["code"] == 3


def test_logs_are_merged_by_time_and_selected_by_level_and_number(
    registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = "2026-11-14T22:13:20"
    (tmp_path / "driver.log").write_text(
        f"{at}.100Z INFO  job job=a | one\n{at}.300Z ERROR job job=a | three\nTraceback\n", encoding="utf-8"
    )
    (tmp_path / "taskmanager-1-0.log").write_text(f"{at}.200Z INFO  stdout job=a | [red]\n", encoding="utf-8")
    assert main(in_registry(registry, "logs", "totals")) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"driver          {at}.100Z INFO  job job=a | one",
        f"taskmanager-1-0 {at}.200Z INFO  stdout job=a | [red]",
        f"driver          {at}.300Z ERROR job job=a | three",
        "driver          Traceback",
    ]
    assert main(in_registry(registry, "logs", "totals", "--level", "warn")) == 0
    assert [line[-5:] for line in capsys.readouterr().out.splitlines()] == ["three", "eback"]
    assert main(in_registry(registry, "logs", "totals", "-n", "3", "--json")) == 0
    first, *rest = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert first == {"file": "taskmanager-1-0.log", "text": ANY, "time": f"{at}.200Z", "level": "INFO"}
    assert [line["level"] for line in rest] == ["ERROR", "ERROR"]
    assert main(in_registry(registry, "logs", "totals", "--level", "loud")) == 2


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"penstock {__version__}\n"


def test_no_command_shows_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(
        f"  {command} " in shown
        for command in ("run", "list", "status", "logs", "demo", "savepoint", "stop", "cancel", "checkpoint")
    )


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [(["lst"], "'list'"), (["stauts"], "'status'"), (["list", "--jsno"], "--json"), (["run", "--resum"], "--resume")],
)
def test_a_mistyped_word_suggests_the_nearest(
    capsys: pytest.CaptureFixture[str], arguments: list[str], suggestion: str
) -> None:
    assert main(arguments) == 2
    assert suggestion in capsys.readouterr().err


def test_demo_runs_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_command, "run_demo", lambda: 1)
    assert main(["demo"]) == 1


def test_an_error_of_ours_asks_for_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Registry) -> None:
        raise TypeError("oops")

    monkeypatch.setattr(Registry, "list", fail)
    assert main(["list"]) == 1
    assert capsys.readouterr().err == "error: this is a bug in penstock: TypeError: oops; --debug shows where\n"


def test_a_table_without_rows_is_its_header() -> None:
    assert table(["A", "B"], []) == "A  B"


@pytest.mark.parametrize(
    "arguments", [("savepoint", "--bogus"), ("nothing",), ("run", "-p", "x", "job.py"), ("list", "-D")]
)
def test_cli_c1_with_json_a_mistake_in_a_flag_is_a_document_too(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([arguments[0], "--json", *arguments[1:]]) == 2
    shown = capsys.readouterr()
    assert json.loads(shown.out)["code"] == 2 and not shown.err


def test_rest_r13_names_cannot_control_the_terminal(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    registry.write(job_record("c" * 32, name="a\x1b]0;b\x07\u202ec"))
    (registry.folder / ("d" * 32 + ".json")).write_text('{"job_id": "\x1b[2J')
    assert main(in_registry(registry, "list")) == 0
    assert main(["status", "\x1b[2J"]) == 3
    shown = capsys.readouterr()
    assert "a\\x1b]0;b\\x07\\u202ec" in shown.out
    assert "\x1b" not in shown.out + shown.err and "\u202e" not in shown.out
