"""What the job works with misbehaves: Spark's files, the source, the sink, the clock, the user's function, the user.

F17, F20 to F23, F26, F27.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from penstock.control.interrupts import SAME_SIGNAL_S
from tests.faults.failpoints import read_hits
from tests.faults.jobs import JobProcess
from tests.faults.kills import outliving
from tests.faults.matrix.case import MatrixCase
from tests.faults.matrix.scene import LIMIT_S, Scene
from tests.faults.matrix.tools import injected, strace, wrong_clock
from tests.waiting import Stopwatch, wait_until

FAILED_EXIT, INTERRUPTED_EXIT, TERMINATED_EXIT = 1, 130, 143
CANCEL_LIMIT_S = 60.0
HOUR_S = 3600
RENAMES_FAIL = "rename,renameat,renameat2:error=EIO"
"""A commit of the file sink is a rename."""
FEW_RESTARTS = (
    ("restart-strategy.type", "fixed-delay"),
    ("restart-strategy.fixed-delay.attempts", "2"),
    ("restart-strategy.fixed-delay.delay", "100 ms"),
)


def shuffle_files_lost(scene: Scene) -> Sequence[str]:
    """One core: while the first subtask runs, the files that the others are about to read go. Spark makes them anew."""
    history = scene.place.folder / "history"
    history.mkdir(parents=True)
    scene.configure(
        ("spark.master", "local[1,4]"),
        ("spark.eventLog.enabled", "true"),
        ("spark.eventLog.dir", str(history)),
        ("spark.eventLog.compress", "false"),
    )
    armed = "C4.before:delay=4000:role=tm:hit=4"  # the first of three subtasks, in the second epoch
    job = scene.start(failpoint=armed)
    wait_until(lambda: armed in read_hits(scene.log), timeout_s=LIMIT_S)
    gone = 0
    for path in (scene.place.folder / "spark").rglob("shuffle_*"):
        path.unlink(missing_ok=True)
        gone += 1
    scene.finish(job)
    events = "".join(path.read_text() for path in history.rglob("*") if path.is_file())
    assert gone and "FetchFailed" in events, f"{gone} shuffle files removed, but Spark did not miss any"
    return [f"{gone} shuffle files removed, Spark ran a stage again"]


def source_file_lost(scene: Scene) -> Sequence[str]:
    """The files are taken one by one; one that was found goes before its turn."""
    job = scene.start()
    scene.await_epoch(job, 2)
    lost = scene.place.events / "events-00015.json"
    aside = scene.place.folder / "aside"
    lost.rename(aside)
    try:
        exit_code = scene.await_exit(job)
    finally:
        aside.rename(lost)
    assert exit_code == FAILED_EXIT and lost.name in job.said(), f"exit code {exit_code}:\n{job.log_tail()}"
    assert "has gone before it was read" in job.said(), job.log_tail()
    scene.finish(scene.start())
    return [f"refused, naming {lost.name}"]


def commits_fail_for_a_while(scene: Scene) -> Sequence[str]:
    job = scene.start()
    scene.await_checkpoints(job, 2)
    log = scene.place.folder / "strace.log"
    with strace(job.pid, log, RENAMES_FAIL):
        wait_until(lambda: len(_failed_commits(log)) >= 2, timeout_s=LIMIT_S)
    failed = len(_failed_commits(log))
    scene.await_checkpoints(job, 2)
    record = job.running_record()
    scene.finish(job)
    assert record.attempt == 1, f"the job did not try again: attempt {record.attempt}"
    return [f"{failed} renames of finished parts failed, and were tried again"]


def commits_fail_for_ever(scene: Scene) -> Sequence[str]:
    scene.configure(("penstock.sink.commit-timeout", "2 s"), *FEW_RESTARTS)
    job = scene.start()
    scene.await_checkpoints(job, 2)
    log = scene.place.folder / "strace.log"
    with strace(job.pid, log, RENAMES_FAIL):
        exit_code = scene.await_exit(job)
    failed = len(_failed_commits(log))
    assert failed, "no commit was disturbed"
    assert exit_code == FAILED_EXIT and "Input/output error" in job.said(), f"{exit_code}:\n{job.log_tail()}"
    assert _hidden(scene), "nothing waits to be committed"
    scene.finish(scene.start())
    return [f"{failed} commits failed, the job ended, naming the cause, and committed when it was resumed"]


def _failed_commits(log: Path) -> list[str]:
    return [line for line in injected(log) if ".pending" in line]


def transaction_lost(scene: Scene) -> Sequence[str]:
    """The driver dies between pre-commit and commit, and a file that was to be committed goes."""
    armed = "C19.after:kill:role=driver:hit=3"
    assert scene.await_exit(scene.start(failpoint=armed)) == -signal.SIGKILL
    waiting = [path for path in scene.place.output.iterdir() if path.name.startswith(".pending")]
    assert waiting, "nothing waits to be committed"
    lost = scene.chance.choice(waiting)
    aside = scene.place.folder / "aside"
    lost.rename(aside)
    job = scene.start()
    exit_code = scene.await_exit(job)
    assert exit_code == FAILED_EXIT and lost.name in job.said(), f"exit code {exit_code}:\n{job.log_tail()}"
    assert "has lost" in job.said(), job.log_tail()
    aside.rename(lost)
    scene.finish(scene.start())
    return [f"{scene.hit(armed)}, then refused, naming {lost.name[:30]}"]


def clock_jumps(scene: Scene) -> Sequence[str]:
    offsets = scene.place.folder / "offset"
    scene.place.folder.mkdir(parents=True)
    offsets.write_text("0")
    job = scene.start(**wrong_clock(offsets))
    jumps = []
    for offset_s in (HOUR_S, -HOUR_S):
        before_ms = scene.await_epoch(job, 2).updated_ms
        _replace(offsets, str(offset_s))
        jumps.append(_await_jump(job, before_ms))
        scene.await_checkpoints(job, 1)
    assert jumps[0] > 0 > jumps[1], jumps
    attempt = job.running_record().attempt
    scene.finish(job)
    assert attempt == 1, "a jump of the clock has ended an attempt"
    return [f"the time of day went by {jumps[0] / 1000:+.0f} s, then by {jumps[1] / 1000:+.0f} s"]


def _replace(path: Path, text: str) -> None:
    """In one step: it is read all the time."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)


def _await_jump(job: JobProcess, before_ms: int) -> int:
    """By how much the time of day has changed, by the driver's own word."""
    wait_until(lambda: abs(job.running_record().updated_ms - before_ms) > HOUR_S * 500, timeout_s=LIMIT_S)
    return job.running_record().updated_ms - before_ms


def function_raises(scene: Scene) -> Sequence[str]:
    """On one event every time: the restarts are used up, the error says where. Then once."""
    poison = _event_in(scene, 8)
    scene.configure(*FEW_RESTARTS)
    job = scene.start(FAULT=f"raise:{poison}:")
    exit_code = scene.await_exit(job)
    said = job.said()
    assert exit_code == FAILED_EXIT and "misbehaving on purpose" in said, f"{exit_code}:\n{job.log_tail()}"
    assert said.count("the job restarts") == 2 and "in operator 'tally'" in said, job.log_tail()
    marker = scene.place.folder / "raised"
    once = scene.start(FAULT=f"raise-once:{poison}:{marker}")
    scene.finish(once)
    assert marker.exists() and "the job restarts" in once.said()
    return ["failed after two restarts, naming operator and place", "one restart"]


def function_ends_its_process(scene: Scene) -> Sequence[str]:
    marker = scene.place.folder / "exited"
    job = scene.start(FAULT=f"exit-once:{_event_in(scene, 8)}:{marker}")
    scene.finish(job)
    assert marker.exists() and "is lost" in job.said(), job.log_tail()
    return ["os._exit in a TaskManager, new attempt"]


def function_returns_the_wrong_type(scene: Scene) -> Sequence[str]:
    scene.configure(*FEW_RESTARTS)
    job = scene.start(FAULT=f"type:{_event_in(scene, 8)}:")
    exit_code = scene.await_exit(job)
    assert exit_code == FAILED_EXIT and "tally" in job.said(), f"{exit_code}:\n{job.log_tail()}"
    scene.finish(scene.start())
    return ["failed, naming the operator"]


def function_never_returns(scene: Scene) -> Sequence[str]:
    marker = scene.place.folder / "looping"
    job = scene.start(FAULT=f"loop:{_event_in(scene, 8)}:{marker}")
    wait_until(marker.exists, timeout_s=LIMIT_S)
    family = job.family()
    psutil.Process(job.pid).send_signal(signal.SIGTERM)
    assert scene.await_exit(job, CANCEL_LIMIT_S) != 0
    assert not (left := outliving(family)), f"they outlive their driver: {left}"
    scene.finish(scene.start())
    return ["stuck in the function, ended by SIGTERM with all its processes"]


IN_A_CHECKPOINT = "C17.after:delay=2000:role=driver:hit=4"


def cancelled_in_a_checkpoint(scene: Scene) -> Sequence[str]:
    scene.cancelled = True
    job = scene.start(failpoint=IN_A_CHECKPOINT)
    wait_until(lambda: IN_A_CHECKPOINT in read_hits(scene.log), timeout_s=LIMIT_S)
    family = job.family()
    watch = Stopwatch()
    registry = f"-Dpenstock.registry.dir={scene.place.registry.folder}"
    command = [sys.executable, "-m", "penstock", "cancel", registry, job.running_record().job_id]
    assert subprocess.run(command, check=False).returncode == 0
    exit_code = scene.await_exit(job, CANCEL_LIMIT_S)
    seconds = watch.seconds()
    assert exit_code == 0, f"exit code {exit_code}:\n{job.log_tail()}"
    assert not (left := outliving(family)), f"they outlive their driver: {left}"
    status = scene.view().status
    assert status is not None and status.status == "cancelled", f"the log says {status}"
    return [f"cancelled within {seconds:.1f} s while a checkpoint was being completed"]


def suspended_in_a_checkpoint(scene: Scene) -> Sequence[str]:
    job = scene.start(failpoint=IN_A_CHECKPOINT)
    wait_until(lambda: IN_A_CHECKPOINT in read_hits(scene.log), timeout_s=LIMIT_S)
    family = job.family()
    watch = Stopwatch()
    psutil.Process(job.pid).send_signal(signal.SIGINT)
    exit_code = scene.await_exit(job, CANCEL_LIMIT_S)
    seconds = watch.seconds()
    assert exit_code == INTERRUPTED_EXIT, f"exit code {exit_code}:\n{job.log_tail()}"
    assert not (left := outliving(family)), f"they outlive their driver: {left}"
    assert scene.view().status is None, f"the log says {scene.view().status}"
    scene.finish(scene.start())
    return [f"suspended within {seconds:.1f} s while a checkpoint was being completed"]


def terminated_twice(scene: Scene) -> Sequence[str]:
    job = scene.start()
    scene.await_checkpoints(job, 2)
    family = job.family()
    process = psutil.Process(job.pid)
    process.send_signal(signal.SIGTERM)
    watch = Stopwatch()
    wait_until(lambda: watch.seconds() > SAME_SIGNAL_S)
    if job.exit_code is None:
        process.send_signal(signal.SIGTERM)
    exit_code = scene.await_exit(job, CANCEL_LIMIT_S)
    assert exit_code == TERMINATED_EXIT and not (left := outliving(family)), f"exit code {exit_code}, left {left}"
    scene.finish(scene.start())
    return [f"exit code {exit_code}, nothing left behind"]


def crashes_in_deletes(scene: Scene) -> Sequence[str]:
    armed = [
        "C22.after:kill:role=driver:hit=3",
        "C23.after:kill:role=driver:hit=2",
        "C23.before:kill:role=driver:hit=3",
    ]
    for point in armed:
        assert scene.await_exit(scene.start(failpoint=point)) == -signal.SIGKILL
        assert not (broken := scene.broken_retained()), f"deleted, but needed: {broken}"
    scene.finish(scene.start())
    return [", ".join(map(scene.hit, armed))]


def _event_in(scene: Scene, index: int) -> int:
    """An event that comes for the first time in this file."""
    files = sorted(scene.place.events.glob("*.json"))
    earlier = {number for path in files[:index] for number in _ids(path)}
    return next(number for number in _ids(files[index]) if number not in earlier)


def _ids(path: Path) -> list[int]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def _hidden(scene: Scene) -> list[str]:
    return [path.name for path in scene.place.output.iterdir() if path.name.startswith(".pending")]


FILES = {"sink": "file"}
CASES = (
    MatrixCase(("F17 shuffle files lost, stage run again",), "work", shuffle_files_lost, {"parallelism": "3"}),
    MatrixCase(("F20 source file lost before it was read",), "work", source_file_lost),
    MatrixCase(("F21 commits fail for a while",), "work", commits_fail_for_a_while, FILES, needs=("strace",)),
    MatrixCase(("F21 commits fail for ever",), "work", commits_fail_for_ever, FILES, needs=("strace",)),
    MatrixCase(("F21 death before the commit, transaction lost",), "work", transaction_lost, FILES),
    MatrixCase(("F22 clock jumps by an hour, forth and back",), "work", clock_jumps),
    MatrixCase(("F23 function raises always", "F23 function raises once"), "work", function_raises),
    MatrixCase(("F23 function ends its process",), "work", function_ends_its_process),
    MatrixCase(("F23 function returns the wrong type",), "work", function_returns_the_wrong_type, FILES),
    MatrixCase(("F23 function never returns",), "work", function_never_returns),
    MatrixCase(("F26 cancelled during a checkpoint",), "work", cancelled_in_a_checkpoint, FILES),
    MatrixCase(("F26 Ctrl-C during a checkpoint",), "work", suspended_in_a_checkpoint, FILES),
    MatrixCase(("F26 SIGTERM twice",), "work", terminated_twice),
    MatrixCase(("F27 crashes while old files are deleted",), "work", crashes_in_deletes, {"retained": "3"}),
)
