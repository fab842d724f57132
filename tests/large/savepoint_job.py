"""A job on Spark with a million keys in three states, and how many rows it works on while a savepoint is written.

`python -m tests.large.savepoint_job KEYS FOLDER` prints one JSON document of figures.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.common import Configuration
from penstock.control.registry import Registry
from penstock.datastream import StreamExecutionEnvironment
from penstock.jobmanager.job import Job
from penstock.spark.session import make_session
from tests.large.savepoint_rows import ThreeStates
from tests.waiting import wait_until

PARALLELISM = 2
BATCH_ROWS = 100_000
BASELINE_ROWS = 1_000_000


def measure(keys: int, folder: Path) -> dict[str, Any]:
    """Fill, watch, take a savepoint and watch meanwhile."""
    settings = {
        "parallelism.default": str(PARALLELISM),
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "penstock.registry.dir": str(folder / "registry"),
    }
    spark = make_session({"spark.master": f"local[{PARALLELISM},4]", "spark.local.dir": str(folder / "spark")})
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings), spark=spark)
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH_ROWS).load()
    rows = numbers.selectExpr(f"value % {keys} as key", "concat('customer-', value) as name")
    stream = environment.from_dataframe(rows).key_by("key").process(ThreeStates(), output_type="key bigint")
    stream.uid("three").to_spark(lambda frame, epoch: None)
    client = environment.execute_async("three")
    job = client._handle
    assert isinstance(job, Job)
    registry = Registry(folder / "registry")

    def done() -> int:
        (record,) = registry.list()
        return record.rows

    wait_until(lambda: bool(registry.list()) and done() >= keys + 2 * BATCH_ROWS, timeout_s=600)
    before = rate(done, lambda start: done() >= start + BASELINE_ROWS)
    request = job.trigger_savepoint(SavepointRequest(str(folder / "savepoints")))
    started = time.monotonic()
    during = rate(done, lambda start: request.future.done())
    path = request.future.result(600)
    taken_s = time.monotonic() - started
    after = rate(done, lambda start: done() >= start + BASELINE_ROWS)
    client.cancel().result()
    spark.stop()
    figures = {"rows_per_s_before": before, "rows_per_s_while_written": during, "rows_per_s_after": after}
    return {"path": path, "keys": keys, "savepoint_s": taken_s, **figures}


def rate(done: Callable[[], int], is_over: Callable[[int], bool]) -> float:
    """Rows per second until something holds, to the end of the epoch in which it does."""
    first, started = done(), time.monotonic()
    wait_until(lambda: is_over(first), timeout_s=600)
    reached = done()
    wait_until(lambda: done() > reached, timeout_s=600)
    return (done() - first) / (time.monotonic() - started)


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), Path(sys.argv[2]))))
