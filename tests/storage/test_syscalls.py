"""The system calls: the order that makes files durable, and faults injected below Python (F13)."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = """
import sys
from pathlib import Path
from penstock.errors import StorageError
from penstock.storage import LocalStorage, put_certain

storage = LocalStorage(Path(sys.argv[1]))
for name in ("log/1", "log/2", "log/3"):
    try:
        put_certain(storage, name, b"entry", lambda seconds: None)
        print(name, "written", flush=True)
    except StorageError as error:
        print(name, type(error).__name__, flush=True)
"""
_CALL = re.compile(r"(?:\[pid +\d+\] |\d+ +)?(fsync|link|linkat)\((.*)\) += (-?\d+)(.*)")


@dataclass(frozen=True)
class Call:
    name: str
    path: str
    failed: bool


def traced(folder: Path, *inject: str) -> tuple[list[Call], dict[str, str]]:
    """The calls of the program on files of its folder, and what it printed about each name."""
    trace = folder / "trace"
    command = ["strace", "-f", "-y", "-o", str(trace), "-e", "trace=fsync,link,linkat", *inject]
    done = subprocess.run(
        [*command, sys.executable, "-c", PROGRAM, str(folder / "job")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if done.returncode != 0 and "ptrace" in done.stderr:
        pytest.skip(f"strace may not trace here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    calls = []
    for line in trace.read_text().splitlines():
        found = _CALL.match(line)
        paths = re.findall(r'[<"]([^<>"]*/job[^<>"]*)[>"]', line) if found else []
        if found and paths:
            calls.append(Call(found[1], paths[-1].rpartition("/job")[2], found[3] == "-1"))
    return calls, dict(line.split() for line in done.stdout.splitlines())


@pytest.fixture(autouse=True)
def strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed; tests/storage/test_disk_faults.py does the same inside Python")


def test_a_file_is_synced_then_its_name_then_its_folder(tmp_path: Path) -> None:
    calls, said = traced(tmp_path)
    assert set(said.values()) == {"written"} and len(said) == 3
    for name in said:
        own = [number for number, call in enumerate(calls) if call.path.partition("~")[0] == f"/{name}"]
        synced, linked = own
        assert [calls[number].name.removesuffix("at") for number in own] == ["fsync", "link"]
        assert "~" in calls[synced].path, "under a temporary name"
        after = calls[linked + 1 :]
        assert after[0].name == "fsync" and after[0].path == "/log"


@pytest.mark.parametrize("number", range(2, 9))  # the first makes the job's own folder durable
def test_f13_an_injected_fsync_error_is_final_for_its_file(tmp_path: Path, number: int) -> None:
    calls, said = traced(tmp_path, "-e", f"inject=fsync:error=EIO:when={number}")
    failed = [call for call in calls if call.failed]
    (call,) = failed
    if "~" in call.path:
        assert [other.path for other in calls].count(call.path) == 1, "it is not fsynced again, and not linked"
        assert said[call.path.partition("~")[0].strip("/")] == "StorageError"
    else:
        assert list(said.values()).count("NotDurableError") == 1
