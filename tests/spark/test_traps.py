"""Facts about Spark on which the epochs rest: what would go wrong if one of them changed has its test here."""

import random
import re
import string
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.datastream import KeyedProcessFunction
from penstock.datastream.program_settings import effective_configuration
from penstock.graph.job_graph import JobGraph
from penstock.model.ids import StageId, SubtaskId, Version
from penstock.model.key_groups import key_group_of, spark_hash, subtask_of
from penstock.model.types import TypeInformation, Types, resolve_type
from penstock.runtime.process.messages import EpochHeader
from penstock.spark.epoch_planner import EpochPlanner, EpochRequest, edge_layout
from penstock.spark.pipe import SUBTASK, OwnerAddress
from penstock.spark.session import query_settings
from tests.spark.jobs import Jobs

pytestmark = pytest.mark.smoke


def one_row_per_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The number of the task and the ids that it got; called even for a task without rows."""
    from pyspark import TaskContext

    ids = [value for batch in batches for value in batch.column("id").to_pylist()]
    context = TaskContext.get()
    assert context is not None
    yield pa.RecordBatch.from_pydict({"task": pa.array([context.partitionId()], pa.int32()), "ids": [ids]})


def tasks(frame: DataFrame) -> dict[int, list[int]]:
    rows = frame.mapInArrow(one_row_per_task, "task int, ids array<bigint>").collect()
    return {row.task: row.ids for row in rows}


@pytest.fixture
def epoch_session(spark: SparkSession) -> SparkSession:
    """A session with the settings under which epochs run."""
    session = spark.newSession()
    for key, value in query_settings(10_000).items():
        session.conf.set(key, value)
    return session


def test_an_empty_epoch_still_runs_every_subtask_because_aqe_is_off(epoch_session: SparkSession) -> None:
    empty = epoch_session.range(10).where("id < 0").withColumn("subtask", (F.col("id") % 3).cast("int"))
    assert tasks(empty.repartitionById(3, "subtask")) == {0: [], 1: [], 2: []}
    behind_a_projection = empty.repartitionById(3, "subtask").drop("subtask")
    assert tasks(behind_a_projection) == {0: [], 1: [], 2: []}
    epoch_session.conf.set("spark.sql.adaptive.enabled", "true")
    assert tasks(behind_a_projection) == {}, "Spark no longer drops the tasks of an empty exchange: AQE could stay on"


def test_repartition_by_id_sends_nulls_to_0_and_wraps_negative_numbers(epoch_session: SparkSession) -> None:
    rows = [(10, 0), (11, 1), (12, 2), (13, 3), (14, -1), (15, None)]
    frame = epoch_session.createDataFrame(rows, "id bigint, subtask int")
    assert {task: sorted(ids) for task, ids in tasks(frame.repartitionById(3, "subtask")).items()} == {
        0: [10, 13, 15],
        1: [11],
        2: [12, 14],
    }


def test_behind_a_union_the_number_of_a_task_is_not_that_of_its_subtask(epoch_session: SparkSession) -> None:
    """So a pipe takes the subtask from its rows."""
    frame = epoch_session.range(6).withColumn("subtask", (F.col("id") % 3).cast("int"))
    parts = [frame.repartitionById(count, "subtask") for count in (2, 3)]
    kind = "task int, ids array<bigint>"
    united = parts[0].mapInArrow(one_row_per_task, kind).union(parts[1].mapInArrow(one_row_per_task, kind))
    assert sorted(row.task for row in united.collect()) == [0, 1, 2, 3, 4]


class Same(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value


def two_exchanges(jobs: Jobs) -> JobGraph:
    """Two sources, a stage that is read by two others, two terminal stages."""
    env = jobs.environment(3)
    left = env.from_dataframe(jobs.json_stream("a string, b bigint"))
    right = env.from_dataframe(jobs.json_stream("b bigint, a string").select("a", "b"))
    first = left.union(right).key_by("a").process(Same(), output_type="a string, b bigint").uid("first")
    first.key_by("b").process(Same(), output_type="a string, b bigint").uid("second").print()
    first.key_by(lambda r: r.b % 7).process(Same()).uid("third").print()
    return env._build(effective_configuration(env._configuration))


def request_of(graph: JobGraph) -> EpochRequest:
    subtasks = [SubtaskId(StageId(s.id), index) for s in graph.stages for index in range(s.parallelism)]
    return EpochRequest(
        EpochHeader("0" * 32, 1, 1, 0),
        "token",
        dict.fromkeys(subtasks, Version(1, 0, "nonce")),
        dict.fromkeys(subtasks, OwnerAddress("127.0.0.1", "/nowhere", 1)),
    )


@pytest.mark.parametrize("has_rows", [True, False])
def test_nothing_stands_between_the_exchange_and_the_pipe(
    jobs: Jobs, epoch_session: SparkSession, has_rows: bool
) -> None:
    graph = two_exchanges(jobs)
    rows = None
    if has_rows:
        rows = epoch_session.createDataFrame(
            [], "__source int, s0 struct<a:string,b:bigint>, s1 struct<a:string,b:bigint>"
        )
    plan = EpochPlanner(graph).plan(epoch_session, rows, request_of(graph))
    lines = plan._jdf.queryExecution().executedPlan().toString().splitlines()
    pipes = [number for number, line in enumerate(lines) if "MapInArrow" in line]
    assert len(pipes) == 4  # the first stage stands in it once for each of its readers
    for number in pipes:
        assert re.search(r"Exchange shufflepartitionidpassthrough\(.*REPARTITION_BY_NUM", lines[number + 1]), lines
    assert "AdaptiveSparkPlan" not in "\n".join(lines)


CHANCE = random.Random(20260101)
START = datetime(1970, 1, 1, tzinfo=timezone.utc)
WIDE = Context(prec=60)


def some_text() -> str:
    alphabet = string.ascii_letters + "äß日😀\x00"
    return "".join(CHANCE.choice(alphabet) for _ in range(CHANCE.randrange(40)))


def some_float() -> float:
    return CHANCE.choice([0.0, -0.0, float("inf"), CHANCE.gauss(0, 1), CHANCE.gauss(0, 1e300), 5e-324])


RANDOM_KEYS: list[tuple[str, TypeInformation, Any]] = [
    ("boolean", Types.BOOLEAN(), lambda: CHANCE.random() < 0.5),
    ("tinyint", Types.BYTE(), lambda: CHANCE.randrange(-(2**7), 2**7)),
    ("smallint", Types.SHORT(), lambda: CHANCE.randrange(-(2**15), 2**15)),
    ("int", Types.INT(), lambda: CHANCE.randrange(-(2**31), 2**31)),
    ("bigint", Types.LONG(), lambda: CHANCE.randrange(-(2**63), 2**63)),
    ("double", Types.DOUBLE(), some_float),
    ("string", Types.STRING(), some_text),
    ("binary", Types.PRIMITIVE_ARRAY(Types.BYTE()), lambda: CHANCE.randbytes(CHANCE.randrange(30))),
    ("date", Types.SQL_DATE(), lambda: date(1, 1, 1) + timedelta(days=CHANCE.randrange(3_000_000))),
    ("timestamp", Types.SQL_TIMESTAMP(), lambda: START + timedelta(microseconds=CHANCE.randrange(-(2**50), 2**55))),
]


def test_spark_s_hash_equals_ours_on_random_keys(epoch_session: SparkSession) -> None:
    columns = [f"c{n}" for n in range(len(RANDOM_KEYS))]
    ddl = ", ".join(f"{name} {kind}" for name, (kind, _, _) in zip(columns, RANDOM_KEYS, strict=True))
    rows = [[make() for _, _, make in RANDOM_KEYS] for _ in range(300)]
    types = [type_info for _, type_info, _ in RANDOM_KEYS]
    single = [F.hash(name).alias(f"h{n}") for n, name in enumerate(columns)]
    hashed = epoch_session.createDataFrame(rows, ddl).select(*single, F.hash(*columns).alias("all")).collect()
    for row, found in zip(rows, hashed, strict=True):
        for n, (value, type_info) in enumerate(zip(row, types, strict=True)):
            assert found[f"h{n}"] == spark_hash([value], [type_info]), (value, type_info)
        assert found["all"] == spark_hash(row, types)


def test_decimals_of_any_width_hash_as_in_spark(epoch_session: SparkSession) -> None:
    for precision, scale in [(5, 2), (18, 9), (19, 0), (38, 10)]:
        numbers = [CHANCE.randrange(-(10**precision) + 1, 10**precision) for _ in range(50)]
        values = [Decimal(number).scaleb(-scale, WIDE) for number in numbers]
        kind = f"decimal({precision},{scale})"
        frame = epoch_session.createDataFrame([(value,) for value in values], f"d {kind}")
        found = [row[0] for row in frame.select(F.hash("d")).collect()]
        assert found == [spark_hash([value], [resolve_type(kind)]) for value in values]


@pytest.mark.parametrize(("parallelism", "max_parallelism"), [(3, 128), (7, 32768), (5, 999), (1, 1)])
def test_key_groups_and_subtasks_computed_in_the_jvm_equal_ours(
    jobs: Jobs, epoch_session: SparkSession, parallelism: int, max_parallelism: int
) -> None:
    env = jobs.environment(parallelism, {"pipeline.max-parallelism": str(max_parallelism)})
    stream = env.from_dataframe(jobs.json_stream("a string, b bigint"))
    stream.key_by("a", "b").process(Same(), output_type="a string, b bigint").uid("keyed").print()
    (stage,) = env._build(effective_configuration(env._configuration)).stages
    (placement,) = [sql for sql in edge_layout(stage, 0) if sql.endswith(SUBTASK)]
    rows = [(some_text(), CHANCE.randrange(-(2**63), 2**63)) for _ in range(500)]
    found = [
        row[0] for row in epoch_session.createDataFrame(rows, "a string, b bigint").selectExpr(placement).collect()
    ]
    hashes = [spark_hash(row, (Types.STRING(), Types.LONG())) for row in rows]
    assert found == [subtask_of(key_group_of(h, max_parallelism), max_parallelism, parallelism) for h in hashes]
