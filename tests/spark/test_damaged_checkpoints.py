"""A damaged newest checkpoint on Spark: gone behind, refused, or not noticed because a local copy is read (R24, K9)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.checkpoint.snapshot.manifest import load_manifest
from penstock.control.submission import Submission, submitted
from penstock.datastream import JobClient
from penstock.datastream.connectors.file_system import FileSink
from penstock.errors import CheckpointError, PenstockError
from penstock.jobmanager.attempt import source_tracker
from penstock.model.snapshot import Manifest
from penstock.storage.local import LocalStorage
from tests.spark.jobs import Jobs, read_json
from tests.spark.recoveries import (
    COUNTED,
    RESTARTS,
    Count,
    await_attempt,
    await_checkpoints,
    cancel,
    check_counts,
    job_folder,
    kill_taskmanager,
    log_of,
)
from tests.waiting import LIMIT_S, wait_until

STEPS, PER_STEP = 4, 50
Pick = Callable[[Manifest], str]


def state_file(manifest: Manifest) -> str:
    """One that this checkpoint has written."""
    return next(f.path for s in manifest.subtasks for f in s.files if f"-{manifest.checkpoint_id}-" in f.path)


def position_file(manifest: Manifest) -> str:
    assert manifest.sources.file is not None
    return manifest.sources.file.path


def metadata(manifest: Manifest) -> str:
    return f"chk-{manifest.checkpoint_id}/_metadata"


def submit(jobs: Jobs, *, sink: bool, settings: dict[str, str] | None = None) -> JobClient:
    env = jobs.environment(2, {**RESTARTS, **(settings or {})})
    stream = env.from_dataframe(jobs.json_stream("value bigint")).key_by(lambda row: row.value % 7)
    counted = stream.process(Count(), output_type=COUNTED).uid("count")
    if sink:
        counted.sink_to(FileSink.for_row_format(jobs.folder / "out", "json").build()).uid("out")
    else:
        counted.print().uid("out")
    return env.execute_async("damaged")


def feed(jobs: Jobs, step: int) -> None:
    jobs.write_json(f"{step}.json", [{"value": step * PER_STEP + row} for row in range(PER_STEP)])


def run(jobs: Jobs, *, sink: bool, settings: dict[str, str] | None = None) -> JobClient:
    """A job that has taken a checkpoint after each step, and waits for more input."""
    job = submit(jobs, sink=sink, settings=settings)
    for step in range(STEPS):
        before = jobs.record().last_checkpoint or 0
        feed(jobs, step)
        await_rows(jobs, (step + 1) * PER_STEP)
        await_checkpoints(jobs, before + 1)
    wait_until(lambda: log_of(jobs).lineage[-1].epoch >= jobs.record().epoch)
    return job


def await_rows(jobs: Jobs, count: int) -> None:
    wait_until(lambda: jobs.record().rows >= count)


def damage_newest(jobs: Jobs, pick: Pick, change: Callable[[bytes], bytes]) -> tuple[Path, bytes]:
    storage = LocalStorage(job_folder(jobs))
    path = job_folder(jobs) / pick(load_manifest(storage, log_of(jobs).lineage[-1]))
    data = path.read_bytes()
    path.write_bytes(change(data))
    return path, data


def flip(data: bytes) -> bytes:
    return data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def test_r24_printed_output_may_come_again_so_the_job_goes_back_by_itself(
    jobs: Jobs, capfd: pytest.CaptureFixture[str]
) -> None:
    job = run(jobs, sink=False)
    newest = log_of(jobs).lineage[-1]
    path, _ = damage_newest(jobs, state_file, flip)
    kill_taskmanager(jobs)
    wait_until(lambda: jobs.record().attempt >= 3 and jobs.record().status == "RUNNING")
    feed(jobs, STEPS)
    wait_until(lambda: log_of(jobs).lineage[-1].checkpoint > newest.checkpoint)
    wait_until(lambda: jobs.record().rows == (STEPS + 1) * PER_STEP)
    cancel(job)
    shown = capfd.readouterr()
    assert str(path.relative_to(job_folder(jobs))) in shown.err
    assert f"checkpoint {newest.checkpoint} (epoch {newest.epoch}) cannot be restored" in shown.err
    assert f"to {newest.epoch}, and all that followed, is read and processed again" in shown.err
    lines = {line.partition("> ")[2] for line in shown.out.splitlines() if "> Row(" in line}
    assert len(lines) == (STEPS + 1) * PER_STEP, "each value with one count: state is exact, whatever was printed twice"


@pytest.mark.parametrize(("pick", "change"), [(position_file, flip), (metadata, cut), (state_file, flip)])
def test_r24_a_sink_that_commits_makes_the_job_refuse_and_name_the_file(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, pick: Pick, change: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(source_tracker, "INLINE_LIMIT_BYTES", 0)
    job = run(jobs, sink=True)
    path, whole = damage_newest(jobs, pick, change)
    kill_taskmanager(jobs)
    with pytest.raises(CheckpointError, match="--allow-fallback") as refusal:
        job.get_job_execution_result().result(LIMIT_S)
    assert str(path.relative_to(job_folder(jobs))) in str(refusal.value) and refusal.value.exit_code == 5
    check_counts(read_json(jobs.folder / "out"), STEPS * PER_STEP)
    again = Submission(Path("job.py"), resume=True, allow_fallback=pick is state_file)
    if pick is not state_file:
        path.write_bytes(whole)
    feed(jobs, STEPS)
    with submitted(again):
        job = submit(jobs, sink=True)
    wait_until(lambda: len({row["value"] for row in read_json(jobs.folder / "out")}) == (STEPS + 1) * PER_STEP)
    cancel(job)
    rows = read_json(jobs.folder / "out")
    if pick is not state_file:
        check_counts(rows, (STEPS + 1) * PER_STEP)
    else:  # at least once, and with the right counts
        assert len({(row["value"], row["nth"]) for row in rows}) == (STEPS + 1) * PER_STEP < len(rows)


def test_r6_exit_code_of_a_damaged_log(jobs: Jobs) -> None:
    job = run(jobs, sink=True)
    entry = sorted((job_folder(jobs) / "log").iterdir())[-1]
    entry.write_bytes(entry.read_bytes()[:-9])
    kill_taskmanager(jobs)
    with pytest.raises(PenstockError) as refusal:
        job.get_job_execution_result().result(LIMIT_S)
    assert refusal.value.exit_code == 5 and f"log/{entry.name}" in str(refusal.value)


def test_k9_after_a_kill_keyed_state_comes_from_local_copies(jobs: Jobs) -> None:
    settings = {
        "state.backend.local-recovery": "true",
        "execution.checkpointing.local-backup.dirs": str(jobs.folder / "local"),
    }
    job = run(jobs, sink=True, settings=settings)
    damage_newest(jobs, state_file, flip)  # which nobody reads: there is a copy
    kill_taskmanager(jobs)
    await_attempt(jobs, 2)
    feed(jobs, STEPS)
    wait_until(lambda: len(read_json(jobs.folder / "out")) >= (STEPS + 1) * PER_STEP)
    logs = [path.read_text("utf-8") for path in Path(jobs.record().log_dir).glob("taskmanager-2-*.log")]
    restored = [line for text in logs for line in text.splitlines() if "is restored: " in line]
    assert len(restored) == 2 and all(" 0 files (0 bytes) from the checkpoint storage" in line for line in restored)
    assert not any("restored: 0 files" in line for line in restored)
    assert list((jobs.folder / "local" / jobs.record().job_id).iterdir())
    cancel(job)
    check_counts(read_json(jobs.folder / "out"), (STEPS + 1) * PER_STEP)
    assert list((jobs.folder / "local").iterdir()) == [], "copies go with the job"
