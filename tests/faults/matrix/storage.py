"""Disks that are full, broken, slow or closed, and messages that come late: F12 to F15, F29."""

import re
import resource
from collections.abc import Sequence

from penstock.checkpoint.log.entries import Complete
from tests.faults.jobs import JobProcess
from tests.faults.matrix.case import MatrixCase
from tests.faults.matrix.scene import LIMIT_S, TOLERANT, Scene
from tests.faults.matrix.tools import full_disk, injected, limited, own_mount, read_only, small_disk, strace
from tests.waiting import wait_until

WINDOW = 5
"""How many epochs a disturbance lasts: several checkpoints."""


def disk_full(scene: Scene) -> Sequence[str]:
    scene.mounts.enter_context(small_disk(scene.place.checkpoints, "24m"))
    scene.configure(*TOLERANT)
    job = scene.start()
    scene.await_checkpoints(job, 2)
    with full_disk(scene.place.checkpoints):
        before = scene.completed(job)
        _pass_time(job)
        aborted_from = scene.completed(job)
        assert aborted_from <= before + 1, "checkpoints were completed on a full disk"
    return [_good_again(scene, job, aborted_from, "No space left on device")]


def fsync_fails(scene: Scene) -> Sequence[str]:
    scene.configure(*TOLERANT)
    job = scene.start()
    scene.await_checkpoints(job, 2)
    log = scene.place.folder / "strace.log"
    taskmanager = scene.chance.choice(job.taskmanagers())
    with strace(taskmanager.pid, log, "fsync:error=EIO:when=1+3"):
        _pass_time(job)
    newest = scene.completed(job)
    failed = injected(log)
    assert failed, "no fsync was disturbed"
    _require_dead_after_error(log.read_text(errors="replace").splitlines())
    return [f"{len(failed)} × EIO, {_good_again(scene, job, newest, 'Input/output error')}"]


def fsync_of_the_log_fails(scene: Scene) -> Sequence[str]:
    scene.configure(*TOLERANT)
    job = scene.start()
    scene.await_checkpoints(job, 2)
    log = scene.place.folder / "strace.log"
    with strace(job.pid, log, "fsync:error=EIO:when=2+4"):
        wait_until(lambda: len(injected(log)) >= 3, timeout_s=LIMIT_S)
    _require_dead_after_error(log.read_text(errors="replace").splitlines())
    scene.finish(job)
    return [f"{len(injected(log))} × EIO in the driver"]


def slow_disk(scene: Scene) -> Sequence[str]:
    scene.configure(*TOLERANT, ("execution.checkpointing.timeout", "1 s"))
    job = scene.start()
    scene.await_checkpoints(job, 2)
    log = scene.place.folder / "strace.log"
    taskmanager = scene.chance.choice(job.taskmanagers())
    with strace(taskmanager.pid, log, "fsync:delay_enter=1500000"):
        wait_until(lambda: len(injected(log, "(DELAYED)")) >= 3, timeout_s=LIMIT_S)
        newest = scene.completed(job)
    delayed = len(injected(log, "(DELAYED)"))
    return [f"{delayed} fsyncs took 1.5 s, {_good_again(scene, job, newest, 'expired')}"]


def read_only_disk(scene: Scene) -> Sequence[str]:
    scene.mounts.enter_context(own_mount(scene.place.checkpoints))
    scene.configure(*TOLERANT)
    job = scene.start()
    scene.await_checkpoints(job, 2)
    with read_only(scene.place.checkpoints):
        before = scene.completed(job)
        _pass_time(job)
        newest = scene.completed(job)
        assert newest <= before, "checkpoints were completed on a read-only disk"
    return [_good_again(scene, job, newest, "Read-only file system")]


def no_descriptors_left(scene: Scene) -> Sequence[str]:
    scene.configure(*TOLERANT)
    job = scene.start()
    scene.await_checkpoints(job, 2)
    victim = scene.chance.choice(job.taskmanagers())
    with limited(victim, resource.RLIMIT_NOFILE, max(3, victim.num_fds() - 2)):
        _pass_time(job)
    wait_until(lambda: "Too many open files" in _everything_said(job), timeout_s=30)
    scene.finish(job)
    return [f"TaskManager {victim.pid} had too many open files"]


def late_ack(scene: Scene) -> Sequence[str]:
    scene.configure(*TOLERANT, ("execution.checkpointing.timeout", "1 s"))
    armed = "C16.before:delay=2500:role=tm:hit=3"
    job = scene.start(failpoint=armed)
    wait_until(lambda: scene.log.exists(), timeout_s=LIMIT_S)
    newest = scene.completed(job)
    return [f"{_good_again(scene, job, newest, 'expired')}, {scene.hit(armed)}"]


def _pass_time(job: JobProcess) -> None:
    """Until the job has gone on for some epochs, or has begun anew."""
    before = job.running_record()
    wait_until(
        lambda: (now := job.running_record()).epoch >= before.epoch + WINDOW or now.attempt > before.attempt,
        timeout_s=LIMIT_S,
    )


def _good_again(scene: Scene, job: JobProcess, newest: int, cause: str) -> str:
    """After the disturbance checkpoints complete again; those in between were aborted: their numbers are used up."""
    scene.await_checkpoints(job, 2)
    completed = {record.entry.checkpoint for record in scene.entries() if isinstance(record.entry, Complete)}
    later = [number for number in completed if number > newest]
    aborted = [number for number in range(newest + 1, min(later)) if number not in completed]
    record = job.running_record()
    scene.finish(job)
    assert aborted, f"every checkpoint was completed: {sorted(completed)}"
    assert record.attempt == 1, f"the job did not tolerate it: attempt {record.attempt}"
    assert cause in _everything_said(job), f"nobody said {cause!r}"
    return f"{len(aborted)} checkpoints aborted ({cause}), then {min(later)} completed"


def _everything_said(job: JobProcess) -> str:
    """By the driver and in the logs of the job."""
    record = job.place.registry.list()[-1]
    logs = job.place.registry.log_dir(record.job_id).glob("*.*")
    return job.said() + "".join(path.read_text(errors="replace") for path in logs)


def _require_dead_after_error(calls: Sequence[str]) -> None:
    """PROTOCOL R1: a file whose fsync has failed is never fsynced again. Folders are not files."""
    failed: set[str] = set()
    for call in calls:
        found = re.search(r"fsync\(\d+<([^>]*)>", call)
        if found is None or "~" not in found.group(1):
            continue
        path = found.group(1)
        assert path not in failed, f"{path} was fsynced again after an error"
        if "(INJECTED)" in call:
            failed.add(path)


STATE_ONLY = {"inline": "0 b", "backend": "hashmap", "sink": "print"}
"""So that a TaskManager fsyncs nothing but what goes into checkpoints: no part files, no files of RocksDB."""
CASES = (
    MatrixCase(("F12 disk full",), "storage", disk_full, needs=("mount",)),
    MatrixCase(("F13 EIO on fsync of state",), "storage", fsync_fails, STATE_ONLY, needs=("strace",)),
    MatrixCase(("F13 EIO on fsync of log and manifest",), "storage", fsync_of_the_log_fails, needs=("strace",)),
    MatrixCase(("F14 slow disk",), "storage", slow_disk, STATE_ONLY, needs=("strace",)),
    MatrixCase(("F15 read-only disk",), "storage", read_only_disk, needs=("mount",)),
    MatrixCase(("F15 no file descriptors left",), "storage", no_descriptors_left, {"inline": "0 b"}),
    MatrixCase(("F29 ack after its checkpoint expired",), "storage", late_ack),
)
