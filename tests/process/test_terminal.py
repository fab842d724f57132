"""Commands in a real terminal: what they show, how they end, and bad input (reliability B-C1 to B-C10)."""

import json
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.control.registry import Registry
from penstock.model.subtask_work import SubtaskFigures
from tests.process.programs import environment
from tests.records import A_ID, job_record

pytestmark = pytest.mark.process

LIMIT_S = 120
NOT_DAILY = pytest.mark.full
NO_TRACEBACK = "Traceback"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a registry that has one running job, and programs that are wrong in some way."""
    registry = Registry(tmp_path / "state" / "penstock" / "registry")
    log_dir = registry.log_dir(A_ID)
    figures = SubtaskFigures("s0", 0, busy_ms_per_s=700)
    registry.write(job_record(A_ID, log_dir=str(log_dir), epoch=7, rows=1234, rows_per_s=56.0, subtasks=[figures]))
    registry.write_checkpoints(A_ID, [CheckpointStats(3, "completed", 1, 2, 1)])
    (tmp_path / "text.py").write_text("this is not Python", encoding="utf-8")
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
    ("arguments", "code", "said"),
    [
        (["list"], 0, f"{A_ID} : totals (RUNNING)"),
        pytest.param(["status", "totals"], 0, "s0/0", marks=NOT_DAILY),
        pytest.param(["top", "--once"], 0, "1 job, 1 running", marks=NOT_DAILY),
        pytest.param(["doctor"], 0, "jobs can run", marks=NOT_DAILY),
        pytest.param(["completion", "zsh"], 0, "compdef", marks=NOT_DAILY),
        pytest.param(["--version"], 0, "penstock ", marks=NOT_DAILY),
        (["lsit"], 2, "penstock --help"),
        pytest.param(["list", "--nosuch"], 2, "--nosuch", marks=NOT_DAILY),
        pytest.param(["run", "-p", "0", "text.py"], 2, "at least 1", marks=NOT_DAILY),
        pytest.param(["run", "-p", "many", "text.py"], 2, "--parallelism", marks=NOT_DAILY),
        pytest.param(["top", "--interval", "0"], 2, "between", marks=NOT_DAILY),
        pytest.param(["completion", "tcsh"], 2, "bash, zsh, fish", marks=NOT_DAILY),
        pytest.param(["run", "missing.py"], 3, "missing.py", marks=NOT_DAILY),
        pytest.param(["run", "folder"], 3, "folder", marks=NOT_DAILY),
        pytest.param(["run", "-s", "nowhere", "text.py"], 3, "nowhere", marks=NOT_DAILY),
        pytest.param(["state", "ls", "text.py"], 3, "text.py", marks=NOT_DAILY),
        pytest.param(["list", "-m", "127.0.0.1:1"], 6, "PENSTOCK_TOKEN", marks=NOT_DAILY),
        pytest.param(["status", "unknown"], 3, "unknown", marks=NOT_DAILY),
        pytest.param(["cancel", "unknown"], 3, "unknown", marks=NOT_DAILY),
        pytest.param(["list", "-Drest.prot=1"], 2, "rest.port", marks=NOT_DAILY),
        pytest.param(["list", "-Drest.port=many"], 2, "rest.port", marks=NOT_DAILY),
    ],
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
    for name, said in {"text.py": "text.py", "imports.py": "no_such_package"}.items():
        child = in_terminal(folder, "run", name)
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 1 and said in str(child.before)


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
