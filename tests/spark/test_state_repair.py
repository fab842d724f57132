"""A bug in state is repaired with SQL, and the job goes on from there; made and changed savepoints start jobs."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.common import Types
from penstock.connectors.file.file_sink import FileSink
from penstock.datastream import JobClient, KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.jobmanager.job import Job
from penstock.model.functions import RuntimeContext
from penstock.state_processor import Savepoint, StateTypes
from penstock.storage.local import LocalStorage
from penstock.testing import Harness
from tests.checkpoint.snapshots import TOTALS, EveryKind, snapshot
from tests.spark.jobs import Jobs, read_json
from tests.waiting import LIMIT_S, wait_until

ORDERS = "customer string, amount double"
CUSTOMERS = [f"c{n}" for n in range(20)]


class RunningTotal(KeyedProcessFunction):
    """The sum of a customer's orders. With the bug, orders of some customers count twice."""

    def __init__(self, *, has_bug: bool) -> None:
        self.has_bug = has_bug

    def open(self, ctx: RuntimeContext) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.DOUBLE()))
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, order: Any, ctx: Any) -> Iterator[Any]:
        amount = order.amount * 2 if self.has_bug and is_affected(order.customer) else order.amount
        self.total.update((self.total.value() or 0.0) + amount)
        self.count.update((self.count.value() or 0) + 1)
        yield order.customer, self.total.value(), self.count.value()


def is_affected(customer: str) -> bool:
    return customer.endswith("3")


def orders(number: int) -> list[dict[str, Any]]:
    return [{"customer": name, "amount": float(number * 10 + n)} for n, name in enumerate(CUSTOMERS)]


def start(jobs: Jobs, out: Path, *, has_bug: bool, path: str | None = None) -> tuple[JobClient, Job]:
    settings = {"execution.checkpointing.interval": "1 s"}
    if path is not None:
        settings["execution.state-recovery.path"] = path
    environment = jobs.environment(2, settings)
    stream = environment.from_dataframe(jobs.json_stream(ORDERS)).uid("orders").key_by("customer")
    totals = stream.process(RunningTotal(has_bug=has_bug), output_type="customer string, total double, n bigint")
    totals.uid("running-total").sink_to(FileSink.for_row_format(str(out), "json").build()).uid("out")
    client = environment.execute_async("totals")
    job = client._handle
    assert isinstance(job, Job)
    return client, job


def test_s3_wrong_totals_are_corrected_with_sql_and_results_are_right_from_there(
    jobs: Jobs, spark: SparkSession, tmp_path: Path
) -> None:
    jobs.write_json("1.json", orders(1))
    _, job = start(jobs, tmp_path / "wrong", has_bug=True)
    wait_until(lambda: len(read_json(tmp_path / "wrong")) == len(CUSTOMERS))
    broken = job.trigger_savepoint(SavepointRequest(str(tmp_path / "savepoints"), then="stop")).future.result(LIMIT_S)
    job.wait(LIMIT_S)

    sp = Savepoint.load(spark, broken)
    sp.keyed_state("running-total", "total").createOrReplaceTempView("totals")
    spark.read.schema(ORDERS).json(str(tmp_path / "in")).createOrReplaceTempView("orders")
    fixed = spark.sql(
        "select t.key, coalesce(o.total, t.value) as value from totals t left join (select customer, sum(amount) as "
        "total from orders where customer like '%3' group by customer) o on o.customer = t.key"
    )
    repaired = sp.with_keyed_state("running-total", "total", fixed).write(str(tmp_path / "savepoints"))

    jobs.write_json("2.json", orders(2))
    _, again = start(jobs, tmp_path / "right", has_bug=False, path=repaired)
    wait_until(lambda: len(read_json(tmp_path / "right")) == len(CUSTOMERS))
    again.cancel()
    wanted: Counter[str] = Counter()
    for number in (1, 2):
        wanted.update({order["customer"]: order["amount"] for order in orders(number)})
    found = read_json(tmp_path / "right")
    assert {row["customer"]: row["total"] for row in found} == dict(wanted)
    assert {row["n"] for row in found} == {2}  # the other state, and the position of the source, are as they were
    wrong = {
        row["customer"] for row in read_json(tmp_path / "wrong") if row["total"] != 10.0 + int(row["customer"][1:])
    }
    assert wrong == {"c3", "c13"}


def test_s2_a_job_on_spark_starts_from_a_table_and_reads_its_source_from_the_beginning(
    jobs: Jobs, spark: SparkSession, tmp_path: Path
) -> None:
    sp = Savepoint.new(spark, 128, parallelism=3)
    path = sp.with_keyed_state("running-total", "total", totals_of(spark, dict.fromkeys(CUSTOMERS, 1000.0)))
    jobs.write_json("1.json", orders(1))
    _, job = start(jobs, tmp_path / "out", has_bug=False, path=path.write(str(tmp_path / "savepoints")))
    wait_until(lambda: len(read_json(tmp_path / "out")) == len(CUSTOMERS))
    job.cancel()
    found = {row["customer"]: (row["total"], row["n"]) for row in read_json(tmp_path / "out")}
    assert found == {order["customer"]: (1000.0 + order["amount"], 1) for order in orders(1)}


def totals_of(spark: SparkSession, values: dict[str, float]) -> DataFrame:
    return spark.createDataFrame(list(values.items()), "key string, value double")


def started(path: str, folder: Path, parallelism: int = 2, max_parallelism: int = 16) -> Harness:
    """A job that starts from a savepoint."""
    return Harness.keyed(
        EveryKind(),
        key=lambda record: record[0],
        key_type=Types.STRING(),
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        storage=LocalStorage(folder / "restored"),
        start=StartOptions(path=path),
    )


def test_s2_a_job_starts_with_state_that_a_table_gives(spark: SparkSession, tmp_path: Path) -> None:
    timers = spark.createDataFrame([("k1", "event", 4_000)], "key string, domain string, timestamp long")
    rules = spark.createDataFrame([("limit", 3)], "map_key string, value bigint")
    handled = spark.createDataFrame([(1,), (2,)], "value bigint")
    counts = spark.createDataFrame([("k1", "odd", 5)], "key string, map_key string, value bigint")
    sp = (
        Savepoint.new(spark, 16)
        .with_keyed_state("function", "total", totals_of(spark, {"k1": 10.0, "k2": 20.0}))
        .with_keyed_state("function", "counts", counts, "map")
        .with_keyed_state("function", "untyped", totals_of(spark, {"k1": 1.5}), types=StateTypes(value="untyped"))
        .with_timers("function", timers)
        .with_broadcast_state("function", "rules", rules)
        .with_operator_state("function", "handled", handled)
    )
    made = started(sp.write(str(tmp_path)), tmp_path)
    assert made.state("counts", "k1") == {"odd": 5} and made.state("untyped", "k1") == 1.5
    assert sorted(sum(made.operator_state("handled"), [])) == [1, 2]
    assert made.operator_state("rules", broadcast=True) == [{"limit": 3}] * 2
    made.feed([("k1", 7), ("k2", 1), ("k3", 5)])
    assert Counter(made.output) == Counter([("k1", 17.0), ("k2", 21.0), ("k3", 5.0)])


def test_s3_a_renamed_operator_and_a_dropped_one_are_restored_so(spark: SparkSession, tmp_path: Path) -> None:
    base = snapshot(tmp_path / "job", "native", "rocksdb", Types.STRING())
    sp = Savepoint.load(spark, base).rename_operator("function", "other")
    extra = totals_of(spark, {"x": 1.0})
    path = sp.with_keyed_state("gone", "total", extra).remove_operator("gone").rename_operator("other", "function")
    made = started(path.write(str(tmp_path)), tmp_path)
    assert {key: made.state("total", key) for key in TOTALS} == TOTALS
    assert made.state("recent", "k7") == 157 and made.state("trail", "k7") == [7, 57, 107, 157]


def test_s6_a_savepoint_of_128_key_groups_is_restored_at_parallelism_200(spark: SparkSession, tmp_path: Path) -> None:
    values = {f"k{n}": float(n) for n in range(1000)}
    small = Savepoint.new(spark, 128).with_keyed_state("function", "total", totals_of(spark, values))
    path = Savepoint.load(spark, small.write(str(tmp_path))).with_max_parallelism(256).write(str(tmp_path))
    assert Savepoint.load(spark, path).keyed_state("function", "total").agg(F.max("key_group")).first()[0] > 127
    made = started(path, tmp_path, 200, 256)
    assert {key: made.state("total", key) for key in values} == values
