"""One Spark session for all tests of this folder, and environments on it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest
from pyspark.sql import SparkSession

from penstock.jobmanager import job_recorder
from penstock.spark.session import make_session
from tests.spark import recoveries
from tests.spark.jobs import Jobs
from tests.warm_python import warm_python

RECORD_INTERVAL_S = 0.1
"""Tests look at the record to see how far a job is."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="module", autouse=True)
def functions_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Functions travel as those of a program do; else each TaskManager would import pytest and PySpark to get them."""
    modules = [request.module, recoveries]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture(scope="session", autouse=True)
def frequent_records() -> Iterator[None]:
    """A job writes its record more often than once a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_recorder, "RECORD_INTERVAL_S", RECORD_INTERVAL_S)
        yield


@pytest.fixture(scope="session")
def quick_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """TaskManagers and Spark's Python processes are forked, not started; the tier `process` starts them."""
    with warm_python(tmp_path_factory.mktemp("python")) as executable, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", executable)
        patch.setenv("PYSPARK_PYTHON", executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", executable)
        yield


@pytest.fixture(scope="session")
def spark(quick_python: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, tasks are tried four times; Spark's own log goes to a folder of the tests."""
    folder = tmp_path_factory.mktemp("spark")
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder)
    session = make_session(
        {
            "spark.master": "local[2,4]",
            "spark.local.dir": str(folder),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
    )
    yield session
    session.stop()
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before


@pytest.fixture
def jobs(spark: SparkSession, tmp_path: Path) -> Jobs:
    """Environments whose registry and checkpoints are in the test's own folder."""
    return Jobs(spark, tmp_path)
