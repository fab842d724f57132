"""State as data on a real HDFS: read and written by Spark, restored from there (features S1, S4)."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.model.ids import new_nonce
from penstock.services import RunningService
from penstock.state_processor import Savepoint
from penstock.storage import open_storage
from penstock.testing import CHECKPOINT, CRASH, Harness
from tests.storage.test_jobs_on_storages import Last, records

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def job(address: str, start: str | None = None) -> Harness:
    options = StartOptions(start)
    return Harness.keyed(Last(), key=lambda record: record[0], storage=open_storage(address), start=options)


def test_s4_state_on_hdfs_is_read_changed_written_and_restored(spark: SparkSession, hdfs: RunningService) -> None:
    folder = f"{hdfs.address}/state-{new_nonce()}"
    path = job(f"{folder}/old").feed([*records(5, 2000), CHECKPOINT, CRASH]).savepoint(f"{folder}/savepoints")
    savepoint = Savepoint.load(spark, path, verify=True)
    counts = savepoint.keyed_state("function", "count")
    assert counts.count() == 5
    raised = counts.withColumn("value", F.col("value") + 10)
    changed = savepoint.with_keyed_state("function", "count", raised).write(f"{folder}/changed")
    assert changed.startswith(f"{folder}/changed")
    new = job(f"{folder}/new", changed).feed([*records(1, 10), CHECKPOINT, CRASH])
    assert new.state("count", "key 0") == 12 and new.state("count", "key 4") == 11
