"""The control server of a real job: found through the registry, gone with the job."""

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.control.tokens import ADMIN_FILE, read_token
from penstock.datastream import JobClient, MapFunction, RuntimeContext
from tests.spark.jobs import Jobs
from tests.waiting import LIMIT_S, wait_until

SETTINGS = {"execution.checkpointing.interval": "10 min"}


class Value(MapFunction):
    """Counts the rows that it has seen."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_metrics_group().add_group("rows").counter("seen")

    def map(self, value: Any) -> Any:
        self.seen.inc()
        return value.v


def start(jobs: Jobs, settings: dict[str, str] | None = None) -> JobClient:
    jobs.write_json("1.json", [{"v": 1}])
    env = jobs.environment(settings={**SETTINGS, **(settings or {})})
    env.from_dataframe(jobs.json_stream("v bigint")).map(Value(), output_type="bigint").uid("v").print()
    return env.execute_async("served")


def result(client: httpx.Client, path: str) -> Any:
    """What came of an operation."""
    done = wait_until(lambda: (found := client.get(path).json())["status"]["id"] == "COMPLETED" and found)
    return done["operation"]


def test_m6_k14_n2_a_job_is_steered_through_its_server(jobs: Jobs, capfd: pytest.CaptureFixture[str]) -> None:
    job = start(jobs)
    wait_until(lambda: jobs.record().epoch > 0)
    record = jobs.record()
    assert record.rest is not None
    token_file = Path(record.log_dir) / ADMIN_FILE
    token = read_token(token_file)
    with httpx.Client(base_url=record.rest, headers={"Authorization": f"Bearer {token}"}, trust_env=False) as client:
        path = f"/jobs/{job.get_job_id()}"
        assert client.get("/jobs").json() == {"jobs": [{"id": job.get_job_id(), "status": "RUNNING"}]}
        trigger = client.post(path + "/checkpoints", json={"checkpointType": "FULL"}).json()["request-id"]
        number = result(client, f"{path}/checkpoints/{trigger}")["checkpointId"]
        details = client.get(f"{path}/checkpoints/details/{number}").json()
        assert details["status"] == "COMPLETED" and not details["discarded"]
        assert Path(details["external_path"], "_metadata").exists()
        assert client.get(path + "/checkpoints").json()["counts"]["completed"] >= 2
        no_place = client.post(path + "/savepoints")
        assert no_place.status_code == 400 and "execution.checkpointing.savepoint-dir" in no_place.text
        target = str(jobs.folder / "savepoints")
        asked = client.post(path + "/savepoints", json={"target-directory": target, "formatType": "NATIVE"})
        location = result(client, f"{path}/savepoints/{asked.json()['request-id']}")["location"]
        latest = client.get(path + "/checkpoints").json()["latest"]["savepoint"]
        assert latest["external_path"] == location and latest["savepointFormat"] == "NATIVE"
        assert (
            latest["checkpoint_type"] == "SAVEPOINT" and latest["num_acknowledged_subtasks"] == latest["num_subtasks"]
        )
        assert Path(job.trigger_savepoint(target).result(LIMIT_S), "_metadata").exists()
        vertices = client.get(path).json()["vertices"]
        assert [vertex["status"] for vertex in vertices] == ["RUNNING"] * len(vertices)
        counted = f"{path}/vertices/{vertices[0]['id']}/subtasks/metrics?get=Map.rows.seen&agg=sum"
        wait_until(lambda: client.get(counted).json() == [{"id": "Map.rows.seen", "sum": 1}])
        assert client.patch(path).status_code == 202
    job.get_job_execution_result().exception()
    assert job.get_job_status().result().name == "CANCELED" and jobs.record().rest is None
    wait_until(lambda: not token_file.exists())
    log = (Path(record.log_dir) / "driver.log").read_text("utf-8")
    assert any(" audit " in line and "| PATCH /jobs/{jobid}" in line for line in log.splitlines()) and token not in log
    output = capfd.readouterr()
    assert token not in output.out + output.err


def test_a_port_that_is_taken_is_a_warning(jobs: Jobs, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        job = start(jobs, {"rest.port": str(port)})
    assert f"warning: the job has no control server: cannot listen on 127.0.0.1 port {port}" in capfd.readouterr().err
    wait_until(lambda: jobs.record().epoch > 0)
    assert jobs.record().rest is None
    job.cancel().result(LIMIT_S)
