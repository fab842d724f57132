"""The answers of the endpoints, with Flink's names and messages."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats, SubtaskStats
from penstock.checkpoint.stats.checkpoint_report import RestoreStats
from penstock.control.registry import FailureRecord, StatusChange
from penstock.model.execution import ExternalizedCheckpointRetention
from penstock.model.ids import StageId, SubtaskId
from penstock.model.metric_readings import MetricReading
from penstock.model.snapshot import BarrierFigures
from tests.records import A_ID, job_record
from tests.rest.fake_job import JOB, FakeJob, Served, end_savepoint
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
ONE, TWO = "1" * 32, "2" * 32


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path)


def get(served: Served, path: str) -> Any:
    response = served.client.get(path)
    assert response.status_code == 200, response.text
    return response.json()


def ended(served: Served, path: str) -> Any:
    """The operation of a finished trigger."""
    data = wait_until(lambda: (found := get(served, path))["status"]["id"] == "COMPLETED" and found)
    return data["operation"]


def ticket(served: Served, trigger_id: str = ONE) -> SavepointRequest:
    return served.job.requests[trigger_id]


def test_jobs_and_their_status(served: Served) -> None:
    assert get(served, "/jobs") == {"jobs": [{"id": A_ID, "status": "RUNNING"}]}
    assert get(served, JOB + "/status") == {"status": "RUNNING"}


def test_the_overview_has_flinks_names(served: Served) -> None:
    served.job.current = job_record(
        updated_ms=1_700_000_005_000, transitions=[StatusChange("RUNNING", 1_700_000_001_000)]
    )
    (job,) = get(served, "/jobs/overview")["jobs"]
    assert job["jid"] == A_ID and job["name"] == "totals" and job["state"] == "RUNNING"
    assert (job["start-time"], job["end-time"], job["duration"]) == (1_700_000_000_000, -1, 5000)
    assert job["last-modification"] == 1_700_000_001_000 and job["jobType"] == "STREAMING"
    assert job["tasks"]["total"] == job["tasks"]["running"] == 2 and job["tasks"]["failed"] == 0


def test_a_job_has_vertices_and_a_plan(served: Served) -> None:
    job = get(served, JOB)
    (vertex,) = job["vertices"]
    assert (vertex["id"], vertex["parallelism"], vertex["maxParallelism"], vertex["status"]) == (
        "s0",
        2,
        128,
        "RUNNING",
    )
    assert job["status-counts"]["RUNNING"] == 1 and job["maxParallelism"] == 128
    assert job["plan"] == {"jid": A_ID, "name": "totals", "type": "STREAMING", "nodes": []}
    assert set(job["timestamps"]) >= {"RUNNING", "CANCELED", "FAILING"} and job["now"] == served.clock.now_ms()
    assert vertex["metrics"]["read-records-complete"] and vertex["metrics"]["read-bytes-complete"] is False


def test_exceptions_come_newest_first_and_not_more_than_asked_for(served: Served) -> None:
    failures = [FailureRecord(at, at, "ValueError", f"no {at}", "OSError: disk") for at in (1, 2, 3)]
    served.job.current = job_record(failures=failures)
    history = get(served, JOB + "/exceptions?maxExceptions=2")["exceptionHistory"]
    assert [entry["timestamp"] for entry in history["entries"]] == [3, 2] and history["truncated"]
    assert history["entries"][0]["exceptionName"] == "ValueError"
    assert history["entries"][0]["stacktrace"] == "no 3\nCaused by: OSError: disk"
    assert not get(served, JOB + "/exceptions")["exceptionHistory"]["truncated"]
    assert served.client.get(JOB + "/exceptions?maxExceptions=-1").status_code == 400


def test_the_guarantees_are_those_of_the_report(served: Served) -> None:
    data = get(served, JOB + "/guarantees")
    assert data == served.job.facts.guarantees.to_dict()
    assert (data["guarantee"], data["outputs"]) == ("exactly once", [])


def test_a_patch_cancels(served: Served) -> None:
    response = served.client.patch(JOB + "?mode=cancel")
    assert (response.status_code, response.json()) == (202, {})
    assert served.job.cancelled.wait(30)
    again = served.client.patch(JOB + "?mode=cancel")
    assert again.status_code == 409 and "terminal state" in again.json()["errors"][0]


def test_a_patch_does_not_stop(served: Served) -> None:
    response = served.client.patch(JOB + "?mode=stop", follow_redirects=False)
    assert response.status_code == 308 and "/stop" in response.json()["errors"][0]
    assert served.client.patch(JOB + "?mode=kill").status_code == 400
    assert not served.job.cancelled.is_set()


def test_n2_a_savepoint_is_triggered_and_polled(served: Served) -> None:
    body = {"target-directory": "/tmp/sp", "formatType": "NATIVE", "triggerId": ONE}
    response = served.client.post(JOB + "/savepoints", json=body)
    assert (response.status_code, response.json()) == (202, {"request-id": ONE})
    ticket(served).advance(0.421)
    assert get(served, f"{JOB}/savepoints/{ONE}") == {"status": {"id": "IN_PROGRESS"}, "progress": 42}
    end_savepoint(ticket(served))
    assert ended(served, f"{JOB}/savepoints/{ONE}") == {"location": "/tmp/sp/savepoint-aaaaaa-0123456789ab"}
    assert served.job.triggered == [("/tmp/sp", "native", "go_on", False)]


def test_n2_the_example_in_the_reference_takes_a_savepoint(served: Served) -> None:
    page = (ROOT / "docs" / "reference" / "rest-api.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"curl -X POST (.*?) \$JOB(/\S+)\n", page, re.DOTALL)
    headers = dict(re.findall(r'-H "([\w-]+): ([^"]+)"', example[0]))
    body = re.search(r"-d '(.*)'", example[0])
    assert body is not None
    response = served.client.post(JOB + example[1], content=body[1], headers=headers)
    assert response.status_code == 202 and list(response.json()) == ["request-id"]
    assert served.job.triggered == [("/savepoints", "canonical", "go_on", False)]


def test_n5_a_savepoint_may_cancel_the_job_and_its_failure_is_reported(served: Served) -> None:
    response = served.client.post(JOB + "/savepoints", json={"cancel-job": True})
    assert response.status_code == 202
    trigger_id = response.json()["request-id"]
    end_savepoint(ticket(served, trigger_id), "no space left")
    failure = ended(served, f"{JOB}/savepoints/{trigger_id}")["failure-cause"]
    assert failure == {
        "class": "CheckpointFailedError",
        "stack-trace": "CheckpointFailedError: the savepoint failed: no space left",
    }
    assert served.job.triggered == [("/savepoints", "canonical", "cancel", False)]


def test_n3_n4_stop_has_its_own_spelling_and_is_polled_under_savepoints(served: Served) -> None:
    body = {"targetDirectory": "/tmp/sp", "drain": True, "triggerId": ONE}
    assert served.client.post("/v1" + JOB + "/stop", json=body).json() == {"request-id": ONE}
    end_savepoint(ticket(served))
    assert ended(served, f"{JOB}/savepoints/{ONE}")["location"].startswith("/tmp/sp/")
    assert served.job.triggered == [("/tmp/sp", "canonical", "stop", True)]
    assert served.client.post(JOB + "/stop", json={"target-directory": "/x"}).status_code == 400


@pytest.mark.parametrize("path", ["/savepoints", "/stop"])
def test_k14_without_a_folder_it_is_400(tmp_path: Path, path: str) -> None:
    served = Served(tmp_path, FakeJob(savepoint_dir=None))
    response = served.client.post(JOB + path)
    assert response.status_code == 400
    assert response.json()["errors"] == [
        "Config key [execution.checkpointing.savepoint-dir] is not set. Property [target-directory] must be provided."
    ]
    assert response.json()["code"] == "NO_SAVEPOINT_DIRECTORY"


def test_the_same_trigger_id_is_the_same_operation(served: Served) -> None:
    for _ in range(3):
        response = served.client.post(JOB + "/savepoints", json={"triggerId": ONE.upper()})
        assert (response.status_code, response.json()) == (202, {"request-id": ONE})
    end_savepoint(ticket(served))
    ended(served, f"{JOB}/savepoints/{ONE}")
    assert served.client.post(JOB + "/savepoints", json={"triggerId": ONE}).status_code == 202
    assert len(served.job.triggered) == 1


def test_rest_r12_the_same_idempotency_key_is_the_same_operation(served: Served) -> None:
    headers = {"Idempotency-Key": "deploy-42"}
    first = served.client.post(JOB + "/savepoints", headers=headers)
    assert served.client.post(JOB + "/savepoints", headers=headers).json() == first.json()
    other = served.client.post(JOB + "/savepoints", headers={"Idempotency-Key": "deploy-43"})
    assert other.status_code == 409 and first.json()["request-id"] in other.json()["errors"][0]
    assert served.client.post(JOB + "/savepoints", headers={"Idempotency-Key": "a b"}).status_code == 400
    assert len(served.job.triggered) == 1
    end_savepoint(served.job.requests.popitem()[1])


def test_rest_r11_of_a_thousand_triggers_at_once_one_runs_and_the_others_get_its_id(served: Served) -> None:
    def trigger(_: int) -> tuple[int, Any]:
        response = served.client.post(JOB + "/savepoints")
        return response.status_code, response.json()

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(trigger, range(1000)))
    accepted = [data["request-id"] for status, data in answers if status == 202]
    refused = [data["errors"][0] for status, data in answers if status == 409]
    assert (len(accepted), len(refused)) == (1, 999)
    assert all(accepted[0] in message for message in refused)
    assert len(served.job.triggered) == 1
    end_savepoint(ticket(served, accepted[0]))


def test_results_are_kept_five_minutes(served: Served) -> None:
    served.client.post(JOB + "/savepoints", json={"triggerId": ONE})
    served.clock.advance(400_000)  # one that runs is never forgotten
    assert get(served, f"{JOB}/savepoints/{ONE}")["status"] == {"id": "IN_PROGRESS"}
    end_savepoint(ticket(served))
    ended(served, f"{JOB}/savepoints/{ONE}")
    served.clock.advance(299_000)
    get(served, f"{JOB}/savepoints/{ONE}")
    served.clock.advance(2_000)
    response = served.client.get(f"{JOB}/savepoints/{ONE}")
    assert response.status_code == 404
    assert response.json()["errors"] == [f"There is no savepoint operation with triggerId={ONE} for job {A_ID}."]


def test_a_savepoint_that_was_requested_elsewhere_is_found_too(served: Served) -> None:
    """By the program, or by an earlier driver whose stop this one completes."""
    request = served.job.trigger_savepoint(SavepointRequest("/tmp/sp", trigger_id=ONE))
    assert get(served, f"{JOB}/savepoints/{ONE}")["status"] == {"id": "IN_PROGRESS"}
    end_savepoint(request)
    assert ended(served, f"{JOB}/savepoints/{ONE}")["location"].startswith("/tmp/sp/")


def test_an_unknown_operation_is_404(served: Served) -> None:
    for path in (f"{JOB}/savepoints/{TWO}", f"{JOB}/checkpoints/{TWO}", f"/savepoint-disposal/{TWO}"):
        response = served.client.get(path)
        assert response.status_code == 404
        assert f"There is no savepoint operation with triggerId={TWO}" in response.json()["errors"][0]


def test_n6_a_disposal_is_polled_and_refuses_what_is_no_savepoint(served: Served, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("x")
    response = served.client.post("/savepoint-disposal", json={"savepoint-path": str(tmp_path), "triggerId": ONE})
    assert (response.status_code, response.json()) == (200, {"request-id": ONE})
    failure = ended(served, f"/savepoint-disposal/{ONE}")["failure-cause"]
    assert failure["class"] == "SnapshotNotFoundError" and "_metadata" in failure["stack-trace"]
    assert (tmp_path / "precious.txt").exists()
    assert served.client.post("/savepoint-disposal", json={}).status_code == 400
    assert served.client.post("/savepoint-disposal", json={"savepoint-path": "a/../b"}).status_code == 400


def test_m6_a_checkpoint_is_taken_by_hand(served: Served) -> None:
    served.job.may_checkpoint.clear()
    response = served.client.post(JOB + "/checkpoints", json={"checkpointType": "FULL", "triggerId": ONE})
    assert (response.status_code, response.json()) == (202, {"request-id": ONE})
    assert get(served, f"{JOB}/checkpoints/{ONE}")["status"] == {"id": "IN_PROGRESS"}
    served.job.may_checkpoint.set()
    assert ended(served, f"{JOB}/checkpoints/{ONE}") == {"checkpointId": 26}
    served.client.post(JOB + "/checkpoints", json={"triggerId": TWO})
    ended(served, f"{JOB}/checkpoints/{TWO}")
    assert served.job.taken == [True, False]


def test_m6_a_checkpoint_that_fails_says_why(served: Served) -> None:
    served.job.checkpoint_failure = "Checkpoint was declined."
    served.client.post(JOB + "/checkpoints", json={"triggerId": ONE})
    failure = ended(served, f"{JOB}/checkpoints/{ONE}")["failureCause"]
    assert failure["stack-trace"] == "CheckpointFailedError: Checkpoint was declined."


def test_m6_incremental_is_refused_in_flinks_words(served: Served) -> None:
    response = served.client.post(JOB + "/checkpoints", json={"checkpointType": "INCREMENTAL"})
    assert response.status_code == 400
    assert response.json()["errors"] == [
        "Flink does not support triggering incremental checkpoint explicitly. See FLINK-33723."
    ]
    assert served.client.post(JOB + "/checkpoints", json={"checkpointType": "BIG"}).status_code == 400


def part(index: int, written: int) -> SubtaskStats:
    figures = BarrierFigures(start_delay_ms=1, alignment_ms=2, processed_bytes=30, persisted_bytes=4 * index)
    return SubtaskStats(SubtaskId(StageId("s0"), index), figures, 5, 10 * written, written, 100)


HISTORY = (
    CheckpointStats(
        3,
        "completed",
        1000,
        1400,
        400,
        written_bytes=30,
        full_bytes=200,
        subtasks=2,
        acknowledged=2,
        parts=(part(0, 10), part(1, 20)),
    ),
    CheckpointStats(4, "failed", 2000, 2100, 100, failure="Checkpoint expired before completing.", subtasks=2),
    CheckpointStats(6, "in_progress", 4000, subtasks=2),
)
SAVEPOINTS = (
    CheckpointStats(
        5,
        "completed",
        3000,
        3200,
        200,
        "SAVEPOINT",
        savepoint="canonical",
        path="/sp/savepoint-aaaaaa-0123456789ab",
        subtasks=2,
        acknowledged=2,
    ),
)


@pytest.fixture
def with_history(served: Served) -> Served:
    served.job.history, served.job.savepoints = HISTORY, SAVEPOINTS
    served.job.tally.restore(RestoreStats(2, 900, is_savepoint=True, path="/sp/old"))
    return served


def test_checkpoints_are_counted_summed_up_and_listed(with_history: Served) -> None:
    data = get(with_history, JOB + "/checkpoints")
    assert data["counts"] == {"restored": 1, "total": 3, "in_progress": 1, "completed": 1, "failed": 1}
    assert [entry["id"] for entry in data["history"]] == [6, 5, 4, 3]
    duration = data["summary"]["end_to_end_duration"]
    assert duration == dict.fromkeys(("min", "max", "avg", "p50", "p90", "p95", "p99", "p999"), 400)
    assert data["latest"]["completed"]["id"] == 3 and data["latest"]["savepoint"]["id"] == 5
    assert data["latest"]["failed"]["failure_message"] == "Checkpoint expired before completing."
    assert data["latest"]["restored"] == {
        "id": 2,
        "restore_timestamp": 900,
        "is_savepoint": True,
        "external_path": "/sp/old",
    }


def test_t3_a_checkpoint_from_before_a_rescale_has_the_subtasks_of_its_time(served: Served) -> None:
    served.job.history = (msgspec.structs.replace(HISTORY[0], subtasks=3, parts=tuple(part(n, 10) for n in range(3))),)
    task = get(served, f"{JOB}/checkpoints/details/3/subtasks/s0")  # of a stage that has two now
    assert (task["num_subtasks"], task["num_acknowledged_subtasks"]) == (3, 3)
    assert [one["status"] for one in task["subtasks"]] == ["completed"] * 3
    assert get(served, f"{JOB}/checkpoints/details/3")["tasks"]["s0"]["num_subtasks"] == 3


def test_a_checkpoint_has_flinks_names(with_history: Served) -> None:
    entry = get(with_history, JOB + "/checkpoints/details/3")
    assert set(entry) == {
        *("className", "id", "status", "is_savepoint", "savepointFormat", "trigger_timestamp", "latest_ack_timestamp"),
        *("checkpointed_size", "state_size", "end_to_end_duration", "alignment_buffered", "processed_data"),
        *("persisted_data", "num_subtasks", "num_acknowledged_subtasks", "checkpoint_type", "tasks", "external_path"),
        "discarded",
    }
    assert (entry["className"], entry["status"], entry["checkpoint_type"]) == ("completed", "COMPLETED", "CHECKPOINT")
    assert (entry["checkpointed_size"], entry["state_size"], entry["processed_data"]) == (30, 200, 60)
    assert entry["external_path"] == f"/checkpoints/{A_ID}/chk-3" and entry["discarded"] is False
    assert entry["latest_ack_timestamp"] == 1000 + 208
    assert entry["tasks"]["s0"]["num_acknowledged_subtasks"] == 2
    savepoint = get(with_history, JOB + "/checkpoints/details/5")
    assert savepoint["is_savepoint"] and savepoint["savepointFormat"] == "CANONICAL"
    assert savepoint["external_path"] == "/sp/savepoint-aaaaaa-0123456789ab" and not savepoint["discarded"]
    assert "external_path" not in get(with_history, JOB + "/checkpoints/details/6")


def test_a_vertex_shows_its_subtasks(with_history: Served) -> None:
    data = get(with_history, JOB + "/checkpoints/details/3/subtasks/s0")
    assert data["summary"]["checkpoint_duration"]["async"]["max"] == 200
    assert data["summary"]["start_delay"]["avg"] == 1
    first, second = data["subtasks"]
    assert first["checkpoint"] == {"sync": 5, "async": 100} and first["end_to_end_duration"] == 108
    assert second["alignment"] == {"buffered": 0, "processed": 30, "persisted": 4, "duration": 2}
    pending = get(with_history, JOB + "/checkpoints/details/6/subtasks/s0")["subtasks"]
    assert pending[0] == {"className": "pending", "index": 0, "status": "pending_or_failed"}
    assert with_history.client.get(JOB + "/checkpoints/details/3/subtasks/s9").status_code == 404


def test_an_unknown_checkpoint_is_404(with_history: Served) -> None:
    response = with_history.client.get(JOB + "/checkpoints/details/77")
    assert response.status_code == 404
    assert response.json()["errors"] == ["Could not find checkpointing statistics for checkpoint 77."]
    assert with_history.client.get(JOB + "/checkpoints/details/x").status_code == 400


def test_the_configuration_of_checkpoints(tmp_path: Path) -> None:
    retention = ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION
    served = Served(tmp_path, FakeJob(settings=CheckpointSettings(5000, min_pause_ms=7, retention=retention)))
    data = get(served, JOB + "/checkpoints/config")
    assert (data["mode"], data["interval"], data["timeout"], data["min_pause"]) == ("exactly_once", 5000, 600_000, 7)
    assert data["externalization"] == {"enabled": True, "delete_on_cancellation": True}
    assert data["state_backend"] == "HashMapStateBackend"
    assert data["checkpoint_storage"] == "FileSystemCheckpointStorage"


def test_without_checkpoints_there_are_none(tmp_path: Path) -> None:
    job = FakeJob()
    job.settings = None
    served = Served(tmp_path, job)
    for path in ("/checkpoints", "/checkpoints/config"):
        response = served.client.get(JOB + path)
        assert response.status_code == 404
        assert response.json()["errors"] == ["Checkpointing has not been enabled."]
    assert served.client.post(JOB + "/checkpoints").status_code == 404
    assert served.client.post(JOB + "/savepoints").status_code == 202  # N2: savepoints work all the same
    end_savepoint(served.job.requests.popitem()[1])


def test_the_end_of_a_job_waits_until_results_are_fetched(served: Served) -> None:
    operations = served.control.operations
    assert operations.wait_until_seen(0)
    served.client.post(JOB + "/stop", json={"triggerId": ONE})
    end_savepoint(ticket(served))
    assert not operations.wait_until_seen(0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(operations.wait_until_seen, 30)
        ended(served, f"{JOB}/savepoints/{ONE}")
        assert waiting.result(30)
    served.client.post(JOB + "/stop", json={"triggerId": TWO})
    end_savepoint(ticket(served, TWO))
    operation = operations.find("savepoint", TWO)
    assert operation is not None and operation.future.result(30) and not operations.wait_until_seen(0)
    served.clock.advance(301_000)
    assert operations.wait_until_seen(0)  # nobody will fetch it


def test_metrics_of_functions_by_vertex_and_subtask(served: Served) -> None:
    first, second = (SubtaskId(StageId("s0"), index) for index in (0, 1))
    served.job.readings = [
        (first, MetricReading("op", "seen", "counter", {"count": 3})),
        (second, MetricReading("op", "seen", "counter", {"count": 5})),
        (second, MetricReading("op", "rate", "meter", {"count": 6, "rate": 0.5})),
        (second, MetricReading("op", "mood", "gauge", {"value": "fine"})),
        (SubtaskId(StageId("s1"), 0), MetricReading("op", "elsewhere", "counter", {"count": 1})),
    ]
    vertex = JOB + "/vertices/s0"
    names = ["op.mood", "op.rate_count", "op.rate_rate", "op.seen"]
    listed = [metric["id"] for metric in get(served, vertex + "/subtasks/1/metrics")]
    assert [name for name in listed if "." in name] == names
    assert get(served, vertex + "/subtasks/1/metrics?get=op.seen,op.mood,no") == [
        {"id": "op.seen", "value": "5"},
        {"id": "op.mood", "value": "fine"},
    ]
    assert get(served, vertex + "/metrics?get=0.op.seen") == [{"id": "0.op.seen", "value": "3"}]
    merged_names = [metric["id"] for metric in get(served, vertex + "/subtasks/metrics")]
    assert [name for name in merged_names if "." in name] == names[1:]
    merged = get(served, vertex + "/subtasks/metrics?get=op.seen")
    assert merged == [{"id": "op.seen", "min": 3, "max": 5, "avg": 4.0, "sum": 8}]
    assert get(served, vertex + "/subtasks/metrics?get=op.seen&agg=sum&subtasks=1") == [{"id": "op.seen", "sum": 5}]
    assert served.client.get(vertex + "/subtasks/metrics?agg=median").status_code == 400
    assert served.client.get(JOB + "/vertices/none/metrics").status_code == 404


def test_e9_r10_a_rescale_is_started_and_its_result_fetched(served: Served) -> None:
    assert served.client.patch(JOB + "/rescaling").status_code == 400
    for wrong in ("-1", "abc", "1e3", "129"):
        assert served.client.patch(f"{JOB}/rescaling?parallelism={wrong}").status_code == 400, wrong
    served.job.is_rescaling = True
    assert served.client.patch(JOB + "/rescaling?parallelism=3").status_code == 409
    served.job.is_rescaling = False
    answer = served.client.patch(JOB + "/rescaling?parallelism=4", json={"triggerId": ONE})
    assert (answer.status_code, answer.json()) == (200, {"request-id": ONE})
    operation = served.control.operations.find("rescaling", ONE)
    assert operation is not None and operation.future.result(30)
    outcome = {"from": 2, "to": 4, "checkpointId": 7, "pause-ms": 1530}
    assert get(served, f"{JOB}/rescaling/{ONE}") == {"status": {"id": "COMPLETED"}, "operation": outcome}
    assert "rescaling ended" in served.log.read_text()
    assert served.client.get(f"{JOB}/rescaling/{TWO}").status_code == 404


def test_r13_names_with_markup_and_control_characters_are_data_and_nothing_else(served: Served) -> None:
    name = '<img src=x onerror=alert(1)>\u202e\x1b[2J\n"} evil 1'
    served.job.current = job_record(name=name)
    for path, found in (("/jobs/overview", lambda data: data["jobs"][0]), (JOB, lambda data: data)):
        answer = served.client.get(path)
        assert found(answer.json())["name"] == name
        assert answer.headers["content-type"].startswith("application/json")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert b"\x1b" not in answer.content and b"\n" not in answer.content
    metrics = served.client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    lines = metrics.text.splitlines()
    assert lines and all(re.match(r"# |penstock_[a-z_]+[{ ]", line) for line in lines)
