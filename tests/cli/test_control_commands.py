"""`savepoint`, `stop`, `cancel`, `checkpoint` against a control server: Flink's messages, exit codes."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.cli.main import main
from penstock.cli.percent_bar import PercentBar
from penstock.control.registry import Registry
from penstock.control.remote_job import RemoteJob, ServerAddress
from penstock.rest.rest_settings import RestSettings
from penstock.rest.server import ControlServer
from tests.records import A_ID, B_ID, NO_PID, job_record
from tests.rest.fake_job import TOKENS, FakeJob, Served, end_savepoint
from tests.waiting import wait_until

PATH = "savepoint-aaaaaa-0123456789ab"


class Commands:
    """Runs commands on a fake job that has a real server and a place in a registry."""

    def __init__(self, folder: Path, job: FakeJob | None = None) -> None:
        self.registry = Registry(folder / "registry")
        self.served = Served(folder, job)
        self.job = self.served.job
        self.server = ControlServer(RestSettings())
        self.server.start(self.served.app)
        self.log_dir = self.registry.log_dir(A_ID)
        TOKENS.write(self.log_dir)
        self.write(rest=self.server.address)

    def write(self, **changes: Any) -> None:
        self.registry.write(job_record(**{"rest": self.server.address, "log_dir": str(self.log_dir), **changes}))

    def run(self, *arguments: str) -> int:
        return main([*arguments, f"-Dpenstock.registry.dir={self.registry.folder}"])

    def run_while(self, answer: Callable[[SavepointRequest], None], *arguments: str) -> int:
        """Run a command, and answer the savepoint that it asks for."""

        def work() -> None:
            answer(wait_until(lambda: list(self.job.requests.values()))[0])

        helper = threading.Thread(target=work, daemon=True)
        helper.start()
        code = self.run(*arguments)
        helper.join(30)
        return code

    def ends_as(self, status: str) -> Callable[[SavepointRequest], None]:
        """An answer with which the job ends too."""

        def end(ticket: SavepointRequest) -> None:
            self.job.current = job_record(status=status)
            end_savepoint(ticket)

        return end


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    commands = Commands(tmp_path)
    yield commands
    commands.server.close()


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_n2_savepoint_prints_flinks_lines(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run_while(end_savepoint, "savepoint", A_ID, "/sp") == 0
    assert lines(capsys) == [
        f"Triggering savepoint for job {A_ID}.",
        "Waiting for response...",
        f"Savepoint completed. Path: /sp/{PATH}",
        "You can resume your program from this savepoint with the run command.",
    ]
    assert commands.job.triggered == [("/sp", "canonical", "go_on", False)]


def test_n9_the_type_is_native_where_asked_for_and_json_is_one_document(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.run_while(end_savepoint, "savepoint", "totals", "-type", "native", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "job_id": A_ID,
        "savepoint": f"/savepoints/{PATH}",
        "type": "native",
    }
    assert commands.job.triggered == [("/savepoints", "native", "go_on", False)]


def test_a_relative_folder_is_resolved_in_the_working_folder_of_the_command(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert commands.run_while(end_savepoint, "savepoint", A_ID, "here") == 0
    assert commands.job.triggered[0][0] == str(tmp_path / "here")


def test_progress_is_shown_in_percent(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    def slowly(ticket: SavepointRequest) -> None:
        ticket.advance(0.42)
        wait_until(lambda: "savepoint 42 %" in seen(capsys))
        end_savepoint(ticket)

    shown: list[str] = []

    def seen(capsys: pytest.CaptureFixture[str]) -> str:
        shown.append(capsys.readouterr().err)
        return "".join(shown)

    assert commands.run_while(slowly, "savepoint", A_ID) == 0


def test_a_terminal_gets_a_bar() -> None:
    console = Console(force_terminal=True, file=open(os.devnull, "w"), record=True)
    with PercentBar(console) as bar:
        bar(37)
    assert "37%" in console.export_text()
    console.file.close()


def test_n10_a_detached_savepoint_prints_its_trigger_id(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run("savepoint", A_ID, "--detached") == 0
    (trigger_id,) = commands.job.requests
    assert lines(capsys)[-1] == f"Successfully trigger manual savepoint, triggerId: {trigger_id}"
    end_savepoint(commands.job.requests[trigger_id])
    assert commands.served.client.get(f"/jobs/{A_ID}/savepoints/{trigger_id}").status_code == 200


def test_a_savepoint_that_fails_is_1(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run_while(lambda ticket: end_savepoint(ticket, "the disk is full"), "savepoint", A_ID) == 1
    assert capsys.readouterr().err.endswith("error: the savepoint failed: the disk is full\n")


def test_n11_without_a_folder_it_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = Commands(tmp_path, FakeJob(savepoint_dir=None))
    for command in (["savepoint", A_ID], ["stop", A_ID], ["cancel", A_ID, "-s"]):
        assert commands.run(*command) == 2
        assert "No savepoint location given and no default location configured." in capsys.readouterr().err
    commands.server.close()


def test_a_second_savepoint_is_4_and_names_the_first(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run("savepoint", A_ID, "--detached") == 0
    (trigger_id,) = commands.job.requests
    assert commands.run("savepoint", A_ID) == 4
    assert trigger_id in capsys.readouterr().err
    end_savepoint(commands.job.requests[trigger_id])


@pytest.mark.parametrize(
    ("flags", "line", "triggered"),
    [
        (["-p", "/sp"], f'Suspending job "{A_ID}" with a CANONICAL savepoint.', ("/sp", "canonical", "stop", False)),
        (["-p"], f'Suspending job "{A_ID}" with a CANONICAL savepoint.', ("/savepoints", "canonical", "stop", False)),
        (
            ["--drain", "--type", "native"],
            f'Draining job "{A_ID}" with a NATIVE savepoint.',
            ("/savepoints", "native", "stop", True),
        ),
    ],
)
def test_n3_n4_stop_prints_flinks_lines(
    commands: Commands, capsys: pytest.CaptureFixture[str], flags: list[str], line: str, triggered: tuple[Any, ...]
) -> None:
    assert commands.run_while(commands.ends_as("FINISHED"), "stop", A_ID, *flags) == 0
    assert lines(capsys) == [line, f"Savepoint completed. Path: {triggered[0]}/{PATH}"]
    assert commands.job.triggered == [triggered]


def test_n3_a_detached_stop_prints_its_trigger_id(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run("stop", "-p", A_ID, "-detached") == 0  # as in Flink: -p takes the job if nothing follows
    (trigger_id,) = commands.job.requests
    said = "Successfully trigger stop-with-savepoint in detached mode, triggerId: "
    assert lines(capsys)[-1] == said + trigger_id
    end_savepoint(commands.job.requests[trigger_id])


def test_cancel_waits_for_the_end(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run("cancel", A_ID) == 0
    assert lines(capsys) == [f"Cancelling job {A_ID}.", f"Cancelled job {A_ID}."]
    assert commands.job.cancelled.is_set()
    assert commands.run("cancel", A_ID, "--json") == 0  # the server is still there
    assert json.loads(capsys.readouterr().out) == {"job_id": A_ID, "status": "CANCELED"}


def test_a_second_cancel_is_0_and_that_of_a_finished_job_3(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.write(status="CANCELED", rest=None)
    assert commands.run("cancel", A_ID) == 0
    commands.write(status="FINISHED", rest=None)
    assert commands.run("cancel", A_ID) == 3
    assert "is FINISHED" in capsys.readouterr().err
    assert commands.run("savepoint", A_ID) == 3
    commands.write()
    commands.job.current = job_record(status="FINISHED")  # it ended between the check and the request
    assert commands.run("cancel", A_ID) == 3


def test_n5_cancel_with_a_savepoint(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run_while(commands.ends_as("CANCELED"), "cancel", A_ID, "-s", "/sp") == 0
    assert lines(capsys) == [
        'DEPRECATION WARNING: Cancelling a job with savepoint is deprecated. Use "stop" instead.',
        f"Cancelling job {A_ID} with CANONICAL savepoint to /sp.",
        f"Cancelled job {A_ID}. Savepoint stored in /sp/{PATH}.",
    ]
    assert commands.job.triggered == [("/sp", "canonical", "cancel", False)]


def test_n5_a_savepoint_that_fails_leaves_the_job_running(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.run_while(lambda ticket: end_savepoint(ticket, "cannot write"), "cancel", "-s", A_ID) == 1
    shown = capsys.readouterr()
    assert f"Cancelling job {A_ID} with CANONICAL savepoint to default savepoint directory." in shown.out
    assert "cannot write" in shown.err and "Cancelled" not in shown.out


@pytest.mark.parametrize(
    ("flags", "word"), [([], "Checkpoint"), (["--full"], "Checkpoint(FULL)"), (["-full"], "Checkpoint(FULL)")]
)
def test_m6_checkpoint_prints_flinks_lines(
    commands: Commands, capsys: pytest.CaptureFixture[str], flags: list[str], word: str
) -> None:
    assert commands.run("checkpoint", A_ID, *flags) == 0
    assert lines(capsys)[-2:] == [
        f"{word} 26 for job {A_ID} completed.",
        "You can resume your program from this checkpoint with the run command.",
    ]
    assert commands.job.taken == [bool(flags)]
    commands.job.checkpoint_failure = "Checkpoint expired before completing."
    assert commands.run("checkpoint", A_ID, "--json") == 1
    assert json.loads(capsys.readouterr().out)["errors"] == ["Checkpoint expired before completing."]


def test_e9_rescale_prints_the_pause(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run("rescale", A_ID, "-p", "4") == 0
    assert lines(capsys) == [
        f"Rescaling job {A_ID} to parallelism 4.",
        f"Job {A_ID} was rescaled from 2 to 4 at checkpoint 7, paused for 1.5 s.",
    ]
    assert commands.run("rescale", A_ID, "-p", "4", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "job_id": A_ID,
        "from": 2,
        "to": 4,
        "checkpoint": 7,
        "pause_ms": 1530,
    }
    assert commands.run("rescale", A_ID, "-p", "0") == commands.run("rescale", A_ID, "-p", "999") == 2
    assert "not between 1 and 128" in capsys.readouterr().err
    commands.job.is_rescaling = True
    assert commands.run("rescale", A_ID, "-p", "3") == 4


@pytest.mark.parametrize("command", ["savepoint", "stop", "cancel", "checkpoint"])
def test_a_missing_or_unknown_job(commands: Commands, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert commands.run(command) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: Missing JobID. Specify a Job ID to ")
    assert command != "savepoint" or said == "error: Missing JobID. Specify a Job ID to trigger a savepoint.\n"
    assert commands.run(command, "nobody") == 3
    assert commands.run(command, "nobody", "-m", f"localhost:{commands.server.port}") == 6  # no token


def test_cli_c7_an_unreachable_server_is_6_with_its_url(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    address = commands.server.address
    commands.server.close()
    for command in ("savepoint", "stop", "cancel", "checkpoint"):
        assert commands.run(command, A_ID) == 6
        said = capsys.readouterr()
        assert address in said.err and TOKENS.admin not in said.err + said.out


def test_cli_c7_a_wrong_token_is_6_and_not_shown(
    commands: Commands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    address = f"localhost:{commands.server.port}"
    monkeypatch.setenv("PENSTOCK_TOKEN", "not-the-token")
    assert commands.run("cancel", A_ID, "-m", address) == 6
    said = capsys.readouterr()
    assert address in said.err and "not-the-token" not in said.err + said.out
    (tmp_path / "token").write_text(TOKENS.read)
    assert commands.run("cancel", A_ID, "-m", address, "--token-file", str(tmp_path / "token")) == 6
    assert "admin token" in capsys.readouterr().err and not commands.job.cancelled.is_set()
    for file in commands.log_dir.glob("rest-*"):
        file.write_text("old")
    assert commands.run("cancel", A_ID) == 6


def test_cli_c7_a_server_that_answers_nothing_or_nonsense_is_6(
    commands: Commands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.control.remote_job.connect_to_job.__defaults__", (0.2,))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        commands.write(rest=f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert commands.run("cancel", A_ID) == 6
        assert "timed out" in capsys.readouterr().err


def test_an_interrupt_is_130_and_the_savepoint_goes_on(
    commands: Commands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RemoteJob, "state_of", interrupt)
    assert commands.run("savepoint", A_ID) == 130
    (request,) = commands.job.requests.values()
    assert not request.future.done()
    assert f"continues the operation, triggerId: {request.trigger_id}" in capsys.readouterr().err
    end_savepoint(request)
    assert commands.run("checkpoint", A_ID, "--json") == 130
    assert json.loads(capsys.readouterr().out)["code"] == 130


@pytest.mark.parametrize("by", ["id", "prefix", "name"])
def test_m_reaches_a_job_by_host_and_port(
    commands: Commands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", TOKENS.admin)
    text = {"id": A_ID, "prefix": A_ID[:6], "name": "totals"}[by]
    server = ["-m", f"127.0.0.1:{commands.server.port}"]
    assert main(["checkpoint", text, *server]) == 0
    assert commands.run("list", *server, "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])[0]["jid"] == A_ID
    assert commands.run("list", *server) == 0
    assert f" : {A_ID} : totals (RUNNING)" in capsys.readouterr().out
    assert main(["checkpoint", "other", *server]) == 3
    assert main(["savepoint", A_ID, "relative", *server]) == 2


@pytest.mark.parametrize(
    "server", ["nohost", "a:b", "ftp://a:1", "a b:1", "http://user:pw@a:1", "a:99999", "[:::]:80", "[1.2]:80"]
)
def test_m_that_is_no_address_is_2(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", "x")
    assert main(["cancel", A_ID, "-m", server]) == 2


def test_a_token_without_tls_gets_a_warning() -> None:
    assert ServerAddress("http://example.org:8081", "t").sends_token_in_clear
    assert not ServerAddress("https://example.org:8081", "t").sends_token_in_clear
    assert not ServerAddress("http://localhost:8081", "t").sends_token_in_clear
    assert "secret" not in repr(ServerAddress("http://localhost:8081", "secret"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pid": NO_PID}, "driver of job"),
        ({"rest": None}, "has no control server"),
        ({"host": "elsewhere", "updated_ms": 10**14}, "can be reached only from there"),
    ],
)
def test_a_job_that_cannot_be_reached_is_6(
    commands: Commands, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], said: str
) -> None:
    commands.write(**changes)
    for command in ("savepoint", "stop"):  # a job without a driver can be cancelled, see test_cancellation.py
        assert commands.run(command, A_ID) == 6
        assert said in capsys.readouterr().err
    assert commands.run("savepoint", A_ID, "--json") == 6
    assert json.loads(capsys.readouterr().out)["code"] == 6


def test_no_token_is_in_the_command_line_or_the_registry(commands: Commands) -> None:
    for path in commands.registry.folder.rglob("*"):
        if path.is_file() and not path.name.startswith("rest-"):
            assert TOKENS.admin not in path.read_text()
    assert commands.registry.read(A_ID).rest == commands.server.address
    assert B_ID not in commands.job.requests


OTHER = {"jid": A_ID, "name": "totals", "state": "RUNNING", "start-time": 1}


@pytest.mark.parametrize(
    "answer",
    [
        {"jobs": None},
        {"jobs": ["x"]},
        {"jobs": [{"jid": A_ID}]},
        {"jobs": [{**OTHER, "jid": "../x"}]},
        {"jobs": [{**OTHER, "start-time": 10**30}]},
        {"jobs": [OTHER]},
        {"jobs": [OTHER], "status": {"id": "COMPLETED"}, "operation": {}},
    ],
)
def test_cli_c7_a_server_of_another_kind_is_6(
    answer: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", "x")
    monkeypatch.setattr(RemoteJob, "request", lambda *_: answer)
    for command in ("savepoint", "checkpoint"):
        assert main([command, A_ID, "-m", "localhost:1"]) == 6
        assert "is not the control server of a job" in capsys.readouterr().err


def test_cancel_does_not_call_a_job_cancelled_that_has_failed(
    commands: Commands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        commands.job.current = job_record(status="FAILED")

    monkeypatch.setattr(commands.job, "cancel", fail)
    assert commands.run("cancel", A_ID) == 1
    said = capsys.readouterr()
    assert "is FAILED" in said.err and "Cancelled" not in said.out


def test_n6_dispose_with_a_server_is_refused(tmp_path: Path) -> None:
    assert main(["savepoint", "-d", str(tmp_path), "-m", "localhost:1"]) == 2
