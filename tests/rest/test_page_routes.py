"""What the page asks for beside Flink's paths: the graph, logs, manifests and restore checks."""

from pathlib import Path

import pytest

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from tests.rest.fake_job import JOB, READ, Served

DETAILS = JOB + "/checkpoints/details"


@pytest.fixture
def served(tmp_path: Path) -> Served:
    served = Served(tmp_path)
    served.job.history = [
        CheckpointStats(3, "completed", 1000, 1400, 400),
        CheckpointStats(4, "failed", 2000, 2100, 100, failure="Checkpoint expired before completing."),
    ]
    return served


def test_the_graph_has_stages_with_their_operators(served: Served) -> None:
    graph = served.client.get(JOB + "/graph", headers=READ).json()
    assert [(box["id"], box["kind"], box["name"]) for box in graph["boxes"]] == [("s0", "stage", "Source -> Total")]
    assert graph["edges"] == [] and graph["max-parallelism"] == 128


def test_logs_are_the_last_lines_of_all_files_that_are_serious_enough(served: Served, tmp_path: Path) -> None:
    for number in range(5):
        served.control.log.write("job", f"line {number}", level="WARN" if number % 2 else "INFO")
    found = served.client.get(f"{JOB}/logs?level=WARN&last=1", headers=READ).json()["lines"]
    assert [(line["file"], line["level"], line["text"][-6:]) for line in found] == [("driver.log", "WARN", "line 3")]
    assert served.client.get(f"{JOB}/logs?level=LOUD").status_code == 400


def test_of_a_long_log_only_the_end_is_read(served: Served) -> None:
    (served.log.parent / "driver.log").write_text(f"{'x' * 2_000_000}\n2026-01-01T00:00:00.000Z INFO  last\n", "utf-8")
    (line,) = served.client.get(f"{JOB}/logs").json()["lines"]
    assert line["text"].endswith("last")


def test_a_restore_check_names_the_snapshot_and_needs_the_admin_token(served: Served) -> None:
    checked = served.client.post(f"{DETAILS}/3/restore-check")
    assert checked.status_code == 200 and checked.json()["uid"].endswith("/chk-3")
    assert served.client.post(f"{DETAILS}/3/restore-check", headers=READ).status_code == 403


@pytest.mark.parametrize("number", [3, 4, 9])
def test_a_manifest_that_is_not_there_is_404(served: Served, number: int) -> None:
    answer = served.client.get(f"{DETAILS}/{number}/manifest", headers=READ)
    assert answer.status_code == 404, answer.text


def test_the_figures_have_the_rates_of_the_last_minutes(served: Served) -> None:
    found = served.client.get(JOB + "/figures", headers=READ).json()
    assert found["rates"] == [[1000, 5.0]] and found["ended"] is False
    assert found["checkpoints"] == {"completed": 1, "failed": 1, "in-progress": 0, "savepoints": 0, "newest": 4}
