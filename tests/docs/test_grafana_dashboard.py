"""The Grafana dashboard queries only metrics that `/metrics` has."""

import json
import re
from pathlib import Path

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.control.registry import Registry
from penstock.model.recent_epoch import EpochPhases, RecentEpoch
from penstock.model.snapshot import StateSize
from penstock.model.subtask_work import PassedRows, SubtaskFigures
from penstock.rest.prometheus_text import prometheus_text
from tests.docs.pages import DOCS
from tests.records import A_ID, job_record
from tests.rest.fake_job import STAGE, Served

PAGE = DOCS / "how-to" / "monitor-a-job.md"
DASHBOARD = DOCS / "how-to" / "grafana-dashboard.json"
_METRIC = re.compile(r"\bpenstock_(?:job|subtask|operator|state)_\w+")


def known_metrics(folder: Path) -> set[str]:
    """The names of a job that has everything."""
    served = Served(folder)
    figures = SubtaskFigures(STAGE.id, 0, watermark=1, operators=[PassedRows(1, 1)])
    epoch = RecentEpoch(1, 0, 1, 1, 1, 1, EpochPhases())
    log_dir = str(folder / A_ID)
    served.job.current = job_record(log_dir=log_dir, watermark=1, subtasks=[figures], last_epoch=epoch)
    served.job.history = (CheckpointStats(3, "completed", 0, 1, 1),)
    Registry(folder).write_sizes(A_ID, [StateSize("total", "sum", 1, 1, True, True)])
    operators = {"penstock_operator_num_records_in", "penstock_operator_num_records_out"}  # the fake job has none
    return set(_METRIC.findall(prometheus_text(served.control))) | operators


def test_every_metric_of_the_dashboard_and_of_the_alerts_exists(tmp_path: Path) -> None:
    text = DASHBOARD.read_text(encoding="utf-8")
    panels = json.loads(text)["panels"]
    assert len({panel["title"] for panel in panels}) == len(panels) >= 10
    known = known_metrics(tmp_path)
    for place in (text, PAGE.read_text(encoding="utf-8")):
        assert not set(_METRIC.findall(place)) - known
