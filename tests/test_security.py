"""Security rows that hold for the whole tree: what code may not be in it, and what its packaging says."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.jobmanager.settings.job_settings import JobSettings
from penstock.model.configuration import Configuration
from penstock.spark.session import SESSION_SETTINGS

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parent.parent
FILES = {path.relative_to(ROOT).as_posix(): path for path in sorted((ROOT / "penstock").rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}
UNPICKLES = {
    "penstock/codec/pickles.py",  # Types.PICKLED_BYTE_ARRAY(), where a program asks for it
    "penstock/connectors/function_source.py",  # the program's own function, in Spark's worker
    "penstock/graph/pickling.py",  # the program's own functions
    "penstock/runtime/taskmanager.py",  # the plan, from the process that knows the token
}
CONNECTS = {
    "penstock/control/remote_job.py",  # commands, to the control server of a job
    "penstock/query/http_connection.py",  # queries, to the same
    "penstock/services/hdfs_service.py",  # `penstock dev hdfs` asks the server that it has started
}
IMPORTED = [
    "penstock",
    "penstock.datastream",
    "penstock.common",
    "penstock.cli.main",
    "penstock.query",
    "penstock.testing",
]
WATCHED_IMPORT = f"""
import importlib, os, sys

def watch(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.fork"):
        print(event, arguments, file=sys.stderr, flush=True)
        os._exit(1)

sys.addaudithook(watch)
for name in {IMPORTED!r}:
    importlib.import_module(name)
    print(name)
"""
CLIENTS = {"httpx", "requests", "urllib.request", "urllib3", "http.client", "aiohttp", "smtplib", "ftplib"}


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def imports(tree: ast.Module) -> set[str]:
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return found | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}


def test_security_s6_s7_only_the_program_itself_and_pickled_state_are_unpickled() -> None:
    found = {
        name
        for name, tree in TREES.items()
        for call in calls(tree)
        if ast.unparse(call.func) in ("pickle.loads", "pickle.load", "cloudpickle.loads", "cloudpickle.load")
    }
    assert found == UNPICKLES


def test_security_s17_no_shell_runs_anything() -> None:
    for name, tree in TREES.items():
        for call in calls(tree):
            called = ast.unparse(call.func)
            assert called not in ("os.system", "os.popen", "subprocess.getoutput"), name
            assert not (called.startswith("subprocess.") and any(word.arg == "shell" for word in call.keywords)), name


def test_security_s20_only_commands_and_queries_open_http_connections() -> None:
    assert {name for name, tree in TREES.items() if imports(tree) & CLIENTS} == CONNECTS


def test_security_s10_a_session_of_ours_has_no_page_and_private_sockets() -> None:
    assert SESSION_SETTINGS["spark.ui.enabled"] == "false"
    assert SESSION_SETTINGS["spark.python.unix.domain.socket.enabled"] == "true"


def test_security_s15_settings_are_shown_without_their_secrets() -> None:
    settings = {"spark.authenticate.secret": "hidden", "rest.port": "8081"}
    shown = JobSettings.of("job", Configuration.from_dict(settings)).shown
    assert shown == {"spark.authenticate.secret": "******", "rest.port": "8081"}


def test_security_s19_every_dependency_has_a_lower_bound_and_nothing_runs_at_install_time() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for dependency in project["project"]["dependencies"]:
        assert re.search(r">=\d", dependency), dependency
    assert project["build-system"]["build-backend"] == "hatchling.build" and not (ROOT / "setup.py").exists()
    assert "hooks" not in project["tool"].get("hatch", {}).get("build", {})


def test_security_s19_s20_an_import_connects_to_nothing_and_starts_nothing() -> None:
    """In a process of its own, which ends at the first attempt."""
    done = subprocess.run([sys.executable, "-c", WATCHED_IMPORT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, IMPORTED), done.stderr


def test_security_s21_there_is_a_private_way_to_report() -> None:
    assert "Report a vulnerability" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
