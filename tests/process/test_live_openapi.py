"""Requests made from the `/openapi.json` of a running job get no 5xx and no status that is not described there."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import given
from hypothesis import strategies as st
from schemathesis import GenerationMode

from penstock.control.registry import JobRecord, Registry
from penstock.control.tokens import ADMIN_FILE, read_token
from penstock.rest.endpoint import Endpoint
from penstock.rest.page_routes import EVENTS
from penstock.rest.routes import ENDPOINTS
from tests.docs.pages import files_of
from tests.process.programs import Started, write_orders
from tests.rest.generated_requests import A_FEW, to_request
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.full, pytest.mark.timeout(900)]

HARMFUL = {
    ("PATCH", "/jobs/{jobid}"),
    ("POST", "/jobs/{jobid}/savepoints"),
    ("POST", "/jobs/{jobid}/stop"),
    ("PATCH", "/jobs/{jobid}/rescaling"),
    ("PUT", "/jobs/{jobid}/resource-requirements"),
}
"""They end, restart or copy the job: sent with made-up ids only."""


@dataclass(frozen=True)
class LiveJob:
    """A running job whose server a client asks."""

    started: Started
    client: httpx.Client
    document: dict[str, Any]
    ids: dict[str, str]
    token: dict[str, str]
    folder: Path

    def record(self) -> JobRecord:
        (found,) = registry_below(self.folder).list()
        return found

    def status_of(self, endpoint: Endpoint, request: dict[str, Any]) -> tuple[int, str]:
        """The status, and the body of an answer that ends."""
        with self.client.stream(**request) as response:
            if endpoint is EVENTS and response.status_code == 200:
                return 200, ""
            return response.status_code, response.read().decode(errors="replace")


def registry_below(folder: Path) -> Registry:
    return Registry(folder / "state" / "penstock" / "registry")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveJob]:
    folder = tmp_path_factory.mktemp("live")
    program = files_of("docs/how-to/query-live-state.md")["totals.py"]
    (folder / "totals.py").write_text(program.replace("5_000", "500"), encoding="utf-8")
    write_orders(folder)
    settings = ["-D", f"execution.checkpointing.dir={folder / 'checkpoints'}"]
    settings += ["-D", "execution.checkpointing.num-retained=1000"]
    started = Started.of(["penstock", "run", "-p", "2", *settings, "totals.py"], folder)
    try:
        started.await_totals(4)
        record = wait_until(lambda: [one for one in registry_below(folder).list() if one.last_checkpoint])[0]
        assert record.rest is not None
        token = {"Authorization": f"Bearer {read_token(Path(record.log_dir) / ADMIN_FILE)}"}
        with httpx.Client(base_url=record.rest, headers=token, timeout=60.0, trust_env=False) as client:
            document = client.get("/openapi.json").json()
            ids = {**ids_of(client, record, folder), "log": "driver.log", "operator": "running-total", "state": "total"}
            yield LiveJob(started, client, document, ids, token, folder)
        assert started.interrupt() == 130, started.err
    finally:
        started.process.kill()
        started.process.wait()


def ids_of(client: httpx.Client, record: JobRecord, folder: Path) -> dict[str, str]:
    """Ids that the job knows: also of a savepoint that is taken here."""
    path = f"/jobs/{record.job_id}"
    trigger = client.post(f"{path}/savepoints", json={"target-directory": str(folder / "savepoints")}).json()
    trigger_id = str(trigger["request-id"])
    wait_until(lambda: client.get(f"{path}/savepoints/{trigger_id}").json()["status"]["id"] == "COMPLETED")
    manager = wait_until(lambda: client.get("/taskmanagers").json()["taskmanagers"])[0]
    return {
        "jobid": record.job_id,
        "triggerid": trigger_id,
        "checkpointid": str(client.get(f"{path}/checkpoints").json()["latest"]["completed"]["id"]),
        "vertexid": str(client.get(path).json()["vertices"][0]["id"]),
        "subtaskindex": "0",
        "attempt": "0",
        "taskmanagerid": str(manager["id"]),
    }


def test_every_route_that_only_reads_answers_with_ids_that_exist(job: LiveJob) -> None:
    optional = {"/savepoint-disposal/{triggerid}", "/jobs/{jobid}/rescaling/{triggerid}"}
    optional |= {"/jobs/{jobid}/checkpoints/{triggerid}", "/taskmanagers/{taskmanagerid}/logs/{log}"}
    for endpoint in ENDPOINTS:
        if endpoint.method == "GET" and endpoint.path not in optional:
            path = endpoint.path.format(**job.ids)
            query = {"key": "ada"} if "key" in endpoint.query else {}
            status, text = job.status_of(endpoint, {"method": "GET", "url": path, "params": query})
            assert status == 200, (path, text)


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_rest_r4_requests_to_a_running_job_get_only_statuses_that_are_documented(
    endpoint: Endpoint, mode: GenerationMode, job: LiveJob
) -> None:
    operation = schemathesis.openapi.from_dict(job.document)[endpoint.path][endpoint.method]
    documented = job.document["paths"][endpoint.path][endpoint.method.lower()]["responses"]
    may_have_known_ids = st.just(False) if (endpoint.method, endpoint.path) in HARMFUL else st.booleans()

    @A_FEW
    @given(case=operation.as_strategy(generation_mode=mode), has_known_ids=may_have_known_ids)
    def request(case: Any, has_known_ids: bool) -> None:  # noqa: FBT001 - hypothesis passes it by name
        if has_known_ids:
            case.path_parameters = {name: job.ids[name] for name in case.path_parameters or ()}
        status, text = job.status_of(endpoint, to_request(case, str(job.client.base_url), job.token))
        assert str(status) in documented, (status, text)
        assert status < 500, text

    request()


def test_the_job_has_not_noticed(job: LiveJob) -> None:
    record = job.record()
    assert (record.status, record.attempt, record.failures) == ("RUNNING", 1, [])
    log = (Path(record.log_dir) / "driver.log").read_text(encoding="utf-8")
    assert "Traceback" not in log
