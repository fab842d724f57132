"""The pages of the documentation that use a Spark session, as they are."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.state_processor import Savepoint
from tests.docs.pages import ROOT, blocks_of
from tests.docs.test_examples import run_page

WRONG = [("ada", -1.0), ("bob", 5.5)]
ORDERS = [("ada", 2.0), ("ada", 3.0), ("bob", 5.5)]
NAME = "savepoint-4f1c2a-0b1c2d3e4f50"


PAGES = [
    "docs/connectors/files.md",
    "docs/connectors/iterators.md",
    "docs/connectors/postgres.md",
    "docs/connectors/sockets.md",
    "docs/how-to/repair-state.md",
    "docs/how-to/run-a-batch-job.md",
    "docs/reference/state-processor.md",
    "docs/coming-from-spark.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_its_program_prints(
    page: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    totals = spark.createDataFrame(WRONG, "key string, value double")
    path = (
        Savepoint.new(spark, parallelism=1)
        .with_keyed_state("running-total", "total", totals)
        .write(str(tmp_path / "savepoints"))
    )
    Path(path).rename(tmp_path / "savepoints" / NAME)
    spark.createDataFrame(ORDERS, "customer string, amount double").createOrReplaceTempView("orders")
    try:
        run_page(blocks_of(ROOT / page), {"__name__": "example"})
    finally:
        for view in ("orders", "totals"):
            spark.catalog.dropTempView(view)
