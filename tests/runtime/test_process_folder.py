"""Processes are identified by their start time; their folders are removed after they have ended, not before."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from penstock.runtime.process import process_folder
from penstock.runtime.process.process_folder import make_folder, make_state_folder, remove_folder
from penstock.runtime.process.watchdog import identity, is_same_process


def test_a_process_is_the_same_after_the_clock_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of day at which the system started, from which psutil counts, moves with every correction of it."""
    known = identity(os.getpid())
    moved = psutil.boot_time() + 1
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: moved)
    assert is_same_process(*known)
    assert not is_same_process(known[0], known[1] + 1)


def test_a_folder_goes_with_its_process_alone(tmp_path: Path) -> None:
    local_dirs = (str(tmp_path),)
    own = make_state_folder(local_dirs, 0)
    program = (
        "import sys; from penstock.runtime.process.process_folder import make_folder as make, Path;"
        "print(make('driver', Path(sys.argv[1])), flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        other = Path(process.stdout.readline().strip())
        assert make_state_folder(local_dirs, 0).is_dir() and own.is_dir() and other.is_dir()
        process.kill()
    make_state_folder(local_dirs, 0)
    assert own.is_dir() and not other.exists()


def test_the_folder_of_a_process_that_cannot_be_seen_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers share a disk, but do not see each other's processes."""
    local_dirs = (str(tmp_path),)
    own = make_state_folder(local_dirs, 0)
    monkeypatch.setattr(process_folder, "is_same_process", lambda pid, started: False)
    make_state_folder(local_dirs, 0)
    assert own.is_dir()


def test_a_folder_that_is_removed_gives_up_its_lock(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        remove_folder(make_folder("driver", tmp_path))
    assert list(tmp_path.iterdir()) == [] and len(os.listdir("/proc/self/fd")) == before


def test_what_is_not_ours_is_not_removed(tmp_path: Path) -> None:
    names = ["penstock-demo-abc", "penstock-abc", "penstock-driver-1-x", "penstock-other-1-2.0-abc"]
    for name in names:
        (tmp_path / name).mkdir()
    make_folder("driver", tmp_path)
    assert all((tmp_path / name).is_dir() for name in names)
