"""Vertices and subtasks, driver and TaskManagers, with Flink's names; and the metrics that every job has."""

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats, SubtaskStats
from penstock.common import Types
from penstock.control.registry import FailureRecord, JobRecord, ProcessRecord, Registry
from penstock.graph.job_graph import OperatorPlan
from penstock.model.ids import StageId, SubtaskId
from penstock.model.metric_readings import MetricReading
from penstock.model.recent_epoch import EpochPhases, RecentEpoch
from penstock.model.snapshot import BarrierFigures, StateSize
from penstock.model.subtask_work import SubtaskFigures
from penstock.model.types import resolve_type
from penstock.rest.metric_names import operator_labels, operator_names
from tests.records import A_ID, job_record
from tests.rest.fake_job import JOB, READ, STAGE, Served

VERTEX = JOB + "/vertices/s0"
PLACE = SubtaskId(StageId("s0"), 1)
BARRIER = BarrierFigures(start_delay_ms=12, alignment_ms=34, processed_bytes=500)
CHECKPOINT = CheckpointStats(
    3,
    "completed",
    1000,
    1250,
    250,
    written_bytes=70,
    full_bytes=700,
    metadata_bytes=90,
    subtasks=2,
    acknowledged=2,
    parts=(SubtaskStats(PLACE, BARRIER, 1, 2, 70, 700),),
)


@pytest.fixture
def served(tmp_path: Path) -> Served:
    served = Served(tmp_path)
    log_dir = tmp_path / A_ID
    log_dir.mkdir()
    (log_dir / "driver.log").write_text("started\n", encoding="utf-8")
    (log_dir / "taskmanager-1-0.log").write_text("restored\n", encoding="utf-8")
    (log_dir / "rest-token").write_text("secret", encoding="utf-8")
    served.job.current = a_record(log_dir)
    served.job.history = (CHECKPOINT,)
    Registry(tmp_path).write_sizes(A_ID, [StateSize("total", "sum", 40, 999, True, True)])
    return served


def a_record(log_dir: Path, **changes: Any) -> JobRecord:
    driver = ProcessRecord(11, "here", "driver")
    manager = ProcessRecord(12, "there", "taskmanager", ["s0/0", "s0/1"], "tm-1-0-ab")
    busy = SubtaskFigures("s0", 1, 50, 20, 5.0, 2.0, 700, 200, 100, 7000, 2000, 1000, 1_000)
    epoch = RecentEpoch(7, 1000, 1400, 50, 20, 3, EpochPhases(30, 200, 120, 15, 5, 30))
    values = {"processes": [driver, manager], "subtasks": [busy], "last_epoch": epoch, "rows": 50, "attempt": 2}
    return job_record(log_dir=str(log_dir), **{**values, "watermark": 1_000, "updated_ms": 4_000, **changes})


def get(served: Served, path: str) -> Any:
    response = served.client.get(path, headers=READ)
    assert response.status_code == 200, response.text
    return response.json()


def test_a_vertex_has_its_subtasks_with_rows_and_times(served: Served) -> None:
    vertex = get(served, VERTEX)
    assert (vertex["id"], vertex["parallelism"], len(vertex["subtasks"])) == ("s0", 2, 2)
    subtask = get(served, VERTEX + "/subtasks/1")
    assert subtask == vertex["subtasks"][1] == get(served, VERTEX + "/subtasks/1/attempts/1")
    assert (subtask["host"], subtask["taskmanager-id"], subtask["attempt"]) == ("there", "tm-1-0-ab", 1)
    metrics = subtask["metrics"]
    assert (metrics["read-records"], metrics["write-records"], metrics["accumulated-busy-time"]) == (50, 20, 7000.0)
    assert served.client.get(VERTEX + "/subtasks/2").status_code == 404
    assert served.client.get(VERTEX + "/subtasks/1/attempts/0").status_code == 404


def test_back_pressure_has_flinks_levels(served: Served) -> None:
    found = get(served, VERTEX + "/backpressure")
    assert (found["status"], found["backpressure-level"]) == ("ok", "low")
    ratios = [(one["subtask"], one["ratio"], one["busyRatio"], one["idleRatio"]) for one in found["subtasks"]]
    assert ratios == [(0, 0.0, 0.0, 1.0), (1, 0.2, 0.7, 0.1)]


def test_watermarks_times_and_taskmanagers_of_a_vertex(served: Served) -> None:
    assert get(served, VERTEX + "/watermarks") == [{"id": "1.currentInputWatermark", "value": "1000"}]
    assert [one["host"] for one in get(served, VERTEX + "/subtasktimes")["subtasks"]] == ["there", "there"]
    (owner,) = get(served, VERTEX + "/taskmanagers")["taskmanagers"]
    assert (owner["taskmanager-id"], owner["metrics"]["read-records"]) == ("tm-1-0-ab", 50)


def test_accumulators_are_empty_and_list_the_subtasks(served: Served) -> None:
    assert get(served, VERTEX + "/accumulators") == {"id": "s0", "user-accumulators": []}
    found = get(served, VERTEX + "/subtasks/accumulators")
    assert [one["subtask"] for one in found["subtasks"]] == [0, 1]
    assert get(served, VERTEX + "/subtasks/1/attempts/1/accumulators")["user-accumulators"] == []
    assert get(served, JOB + "/accumulators?includeSerializedValue=true")["job-accumulators"] == []


def test_subtasks_have_flinks_metrics(served: Served) -> None:
    names = "busyTimeMsPerSecond,backPressuredTimeMsPerSecond,idleTimeMsPerSecond,numRecordsIn,checkpointAlignmentTime"
    found = get(served, f"{VERTEX}/subtasks/1/metrics?get={names}")
    assert [one["value"] for one in found] == ["700", "200", "100", "50", "34000000"]
    merged = get(served, f"{VERTEX}/subtasks/metrics?get=numRecordsIn&agg=sum,max")
    assert merged == [{"id": "numRecordsIn", "max": 50, "sum": 50}]


def test_t6_the_job_has_flinks_checkpoint_metrics(served: Served) -> None:
    expected = {
        "lastCheckpointDuration": "250",
        "lastCheckpointSize": "70",
        "lastCheckpointFullSize": "700",
        "lastCheckpointMetadataSize": "90",
        "lastCompletedCheckpointId": "3",
        "lastCheckpointCompletedTimestamp": "1250",
        "lastCheckpointExternalPath": f"/checkpoints/{A_ID}/chk-3",
        "numberOfCompletedCheckpoints": "1",
        "numberOfFailedCheckpoints": "0",
        "numberOfInProgressCheckpoints": "0",
        "totalNumberOfCheckpoints": "1",
        "watermarkLag": "3000",
        "lastEpochReading": "200",
    }
    found = get(served, f"{JOB}/metrics?get={','.join(expected)}")
    assert {one["id"]: one["value"] for one in found} == expected
    assert {"id": "numRestarts"} in get(served, JOB + "/metrics")
    assert get(served, "/jobs/metrics?get=numRestarts&agg=max") == [{"id": "numRestarts", "max": 1}]


def test_metrics_in_prometheus_text_are_read_by_its_own_parser(served: Served) -> None:
    served.job.readings = [
        (PLACE, MetricReading("op", "seen.by kind", "counter", {"count": 3})),
        (PLACE, MetricReading("op", "mood", "gauge", {"value": "fine"})),
        (PLACE, MetricReading("op", "load", "gauge", {"value": float("nan")})),
    ]
    served.job.current = a_record(Path(served.job.current.log_dir), name='a "job"\n\\')
    response = served.client.get("/metrics", headers=READ)
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(response.text)}

    def value(name: str, **labels: str) -> float:
        family = families[name]
        (sample,) = [one for one in family.samples if labels.items() <= one.labels.items()]
        assert sample.labels["job_id"] == A_ID and sample.labels["job_name"] == 'a "job"\n\\'
        return float(sample.value)

    assert value("penstock_job_last_checkpoint_duration") == 250
    assert value("penstock_taskmanager_num_records_in", taskmanager="tm-1-0-ab") == 50
    assert value("penstock_subtask_busy_time_ms_per_second", subtask="1") == 700
    assert value("penstock_subtask_num_records_in", vertex="s0", subtask="1") == 50
    assert families["penstock_subtask_num_records_in"].type == "counter"
    assert families["penstock_subtask_num_records_in_per_second"].type == "gauge"
    assert value("penstock_function_seen_by_kind", operator="op") == 3
    assert value("penstock_state_bytes", operator="total", state="sum") == 999
    assert value("penstock_job_status", status="RUNNING") == 1
    assert value("penstock_job_last_epoch_functions") == 120
    assert "penstock_function_mood" not in families


def test_two_operators_of_one_name_have_metrics_of_their_own() -> None:
    names = {"a": "Map", "b": "Count it", "c": "Map", "d": "Map", "e": ""}
    text = resolve_type(Types.STRING())
    plans = [OperatorPlan(uid, name, "map", b"", text, text, (), False) for uid, name in names.items()]
    stage = replace(STAGE, operators=tuple(plans))
    assert operator_labels(stage) == {"a": "Map", "b": "Count it", "c": "Map 2", "d": "Map 3", "e": ""}
    assert operator_names(stage) == {"a": "Map", "b": "Count_it", "c": "Map_2", "d": "Map_3", "e": ""}


def test_the_cluster_is_the_job_with_its_taskmanagers(served: Served) -> None:
    found = get(served, "/overview")
    assert (found["taskmanagers"], found["slots-total"], found["jobs-running"]) == (1, 1, 1)
    assert get(served, "/config")["features"]["web-submit"] is False
    (manager,) = get(served, "/taskmanagers")["taskmanagers"]
    assert manager == get(served, "/taskmanagers/tm-1-0-ab")
    assert (manager["host"], manager["subtasks"]) == ("there", ["s0/0", "s0/1"])
    assert served.client.get("/taskmanagers/tm-9-9-ff").status_code == 404
    assert get(served, "/jobmanager/metrics?get=numRegisteredTaskManagers")[0]["value"] == "1"


def test_taskmanagers_have_metrics_of_their_own_and_merged_ones(served: Served) -> None:
    ours = ProcessRecord(os.getpid(), socket.gethostname(), "taskmanager", ["s0/0"], "tm-1-1-cd")
    processes = [*served.job.current.processes, ours]
    served.job.current = a_record(Path(served.job.current.log_dir), processes=processes, updated_ms=10**14)
    names = [metric["id"] for metric in get(served, "/taskmanagers/tm-1-0-ab/metrics")]
    rates = ["numRecordsInPerSecond", "numRecordsOut", "numRecordsOutPerSecond", "numRecordsWaiting"]
    assert names == ["numRecordsIn", *rates], "it is on another machine"
    own = get(served, "/taskmanagers/tm-1-1-cd/metrics?get=numRecordsIn,Status.Process.Memory.Resident,unknown")
    assert own[0] == {"id": "numRecordsIn", "value": "0"} and int(own[1]["value"]) > 0 and len(own) == 2
    merged = get(served, "/taskmanagers/metrics?get=numRecordsIn&agg=sum,max")
    assert merged == [{"id": "numRecordsIn", "max": 50, "sum": 50}]
    assert get(served, "/taskmanagers/metrics?get=numRecordsIn&taskmanagers=tm-1-1-cd")[0]["sum"] == 0
    assert {"id": "Status.Process.Threads.Count"} in get(served, "/taskmanagers/metrics")
    assert served.client.get("/taskmanagers/tm-9-9-ff/metrics").status_code == 404


def test_logs_are_read_by_name_and_nothing_else_is(served: Served) -> None:
    assert [log["name"] for log in get(served, "/jobmanager/logs")["logs"]] == ["driver.log"]
    assert served.client.get("/jobmanager/logs/driver.log").text == "started\n"
    assert [log["name"] for log in get(served, "/taskmanagers/tm-1-0-ab/logs")["logs"]] == ["taskmanager-1-0.log"]
    assert served.client.get("/taskmanagers/tm-1-0-ab/logs/taskmanager-1-0.log").text == "restored\n"
    for wrong in ("rest-token", "taskmanager-1-1.log"):
        assert served.client.get(f"/jobmanager/logs/{wrong}").status_code in (400, 404)
        assert served.client.get(f"/taskmanagers/tm-1-0-ab/logs/{wrong}").status_code in (400, 404)


def test_a_log_of_several_files_is_one(served: Served) -> None:
    log_dir = Path(served.job.current.log_dir)
    (log_dir / "driver.log.3").write_text("oldest\n", encoding="utf-8")
    (log_dir / "driver.log.4").write_text("older\n", encoding="utf-8")
    (log_dir / "spark.log").write_text("a line of the JVM\n", encoding="utf-8")
    found = get(served, "/jobmanager/logs")["logs"]
    assert [(log["name"], log["size"]) for log in found] == [("driver.log", 21), ("spark.log", 18)]
    assert served.client.get("/jobmanager/logs/driver.log").text == "oldest\nolder\nstarted\n"
    assert served.client.get("/jobmanager/logs/driver.log.3").status_code in (400, 404)


def test_plan_and_config_of_the_job(served: Served) -> None:
    assert get(served, JOB + "/plan")["plan"] == get(served, JOB)["plan"]
    assert get(served, JOB + "/config")["execution-config"]["job-parallelism"] == 1


def test_a_job_that_has_failed_has_a_result_with_the_cause(served: Served) -> None:
    assert get(served, JOB + "/execution-result") == {"status": {"id": "IN_PROGRESS"}}
    failures = [FailureRecord(1, 1, "ValueError", "boom")]
    served.job.current = job_record(status="FAILED", ended_ms=1, failure="boom", failures=failures)
    found = get(served, JOB + "/execution-result")
    assert found["status"]["id"] == "COMPLETED"
    assert found["job-execution-result"]["application-status"] == "FAILED"
    assert found["job-execution-result"]["failure-cause"] == {"class": "ValueError", "stack-trace": "boom"}
