"""Commands in a real terminal: what they show, how they end, and bad input (reliability B-C1 to B-C10)."""

import json
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.cli.command_table import COMMANDS
from penstock.control.registry import Registry
from penstock.model.subtask_work import SubtaskFigures
from tests.process.programs import environment
from tests.records import A_ID, job_record

pytestmark = pytest.mark.process

LIMIT_S = 120
NO_TRACEBACK = "Traceback"
Case = tuple[list[str], int, str]
"""A command, its exit code, and a part of what it says."""
DAILY: list[Case] = [
    (["list"], 0, f"{A_ID} : totals (RUNNING)"),
    (["lsit"], 2, "penstock --help"),
]
OTHERS: list[Case] = [
    (["status", "totals"], 0, "s0/0"),
    (["top", "--once"], 0, "1 job, 1 running"),
    (["doctor"], 0, "jobs can run"),
    (["completion", "zsh"], 0, "compdef"),
    (["--version"], 0, "penstock "),
    (["list", "--nosuch"], 2, "--nosuch"),
    (["run", "-p", "0", "text.py"], 2, "at least 1"),
    (["run", "-p", "many", "text.py"], 2, "--parallelism"),
    (["top", "--interval", "0"], 2, "between"),
    (["completion", "tcsh"], 2, "bash, zsh, fish"),
    (["run", "missing.py"], 3, "missing.py"),
    (["run", "folder"], 3, "folder"),
    (["run", "-s", "nowhere", "text.py"], 3, "nowhere"),
    (["state", "ls", "text.py"], 3, "text.py"),
    (["list", "-m", "127.0.0.1:1"], 6, "PENSTOCK_TOKEN"),
    (["status", "unknown"], 3, "unknown"),
    (["cancel", "unknown"], 3, "unknown"),
    (["logs", "unknown"], 3, "no job 'unknown'"),
    (["forget", "unknown"], 3, "no job 'unknown'"),
    (["forget", "totals"], 4, "cancel or stop the job first"),
    (["savepoint", "unknown"], 3, "no job 'unknown'"),
    (["savepoint", "-d", "nowhere"], 3, "NOT_A_SAVEPOINT"),
    (["stop", "unknown"], 3, "no job 'unknown'"),
    (["checkpoint", "unknown"], 3, "no job 'unknown'"),
    (["checkpoints", "list", "nowhere"], 3, "nowhere"),
    (["rescale", "unknown", "-p", "2"], 3, "no job 'unknown'"),
    (["rescale", "totals", "-p", "0"], 2, "at least 1"),
    (["query", "unknown", "totals"], 3, "no job 'unknown'"),
    (["query", "totals"], 2, "Missing STATE"),
    (["state", "diff", "nowhere", "text.py"], 3, "NOT_A_SAVEPOINT"),
    (["state", "sql", "nowhere", "SELECT 1"], 3, "NOT_A_SAVEPOINT"),
    (["state", "show", "text.py", "--operator", "a", "--state", "b"], 3, "NOT_A_SAVEPOINT"),
    (["state", "export", "nowhere", "--operator", "a"], 2, "--state"),
    (["restore", "--check", "missing.py", "nowhere"], 3, "missing.py"),
    (["info", "missing.py"], 3, "missing.py"),
    (["info", "text.py"], 2, "line 1"),
    (["dashboard", "unknown", "--no-open"], 3, "no job 'unknown'"),
    (["dev", "redis"], 2, "kafka"),
    (["standby", "--ha", "text.py"], 2, "is not a folder"),
    (["supervise", "missing.py"], 3, "missing.py"),
    (["demo", "--nosuch"], 2, "--nosuch"),
    (["list", "-Drest.prot=1"], 2, "rest.port"),
    (["list", "-Drest.port=many"], 2, "rest.port"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a registry that has one running job, and programs that are wrong in some way."""
    registry = Registry(tmp_path / "state" / "penstock" / "registry")
    log_dir = registry.log_dir(A_ID)
    figures = SubtaskFigures("s0", 0, busy_ms_per_s=700)
    registry.write(job_record(A_ID, log_dir=str(log_dir), epoch=7, rows=1234, rows_per_s=56.0, subtasks=[figures]))
    registry.write_checkpoints(A_ID, [CheckpointStats(3, "completed", 1, 2, 1)])
    (tmp_path / "text.py").write_text("total = (", encoding="utf-8")
    (tmp_path / "imports.py").write_text("import no_such_package", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    return tmp_path


def in_terminal(folder: Path, *arguments: str) -> "pexpect.spawn[str]":
    """A command with a terminal of 120 columns."""
    own = {**environment(folder), "TERM": "xterm-256color", "COLUMNS": "120"}
    own.pop("PENSTOCK_TOKEN", None)
    command = ["-m", "penstock", *arguments]
    return pexpect.spawn(
        sys.executable, command, cwd=str(folder), env=own, dimensions=(40, 120), encoding="utf-8", timeout=LIMIT_S
    )


def outcome(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and everything that was shown."""
    child = in_terminal(folder, *arguments)
    child.expect(pexpect.EOF)
    child.close()
    shown = str(child.before)
    assert NO_TRACEBACK not in shown, shown
    return int(child.exitstatus if child.exitstatus is not None else -1), shown


@pytest.mark.parametrize(
    ("arguments", "code", "said"), [*DAILY, *(pytest.param(*case, marks=pytest.mark.full) for case in OTHERS)]
)
def test_cli_c1_to_c9_a_command_in_a_terminal_says_what_is_wrong(
    folder: Path, arguments: list[str], code: int, said: str
) -> None:
    found, shown = outcome(folder, *arguments)
    assert (found, said in shown) == (code, True), shown


@pytest.mark.full
@pytest.mark.parametrize("arguments", [["list"], ["status", "totals"], ["top"], ["doctor"], ["status", "unknown"]])
def test_json_in_a_terminal_is_one_document(folder: Path, arguments: list[str]) -> None:
    _, shown = outcome(folder, *arguments, "--json")
    assert json.loads(shown)


@pytest.mark.full
def test_cli_c9_yaml_that_asks_for_objects_is_refused(folder: Path) -> None:
    (folder / "penstock.yaml").write_text("rest.port: !!python/object/apply:os.getpid []\n", encoding="utf-8")
    code, shown = outcome(folder, "list")
    assert code == 2 and "penstock.yaml" in shown


@pytest.mark.full
def test_cli_c2_c3_a_program_that_is_not_one_is_named_with_its_line(folder: Path) -> None:
    for name, (code, said) in {"text.py": (2, "line 1"), "imports.py": (1, "no_such_package")}.items():
        child = in_terminal(folder, "run", name)
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == code and said in str(child.before)


def test_every_command_is_tried_in_a_terminal() -> None:
    assert set(COMMANDS) - {arguments[0] for arguments, _, _ in (*DAILY, *OTHERS)} == set()


def test_top_is_live_and_ctrl_c_ends_it_with_the_terminal_as_before(folder: Path) -> None:
    child = in_terminal(folder, "top", "--interval", "0.2")
    child.expect_exact("totals")
    child.expect_exact("70 %")
    child.sendintr()
    child.expect_exact("\x1b[?1049l")  # the other screen is gone
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


@pytest.mark.full
def test_bash_completes_a_command_and_the_name_of_a_job(folder: Path) -> None:
    own: dict[str, Any] = {**environment(folder), "PS1": "$ ", "INPUTRC": "/dev/null", "TERM": "dumb"}
    shell = pexpect.spawn(
        "bash", ["--norc", "--noprofile", "-i"], cwd=str(folder), env=own, encoding="utf-8", timeout=LIMIT_S
    )
    shell.sendline('eval "$(penstock completion bash)"; echo re""ady')
    shell.expect_exact("ready")
    shell.send("penstock stat\t\t")
    shell.expect("state.*status|status.*state")
    shell.send("us to\t")
    shell.expect_exact("totals")
    shell.close(force=True)
