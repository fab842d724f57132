"""Jobs on a real Spark that start from a savepoint or from a checkpoint of another job (features O4 to O9, N12)."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.common import Types
from penstock.connectors.file.file_sink import FileSink
from penstock.datastream import JobClient, KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import SnapshotRefusedError
from penstock.jobmanager.job import Job
from penstock.model.functions import RuntimeContext
from penstock.storage.local import LocalStorage
from tests.spark.jobs import Jobs, read_json
from tests.waiting import LIMIT_S, wait_until

pytestmark = pytest.mark.spark

START = "execution.state-recovery.path"


class Total(KeyedProcessFunction):
    """A running total per name. A name that is in the folder of names to fail at fails once."""

    def __init__(self, folder: str = "") -> None:
        self.folder = folder

    def open(self, ctx: RuntimeContext) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        trap = Path(self.folder or ".", f"fail-{value.name}")
        if trap.exists():
            trap.unlink()
            raise ValueError("the trap is sprung")
        total = (self.total.value() or 0) + value.amount
        self.total.update(total)
        yield value.name, total


class World:
    """Sources by uid, each a folder of files, and jobs that add up what is in them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.jobs = Jobs(spark, folder)
        self.folder = folder

    def start(self, uids: Sequence[str], out: str, settings: dict[str, str] | None = None) -> tuple[JobClient, Job]:
        every = {"execution.checkpointing.interval": "1 s", **(settings or {})}
        environment = self.jobs.environment(2, every)
        streams = [
            environment.from_dataframe(
                self.jobs.json_stream("name string, amount long", self.folder / f"in-{uid}"), name=f"source {uid}"
            ).uid(uid)
            for uid in uids
        ]
        rows = streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]
        total = Total(str(self.folder))
        totals = rows.key_by("name").process(total, output_type="name string, total long").uid("total")
        totals.sink_to(FileSink.for_row_format(str(self.folder / out), "json").build()).uid("out")
        client = environment.execute_async("totals")
        job = client._handle
        assert isinstance(job, Job)
        return client, job

    def feed(self, uid: str, number: int) -> None:
        self.jobs.write_json(f"{number}.json", [{"name": uid, "amount": number}], self.folder / f"in-{uid}")

    def totals(self, out: str) -> list[tuple[str, int]]:
        return sorted((row["name"], row["total"]) for row in read_json(self.folder / out))

    def wait_for(self, out: str, *totals: tuple[str, int]) -> None:
        wait_until(lambda: self.totals(out) == sorted(totals))

    def stop(self, job: Job, client: JobClient) -> str:
        request = SavepointRequest(str(self.folder / "savepoints"), then="stop")
        path = job.trigger_savepoint(request).future.result(LIMIT_S)
        client.get_job_execution_result().result()
        return path


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    return World(spark, tmp_path)


@pytest.mark.smoke
def test_o7_o6_sources_go_on_by_uid_in_another_order_and_beside_new_ones(world: World) -> None:
    client, job = world.start(["a", "b"], "out1")
    for number in (1, 2):
        world.feed("a", number)
    world.feed("b", 10)
    world.wait_for("out1", ("a", 1), ("a", 3), ("b", 10))
    path = world.stop(job, client)
    world.feed("c", 100)  # there before the job that reads it
    world.feed("b", 20)
    client, job = world.start(["c", "b", "a"], "out2", {START: path})
    world.feed("a", 3)
    world.wait_for("out2", ("a", 6), ("b", 30), ("c", 100))
    path = world.stop(job, client)
    world.feed("c", 200)
    with pytest.raises(SnapshotRefusedError, match="uid 'b'.*--allowNonRestoredState"):
        world.start(["a", "c"], "out3", {START: path})
    client, job = world.start(
        ["a", "c"], "out3", {START: path, "execution.state-recovery.ignore-unclaimed-state": "true"}
    )
    world.feed("a", 4)
    world.wait_for("out3", ("a", 10), ("c", 300))
    client.cancel().result()


def test_n12_two_jobs_from_one_savepoint_run_apart(world: World) -> None:
    client, job = world.start(["a"], "out")
    world.feed("a", 1)
    world.wait_for("out", ("a", 1))
    path = world.stop(job, client)
    before = {file: file.read_bytes() for file in Path(path).rglob("*") if file.is_file()}
    blue, green = (world.start(["a"], name, {START: path}) for name in ("blue", "green"))
    world.feed("a", 2)
    world.wait_for("blue", ("a", 3))
    world.wait_for("green", ("a", 3))
    blue[0].cancel().result()
    world.feed("a", 3)
    world.wait_for("green", ("a", 3), ("a", 6))
    green[0].cancel().result()
    assert {file: file.read_bytes() for file in Path(path).rglob("*") if file.is_file()} == before
    assert len({job.job_id for _, job in (blue, green)}) == 2


def test_o9_a_claimed_savepoint_goes_with_the_first_newer_checkpoint(world: World) -> None:
    client, job = world.start(["a"], "out")
    world.feed("a", 1)
    world.wait_for("out", ("a", 1))
    path = world.stop(job, client)
    client, job = world.start(["a"], "out2", {START: path, "execution.state-recovery.claim-mode": "claim"})
    world.feed("a", 2)
    world.wait_for("out2", ("a", 3))
    wait_until(lambda: not Path(path).exists())
    assert read_log(LocalStorage(world.folder / "checkpoints" / job.job_id)).claimed is None
    client.cancel().result()


def test_r25_an_attempt_that_fails_before_the_first_checkpoint_starts_from_the_path_again(world: World) -> None:
    client, job = world.start(["a"], "out")
    world.feed("a", 1)
    world.wait_for("out", ("a", 1))
    path = world.stop(job, client)
    (world.folder / "fail-a").touch()
    world.feed("a", 2)
    settings = {START: path, "restart-strategy.type": "fixed-delay", "execution.checkpointing.interval": "5 s"}
    client, job = world.start(["a"], "out2", settings)
    world.wait_for("out2", ("a", 3))
    client.cancel().result()
    view = read_log(LocalStorage(world.folder / "checkpoints" / job.job_id))
    assert view.attempt == 2


def test_o8_a_job_starts_from_a_retained_checkpoint_of_another_that_still_runs(world: World) -> None:
    client, job = world.start(["a"], "out", {"execution.checkpointing.num-retained": "3"})
    world.feed("a", 1)
    world.wait_for("out", ("a", 1))
    number = job.checkpoint()
    path = world.folder / "checkpoints" / job.job_id / f"chk-{number}"
    other, second = world.start(["a"], "out", {START: str(path)})
    client.cancel().result()
    world.feed("a", 2)
    world.wait_for("out", ("a", 1), ("a", 3))
    assert second.checkpoint() > number
    other.cancel().result()


def test_a_job_without_checkpoints_starts_from_a_savepoint_too(world: World) -> None:
    client, job = world.start(["a"], "out")
    world.feed("a", 1)
    world.wait_for("out", ("a", 1))
    path = world.stop(job, client)
    environment = world.jobs.environment(2, {START: path})
    stream = environment.from_dataframe(
        world.jobs.json_stream("name string, amount long", world.folder / "in-a"), name="source a"
    ).uid("a")
    totals = stream.key_by("name").process(Total(), output_type="name string, total long").uid("total")
    seen: list[Any] = []
    done = threading.Event()

    def take(frame: Any, epoch: Any) -> None:
        seen.extend(tuple(row) for row in frame.collect())
        done.set() if seen else None

    totals.to_spark(take)
    client = environment.execute_async("totals")
    world.feed("a", 2)
    assert done.wait(LIMIT_S)
    client.cancel().result()
    assert seen == [("a", 3)]
