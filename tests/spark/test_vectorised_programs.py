"""Operators on columns on Spark: columns come from the JVM, with its timestamps."""

from collections import Counter
from datetime import datetime, timedelta, timezone

from penstock.common import Time
from penstock.datastream import agg
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.model.execution import RuntimeExecutionMode
from tests.spark.jobs import Jobs, collect

ORDERS = [("ada", 2.0), ("bob", 5.5), ("ada", 3.0), ("eve", None), ("ada", -1.0)]


def test_windows_of_a_dataframe_in_batch_mode(jobs: Jobs) -> None:
    environment = jobs.environment()
    environment.set_runtime_mode(RuntimeExecutionMode.BATCH)
    at = [datetime(2024, 5, 1, 12, 0, second, tzinfo=timezone.utc) for second in (0, 1, 59, 30, 59)]
    rows = [(*order, time) for order, time in zip(ORDERS, at, strict=True)]
    frame = environment.spark.createDataFrame(rows, "customer string, amount double, at timestamp")
    orders = environment.from_dataframe(frame, event_time="at").key_by("customer")
    minutes = orders.window(TumblingEventTimeWindows.of(Time.seconds(30))).agg(total=agg.sum("amount"))
    noon = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
    half, one = noon + timedelta(seconds=30), noon + timedelta(minutes=1)
    assert collect(minutes.map(tuple)) == Counter(
        [("ada", noon, half, 2.0), ("ada", half, one, 2.0), ("bob", noon, half, 5.5), ("eve", half, one, None)]
    )
