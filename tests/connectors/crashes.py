"""Crashes the program before and after every step on the disk."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.failpoint import InjectedCrash

STEPS = ("open", "pwrite", "ftruncate", "fsync", "rename", "unlink", "link")


class CrashingDisk:
    """Counts the steps, and crashes at the one that is `crash_at`."""

    def __init__(self, crash_at: int, *, after: bool) -> None:
        self.crash_at = crash_at
        self.after = after
        self.steps = 0
        self.crashed = False

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **named: Any) -> Any:
            if self.crashed:
                raise InjectedCrash("the process is dead")
            self.steps += 1
            self.crashed = self.steps == self.crash_at
            if self.crashed and not self.after:
                raise InjectedCrash(f"before step {self.steps}")
            result = function(*args, **named)
            if self.crashed:
                raise InjectedCrash(f"after step {self.steps}")
            return result

        return step


@contextmanager
def crashing(monkeypatch: pytest.MonkeyPatch, crash_at: int, *, after: bool) -> Iterator[CrashingDisk]:
    """Run the block and crash at one step; the crash does not leave the block."""
    disk = CrashingDisk(crash_at, after=after)
    with monkeypatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, disk.wrap(getattr(os, name)))
        try:
            yield disk
        except InjectedCrash:
            assert disk.crashed


@contextmanager
def failing_fsync(monkeypatch: pytest.MonkeyPatch, fail_at: int) -> Iterator[list[int]]:
    """The `fail_at`-th fsync of the block fails as a broken disk's does; all calls are recorded."""
    calls: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == fail_at:
            raise OSError(5, "Input/output error")
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield calls


@contextmanager
def recorded_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The fsyncs, renames (to which name), creations and deletions of the block, in order."""
    steps: list[str] = []
    real_fsync, real_rename, real_open, real_unlink = os.fsync, os.rename, os.open, os.unlink

    def fsync(descriptor: int) -> None:
        steps.append(f"fsync {os.path.basename(os.readlink(f'/proc/self/fd/{descriptor}'))}")
        real_fsync(descriptor)

    def rename(old: Any, new: Any) -> None:
        steps.append(f"rename {os.path.basename(new)}")
        real_rename(old, new)

    def unlink(path: Any) -> None:
        steps.append(f"unlink {os.path.basename(path)}")
        real_unlink(path)

    def open_(path: Any, flags: int, *rest: Any) -> int:
        if flags & os.O_CREAT:
            steps.append(f"create {os.path.basename(path)}")
        return real_open(path, flags, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        patch.setattr(os, "rename", rename)
        patch.setattr(os, "unlink", unlink)
        patch.setattr(os, "open", open_)
        yield steps
