"""Flink's labels on the page of checkpoints (features T1 to T5): each shows the figure that REST gives.

The page's own functions get what the endpoints answer, and what they would show is read, where Node.js can run them.
"""

from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats, SubtaskStats
from penstock.checkpoint.stats.checkpoint_report import RestoreStats
from penstock.model.execution import ExternalizedCheckpointRetention
from penstock.model.ids import StageId, SubtaskId
from penstock.model.snapshot import BarrierFigures
from tests.records import A_ID
from tests.rest.fake_job import JOB, FakeJob, Served
from tests.rest.node import needs_node
from tests.rest.shown_page import shown

pytestmark = needs_node
PARTS = tuple(
    SubtaskStats(
        SubtaskId(StageId("s0"), index),
        BarrierFigures(start_delay_ms=1 + index, alignment_ms=11 + index, processed_bytes=21, persisted_bytes=31),
        41 + index,
        51 + index,
        61 + index,
        71 + index,
    )
    for index in (0, 1)
)
ONE = "checkpointPage({ data: given, names: ['Total'], base: '' })"
FAILURE = "Checkpoint expired before completing."
RETENTION = ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION
HISTORY = (
    CheckpointStats(
        3,
        "completed",
        1000,
        1400,
        400,
        written_bytes=125,
        full_bytes=201,
        persisted_bytes=62,
        subtasks=2,
        acknowledged=2,
        parts=PARTS,
    ),
    CheckpointStats(4, "failed", 2000, 2100, 100, failure=FAILURE, subtasks=2),
    CheckpointStats(6, "in_progress", 4000, subtasks=2),
)
SAVEPOINT = CheckpointStats(
    5,
    "completed",
    3000,
    3200,
    200,
    "SAVEPOINT",
    written_bytes=302,
    full_bytes=303,
    savepoint="canonical",
    path="/sp/savepoint-a",
)


@pytest.fixture
def served(tmp_path: Path) -> Served:
    job = FakeJob(settings=CheckpointSettings(5_000, min_pause_ms=7_000, timeout_ms=90_000, retention=RETENTION))
    served = Served(tmp_path, job)
    job.history, job.savepoints = HISTORY, (SAVEPOINT,)
    job.tally.restore(RestoreStats(2, 900, is_savepoint=True, path="/sp/old"))
    return served


@pytest.fixture
def overview(served: Served, tmp_path: Path) -> Any:
    checkpoints, config = (served.client.get(f"{JOB}/checkpoints{path}").json() for path in ("", "/config"))
    return shown(tmp_path, "checkpointsPage(given)", {"checkpoints": checkpoints, "data": config})


def test_t1_the_overview_shows_counts_and_the_latest_checkpoints(overview: Any) -> None:
    cards = overview["cards"]
    assert cards[""] == {"Triggered": "3", "In Progress": "1", "Completed": "1", "Failed": "1", "Restored": "1"}
    assert cards["Latest Completed Checkpoint"] == {
        "ID": "3",
        "Completion Time": "1970-01-01 00:00:01.400",
        "End to End Duration": "400 ms",
        "Checkpointed Data Size": "125 B",
        "Full Checkpoint Data Size": "201 B",
    }
    assert cards["Latest Failed Checkpoint"] == {
        "ID": "4",
        "Failure Time": "1970-01-01 00:00:02.100",
        "Cause": FAILURE,
    }
    assert cards["Latest Savepoint"] == {
        "ID": "5",
        "Completion Time": "1970-01-01 00:00:03.200",
        "Checkpointed Data Size": "302 B",
        "Full Checkpoint Data Size": "303 B",
        "Savepoint Format": "CANONICAL",
        "Path": "/sp/savepoint-a",
    }
    assert cards["Latest Restore"] == {
        "ID": "2",
        "Restore Time": "1970-01-01 00:00:00.900",
        "Type": "Savepoint",
        "Path": "/sp/old",
    }


def test_t2_the_history_shows_the_last_checkpoints(overview: Any) -> None:
    rows = overview["tables"]["The last checkpoints, newest first"]
    assert [(row["ID"], row["Status"]) for row in rows] == [
        ("6", "IN PROGRESS"),
        ("5", "COMPLETED Savepoint"),
        ("4", "FAILED"),
        ("3", "COMPLETED"),
    ]
    assert rows[3] == {
        "ID": "3",
        "Status": "COMPLETED",
        "Acknowledged": "2/2 (100%)",
        "Trigger Time": "1970-01-01 00:00:01.000",
        "Latest Acknowledgement": "1970-01-01 00:00:01.108",
        "End to End Duration": "400 ms",
        "Checkpointed Data Size": "125 B",
        "Full Checkpoint Data Size": "201 B",
        "Processed (persisted) in-flight data": "42 B (62 B)",
    }


def test_t3_a_checkpoint_shows_its_figures_and_those_of_its_subtasks(served: Served, tmp_path: Path) -> None:
    details = f"{JOB}/checkpoints/details/3"
    detail, task = (served.client.get(path).json() for path in (details, f"{details}/subtasks/s0"))
    found = shown(tmp_path, ONE, {"detail": detail, "tasks": [task]})
    assert found["cards"]["Checkpoint 3"] == {
        "Status": "COMPLETED",
        "Trigger Time": "1970-01-01 00:00:01.000",
        "End to End Duration": "400 ms",
        "Acknowledged": "2/2 (100%)",
        "Latest Acknowledgement": "1970-01-01 00:00:01.108",
        "Checkpointed Data Size": "125 B",
        "Full Checkpoint Data Size": "201 B",
        "Processed (persisted) in-flight data": "42 B (62 B)",
        "Checkpoint Type": detail["checkpoint_type"],
        "Savepoint Format": "–",
        "Discarded": "yes" if detail["discarded"] else "no",
        "Failure Message": "–",
        "Path": f"/checkpoints/{A_ID}/chk-3",
        "Manifest": "Download",
    }
    *_, first, second = rows = found["tables"]["Subtasks of Total"]
    assert [row["ID"] for row in rows] == ["Minimum", "Average", "Maximum", "0", "1"]
    assert first["ID"] == "0" and second == {
        "ID": "1",
        "Acknowledged": "1970-01-01 00:00:01.108",
        "End to End Duration": "108 ms",
        "Checkpointed Data Size": "62 B",
        "Full Checkpoint Data Size": "72 B",
        "Sync Duration": "42 ms",
        "Async Duration": "52 ms",
        "Processed (persisted) Data": "21 B (31 B)",
        "Alignment Duration": "12 ms",
        "Start Delay": "2 ms",
        "Unaligned Checkpoint": "no",
    }
    assert (rows[0]["Start Delay"], rows[2]["Start Delay"]) == ("1 ms", "2 ms")


def test_t3_a_checkpoint_that_failed_says_why_and_what_to_do(served: Served, tmp_path: Path) -> None:
    detail = served.client.get(f"{JOB}/checkpoints/details/4").json()
    found = shown(tmp_path, ONE, {"detail": detail, "tasks": []})
    assert found["cards"]["Checkpoint 4"]["Failure Message"] == FAILURE
    assert "It took longer than the timeout." in found["text"]


def test_t4_the_summary_shows_the_spread_of_each_figure(overview: Any) -> None:
    rows = overview["tables"]["Summary of completed checkpoints"]
    spread = ("Minimum", "Average", "Maximum", "p50", "p90", "p95", "p99", "p99.9")
    values = {
        "End to End Duration": "400 ms",
        "Checkpointed Data Size": "125 B",
        "Full Checkpoint Data Size": "201 B",
        "Processed in-flight data": "42 B",
        "Persisted in-flight data": "62 B",
    }
    assert rows == [{"Figure": name, **dict.fromkeys(spread, value)} for name, value in values.items()]


def test_t5_the_configuration_shows_the_settings(overview: Any) -> None:
    assert overview["cards"]["Configuration"] == {
        "Checkpointing Mode": "Exactly Once",
        "Checkpoint Storage": "FileSystemCheckpointStorage",
        "State Backend": "HashMapStateBackend",
        "Interval": "5.0 s",
        "Timeout": "1 min 30 s",
        "Minimum Pause Between Checkpoints": "7.0 s",
        "Maximum Concurrent Checkpoints": "1",
        "Unaligned Checkpoints": "Disabled",
        "Aligned checkpoint timeout": "0 ms",
        "Persist Checkpoints Externally": "Enabled (delete on cancellation)",
        "Tolerable Failed Checkpoints": "0",
        "Checkpoints With Finished Tasks": "Enabled",
        "State Changelog": "Disabled",
        "Changelog Storage": "Not available: there is no state changelog",
        "Changelog Periodic Materialization Interval": "Not available: there is no state changelog",
    }
