"""The package flink-rest-client, as it is on PyPI, works with a job; only the header with the token is added."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.control.registry import Registry
from penstock.control.tokens import ADMIN_FILE
from tests.process.programs import FUNCTION, STREAM, TOTALS, Started, totals_in, write_orders
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.process, pytest.mark.timeout(600)]

PROGRAM = FUNCTION + STREAM.replace("5_000", "1_000") + 'env.execute("totals")\n'
CLIENT = """
import json, os, sys, time
import requests
from flink_rest_client import FlinkRestClient

send = requests.Session.request


def send_with_token(self, *arguments, **options):
    self.headers["Authorization"] = "Bearer " + os.environ["TOKEN"]
    return send(self, *arguments, **options)


requests.Session.request = send_with_token


def ended(trigger):
    while trigger.status["status"]["id"] != "COMPLETED":
        time.sleep(0.1)
    return trigger.status["operation"]


client = FlinkRestClient.get("127.0.0.1", int(sys.argv[1]))
(job,) = client.jobs.all()
vertex = client.jobs.get_vertex(job["id"], client.jobs.get_vertex_ids(job["id"])[0])
checkpoint = client.jobs.get_checkpoint_ids(job["id"])[-1]  # the oldest: it has ended
found = {
    "job": job,
    "overview": client.overview(),
    "config": client.config(),
    "jobs": client.jobs.overview(),
    "details": client.jobs.get(job["id"]),
    "job_config": client.jobs.get_config(job["id"]),
    "exceptions": client.jobs.get_exceptions(job["id"]),
    "result": client.jobs.get_execution_result(job["id"]),
    "plan": client.jobs.get_plan(job["id"]),
    "accumulators": client.jobs.get_accumulators(job["id"]),
    "job_metrics": client.jobs.get_metrics(job["id"], ["numRecordsIn", "lastCheckpointDuration"]),
    "metrics": client.jobs.metrics(["numRecordsIn"]),
    "vertex": vertex.details(),
    "backpressure": vertex.backpressure(),
    "vertex_metrics": vertex.metrics(["0.numRecordsIn"]),
    "times": vertex.subtasktimes(),
    "vertex_taskmanagers": vertex.taskmanagers(),
    "watermarks": vertex.watermarks(),
    "subtask_ids": vertex.subtasks.subtask_ids(),
    "subtask_metrics": vertex.subtasks.metrics(),
    "subtask": vertex.subtasks.get(0),
    "attempt": vertex.subtasks.get_attempt(0, 0),
    "checkpoint_config": client.jobs.get_checkpointing_configuration(job["id"]),
    "checkpoint": client.jobs.get_checkpoint_details(job["id"], checkpoint, True),
    "taskmanagers": client.taskmanagers.all(),
    "taskmanager": client.taskmanagers.get(client.taskmanagers.taskmanager_ids()[0]),
    "taskmanager_logs": client.taskmanagers.get_logs(client.taskmanagers.taskmanager_ids()[0]),
    "taskmanager_metrics": client.taskmanagers.get_metrics(client.taskmanagers.taskmanager_ids()[0]),
    "merged_metrics": client.taskmanagers.metrics(),
    "driver_config": client.jobmanager.config(),
    "driver_log": client.jobmanager.get_log("driver.log"),
    "driver_metrics": client.jobmanager.metrics(),
    "savepoint": ended(client.jobs.create_savepoint(job["id"], sys.argv[2])),
    "stop": ended(client.jobs.stop(job["id"], sys.argv[2])),
}
print(json.dumps(found))
"""


def test_flink_rest_client_lists_jobs_reads_everything_takes_a_savepoint_and_stops(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    patience = ["--timeout", "20", "--retries", "10"]  # a connection that stalls is tried again
    install = [sys.executable, "-m", "pip", "install", "-q", *patience, "--target", str(packages), "flink-rest-client"]
    subprocess.run(install, check=True, stdin=subprocess.DEVNULL, timeout=300)
    (tmp_path / "job.py").write_text(PROGRAM, encoding="utf-8")
    write_orders(tmp_path)
    job = Started.of([sys.executable, "-m", "penstock", "run", "-p", "2", "job.py"], tmp_path)
    try:
        wait_until(lambda: totals_in(job.out.splitlines()) == TOTALS)
        registry = Registry(tmp_path / "state" / "penstock" / "registry")
        (record,) = registry.list()
        assert record.rest is not None
        token = (registry.log_dir(record.job_id) / ADMIN_FILE).read_text(encoding="utf-8")
        found = ask(tmp_path, packages, record.rest.rpartition(":")[2], token)
        assert job.process.wait(60) == 0
    finally:
        job.process.kill()
        job.process.wait()
    assert found["job"] == {"id": record.job_id, "status": "RUNNING"}
    assert found["overview"]["taskmanagers"] == len(found["taskmanagers"]) == 2
    assert found["job_metrics"]["numRecordsIn"] == "4" and found["metrics"]["numRecordsIn"]["max"] == 4
    assert found["merged_metrics"]["numRecordsIn"]["sum"] == 4
    assert int(found["taskmanager_metrics"]["Status.Process.Memory.Resident"]) > 1 << 20
    assert found["subtask_ids"] == [0, 1]
    assert found["subtask_metrics"]["numRecordsIn"]["sum"] == 4
    assert found["checkpoint"]["status"] == "COMPLETED" and set(found["checkpoint"]["subtasks"]) == {"s0"}
    assert found["backpressure"]["status"] == "ok"
    assert token not in json.dumps(found)
    for kind in ("savepoint", "stop"):
        assert Path(found[kind]["location"].removeprefix("file:")).is_dir()
    assert job.out.splitlines()[-1] == f"Job {record.job_id} FINISHED"


def ask(folder: Path, packages: Path, port: str, token: str) -> Any:
    """What the client has found."""
    script = folder / "client.py"
    script.write_text(CLIENT, encoding="utf-8")
    own = {**os.environ, "TOKEN": token, "PYTHONPATH": str(packages)}
    command = [sys.executable, str(script), port, str(folder / "savepoints")]
    done = subprocess.run(command, env=own, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
