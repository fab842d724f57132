"""The changes of the parallelism, at REST and on the page: by whom, why, and what became of them (features E9)."""

from pathlib import Path
from typing import Any

import pytest

from penstock.control.registry import RescaleRecord
from tests.records import job_record
from tests.rest.fake_job import JOB, FakeJob, Served
from tests.rest.node import needs_node
from tests.rest.shown_page import shown

DONE = RescaleRecord(2, 3, 7, 1530, 1000, "autoscaler: busy 95%, wanted 70%")
GIVEN_UP = RescaleRecord(3, 4, 0, 0, 2000, "requested", "its first attempt at parallelism 4 has failed: no memory")
BOUNDS = {"penstock.autoscale": "true", "penstock.autoscale.max-parallelism": "8"}


def rescaling(folder: Path, *rescales: RescaleRecord, **settings: str) -> Any:
    """What REST says of a job with these rescales and settings."""
    job = FakeJob()
    job.configuration = settings
    job.current = job_record(parallelism=3, rescales=list(rescales))
    return Served(folder, job).client.get(JOB + "/rescaling").json()


def test_e9_rest_lists_all_changes_with_their_reasons_and_the_bounds_of_the_autoscaler(tmp_path: Path) -> None:
    found = rescaling(tmp_path, DONE, GIVEN_UP, **BOUNDS)
    assert (found["parallelism"], found["autoscaler"]) == (3, {"min-parallelism": 1, "max-parallelism": 8})
    assert [(one["from"], one["to"], one["reason"]) for one in found["rescales"]] == [
        (2, 3, DONE.why),
        (3, 4, "requested"),
    ]
    assert [one["failure-cause"] for one in found["rescales"]] == [None, GIVEN_UP.failure]


@pytest.mark.parametrize("settings", [{}, {"penstock.autoscale": "false"}])
def test_e9_an_autoscaler_that_is_off_has_no_bounds(tmp_path: Path, settings: dict[str, str]) -> None:
    assert rescaling(tmp_path, **settings)["autoscaler"] is None


def test_e9_an_autoscaler_without_an_upper_bound_ends_at_sparks_cores(tmp_path: Path) -> None:
    found = rescaling(tmp_path, **{"penstock.autoscale": "true"})["autoscaler"]
    assert found == {"min-parallelism": 1, "max-parallelism": None}


def test_e9_a_change_of_the_parallelism_is_an_event_for_the_page(tmp_path: Path) -> None:
    served = Served(tmp_path)
    assert served.client.get(JOB + "/figures").json()["last-rescale-at"] is None
    served.job.current = job_record(rescales=[DONE, GIVEN_UP])
    assert served.client.get(JOB + "/figures").json()["last-rescale-at"] == 2000


@needs_node
def test_e9_the_page_lists_them_with_the_newest_first(tmp_path: Path) -> None:
    found = shown(tmp_path, "rescales(given)", rescaling(tmp_path, DONE, GIVEN_UP, **BOUNDS))
    assert "now 3; the autoscaler keeps it between 1 and 8" in found["text"]
    assert found["tables"]["Changes of the parallelism, newest first"] == [
        {
            "Time": "1970-01-01 00:00:02.000",
            "Change": "3 → 4",
            "By": "request",
            "Reason": "–",
            "Outcome": f"given up {GIVEN_UP.failure}",
        },
        {
            "Time": "1970-01-01 00:00:01.000",
            "Change": "2 → 3",
            "By": "autoscaler",
            "Reason": "busy 95%, wanted 70%",
            "Outcome": "paused for 1.5 s, at checkpoint 7",
        },
    ]


@needs_node
def test_e9_there_is_nothing_to_list_for_a_job_that_keeps_its_parallelism(tmp_path: Path) -> None:
    assert shown(tmp_path, "rescales(given)", rescaling(tmp_path))["text"] == ""
    scales = shown(tmp_path, "rescales(given)", rescaling(tmp_path, **{"penstock.autoscale": "true"}))
    assert "The autoscaler has changed nothing yet." in scales["text"] and "Spark’s cores" in scales["text"]
