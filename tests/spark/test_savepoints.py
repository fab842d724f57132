"""Savepoints of jobs on a real Spark: taken while rows come, with and without checkpoints, and stopped with."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.checkpoint.log.log_reader import read_log
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.snapshot.manifest import decode_manifest
from penstock.common import Types
from penstock.connectors.file.file_sink import FileSink
from penstock.datastream import JobClient, KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.jobmanager.job import Job
from penstock.model.execution import JobStatus
from penstock.model.functions import RuntimeContext
from penstock.storage.local import LocalStorage
from tests.spark.jobs import Jobs, read_json
from tests.waiting import LIMIT_S, wait_until

pytestmark = pytest.mark.spark


class Total(KeyedProcessFunction):
    """A running total per name, and a timer at the end of time."""

    def open(self, ctx: RuntimeContext) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        total = (self.total.value() or 0) + value.amount
        self.total.update(total)
        ctx.timer_service().register_event_time_timer(10**15)
        yield value.name, total

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield f"end of {ctx.get_current_key()}", 0


def start(jobs: Jobs, **settings: str) -> tuple[JobClient, Job]:
    environment = jobs.environment(2, {key.replace("__", "-").replace("_", "."): v for key, v in settings.items()})
    stream = environment.from_dataframe(jobs.json_stream("name string, amount long, at long"), event_time="at")
    totals = stream.key_by("name").process(Total(), output_type="name string, total long").uid("total")
    totals.sink_to(FileSink.for_row_format(str(jobs.folder / "out"), "json").build()).uid("out")
    client = environment.execute_async("totals")
    job = client._handle
    assert isinstance(job, Job)
    return client, job


def feed(jobs: Jobs, number: int, names: tuple[str, ...] = ("ada", "bob", "cleo")) -> None:
    jobs.write_json(f"{number}.json", [{"name": name, "amount": number, "at": 1000 * number} for name in names])


def totals_in(path: str) -> dict[str, int]:
    rows = [row for file in Path(path, "state", "total", "total").iterdir() for row in pq.read_table(file).to_pylist()]
    return {row["key"]: row["value"] for row in rows}


def test_n2_a_savepoint_is_taken_while_the_job_runs_and_again_when_it_is_idle(
    spark: SparkSession, tmp_path: Path
) -> None:
    jobs = Jobs(spark, tmp_path)
    client, job = start(jobs, execution_checkpointing_interval="1 s")
    feed(jobs, 1)
    wait_until(lambda: len(read_json(tmp_path / "out")) == 3)
    first = job.trigger_savepoint(SavepointRequest(str(tmp_path / "savepoints")))
    assert job.trigger_savepoint(SavepointRequest(trigger_id=first.trigger_id)) is first
    path = first.future.result(LIMIT_S)
    assert totals_in(path) == {"ada": 1, "bob": 1, "cleo": 1} and first.progress == 1.0
    feed(jobs, 2)
    wait_until(lambda: len(read_json(tmp_path / "out")) == 6)
    assert client.get_job_status().result() is JobStatus.RUNNING
    request = SavepointRequest(str(tmp_path / "savepoints"), format="native")
    again = job.trigger_savepoint(request).future.result(LIMIT_S)
    manifest = decode_manifest(Path(again, "_metadata").read_bytes(), again)
    assert (manifest.savepoint, manifest.committables) == ("native", [])
    view = read_log(LocalStorage(tmp_path / "checkpoints" / job.job_id))
    assert view.savepoint is not None and view.savepoint.path == again
    client.cancel().result()
    assert Path(path, "_metadata").exists() and Path(again, "_metadata").exists()


@pytest.mark.parametrize("checkpoints", [True, False])
@pytest.mark.smoke
def test_n3_stop_commits_everything_and_the_savepoint_has_it(
    spark: SparkSession, tmp_path: Path, *, checkpoints: bool
) -> None:
    jobs = Jobs(spark, tmp_path)
    client, job = start(jobs, **({"execution_checkpointing_interval": "1 h"} if checkpoints else {}))
    stop_feeding = threading.Event()

    def keep_feeding() -> None:
        number = 1
        while not stop_feeding.wait(0.2):
            feed(jobs, number)
            number += 1

    feeder = threading.Thread(target=keep_feeding)
    feeder.start()
    try:
        wait_until(lambda: jobs.record().rows >= 6)
        path = job.trigger_savepoint(SavepointRequest(str(tmp_path / "savepoints"), then="stop")).future.result(LIMIT_S)
        client.get_job_execution_result().result()
    finally:
        stop_feeding.set()
        feeder.join()
    assert client.get_job_status().result() is JobStatus.FINISHED
    written: dict[str, int] = {}
    for row in read_json(tmp_path / "out"):
        written[row["name"]] = max(row["total"], written.get(row["name"], 0))
    assert totals_in(path) == written  # what was read before the barrier is in the state and in the output
    rows = len(read_json(tmp_path / "out"))
    assert rows == 3 * len({row["total"] for row in read_json(tmp_path / "out")})


def test_n4_drain_fires_what_waits_for_event_time(spark: SparkSession, tmp_path: Path) -> None:
    jobs = Jobs(spark, tmp_path)
    client, job = start(jobs, execution_checkpointing_interval="1 h")
    feed(jobs, 1)
    wait_until(lambda: jobs.record().rows == 3)
    request = SavepointRequest(str(tmp_path / "savepoints"), then="stop", drain=True)
    job.trigger_savepoint(request).future.result(LIMIT_S)
    client.get_job_execution_result().result()
    names = sorted(row["name"] for row in read_json(tmp_path / "out"))
    assert names == ["ada", "bob", "cleo", "end of ada", "end of bob", "end of cleo"]


def test_n5_a_savepoint_that_fails_leaves_the_job_running_and_one_that_succeeds_cancels_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    jobs = Jobs(spark, tmp_path)
    client, job = start(jobs, execution_checkpointing_interval="500 ms")
    feed(jobs, 1)
    wait_until(lambda: len(read_json(tmp_path / "out")) == 3)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(Exception, match="file"):
        job.trigger_savepoint(SavepointRequest(str(tmp_path / "file"), then="cancel")).future.result(LIMIT_S)
    feed(jobs, 2)
    wait_until(lambda: len(read_json(tmp_path / "out")) == 6)  # periodic checkpoints go on too
    assert client.get_job_status().result() is JobStatus.RUNNING
    path = job.trigger_savepoint(SavepointRequest(str(tmp_path / "savepoints"), then="cancel")).future.result(LIMIT_S)
    client.get_job_execution_result().exception()
    assert client.get_job_status().result() is JobStatus.CANCELED
    assert totals_in(path) == {"ada": 3, "bob": 3, "cleo": 3}


def test_n2_a_job_that_has_got_no_row_yet_has_a_savepoint_too(spark: SparkSession, tmp_path: Path) -> None:
    jobs = Jobs(spark, tmp_path)
    client, job = start(jobs, execution_checkpointing_interval="1 s")
    wait_until(lambda: jobs.record().status == "RUNNING")
    path = job.trigger_savepoint(SavepointRequest(str(tmp_path / "savepoints"))).future.result(LIMIT_S)
    assert totals_in(path) == {}
    client.cancel().result()
