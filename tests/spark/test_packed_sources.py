"""Packed file sources on a real Spark: the rows and the positions are those of Spark's own reader."""

import json
import math
import os
from collections.abc import Iterator
from datetime import date, datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.checkpoint.savepoint_request import SavepointRequest
from penstock.common import Configuration, Duration, Types, WatermarkStrategy
from penstock.connectors.file_source.file_parts import whole_file
from penstock.connectors.file_source.parquet_files import read_parquet
from penstock.connectors.read_path import packed_edge, plan_read_paths
from penstock.connectors.source_connectors import FileSource, StreamFormat
from penstock.datastream import JobClient, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import JobFailedError, PathNotFoundError, UnsupportedValueError
from penstock.graph.job_graph import JobGraph
from penstock.graph.stages import GraphSettings, build_job_graph
from penstock.jobmanager.job import Job
from penstock.runtime.packed_rows import PackedInput
from penstock.spark import offset_log
from penstock.spark.epoch_query import EpochQuery, QuerySettings
from penstock.spark.packed_files import PackedFormat
from penstock.spark.python_sources import HAS_READ_LIMITS
from penstock.spark.session import query_settings, session_setting
from penstock.spark.source_frames import EpochLimits, open_sources
from tests.spark.jobs import Jobs
from tests.spark.jobs import read_json as read_output
from tests.waiting import LIMIT_S, wait_until

pytestmark = pytest.mark.skipif(not HAS_READ_LIMITS, reason="PySpark 4.1 reads files row by row")

NO_WATERMARKS = WatermarkStrategy.no_watermarks()
MOMENT = datetime(1969, 12, 31, 23, 59, 59, 999_999, timezone.utc)


def planned(spark: SparkSession, source: FileSource, *, packed: bool) -> JobGraph:
    env = StreamExecutionEnvironment.get_execution_environment(spark=spark)
    stream = env.from_source(source, NO_WATERMARKS, "files")
    stream.key_by("n").reduce(lambda first, second: second).print()
    graph = build_job_graph(env._graph, GraphSettings(parallelism=2))
    settings = Configuration.from_dict({} if packed else {"penstock.source.packed": "never"})
    return plan_read_paths(graph, settings, lambda key: session_setting(spark, key))


def test_a_session_with_its_own_settings_reads_packed(spark: SparkSession, tmp_path: Path) -> None:
    graph = planned(spark, FileSource.of(tmp_path, "parquet", "n int, at timestamp"), packed=True)
    assert graph.sources[0].packed, graph.sources[0].reading
    with pytest.raises(PathNotFoundError, match=r"absent' of the source .* does not exist"):
        absent = planned(spark, FileSource.of(tmp_path / "absent", "json", "n int"), packed=True)
        open_sources(spark, absent, EpochLimits(folder=tmp_path / "query"))


# ---- rows


def plain(rows: list[Any]) -> list[str]:
    """Rows as texts, in which NaN equals itself and -0.0 is not 0.0."""
    return [
        repr(tuple(value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in r)) for r in rows
    ]


def by_spark(spark: SparkSession, source: FileSource) -> list[str]:
    reader = spark.read.format(source.format).options(**source.options).schema(source.schema_ddl or "")
    columns = [f"`{name}`" for name in source.record_type.names or ()]
    zoned = [  # timestamps come back in the zone of the machine otherwise
        f"cast({c} as timestamp_ntz) as {c}" if kind.name == "TIMESTAMP" else c
        for c, kind in zip(columns, source.record_type.children, strict=True)
    ]
    return plain(
        [
            tuple(bytes(v) if isinstance(v, bytearray) else v for v in r)
            for r in reader.load(source.path).selectExpr(*zoned).collect()
        ]
    )


def by_us(source: FileSource) -> list[str]:
    schema = pa.schema(
        [(n, k.arrow) for n, k in zip(source.record_type.names or (), source.record_type.children, strict=True)]
    )
    batches = read_parquet(whole_file(source.path), schema, 7)
    return plain([tuple(row.values()) for batch in batches for row in batch.to_pylist()])


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False, None]),
    "tinyint": (pa.int8(), [-128, 127, None]),
    "smallint": (pa.int16(), [-(2**15), 2**15 - 1, None]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "bigint": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "float": (pa.float32(), [-0.0, math.nan, 1.1, math.inf, None]),
    "double": (pa.float64(), [-0.0, math.nan, 5e-324, -math.inf, None]),
    "string": (pa.string(), ["", "é€😀\0\n", None]),
    "binary": (pa.binary(), [b"", b"\0\xff", None]),
    "date": (pa.date32(), [date(1, 1, 1), date(1582, 10, 4), date(1969, 12, 31), date(9999, 12, 31), None]),
    "timestamp": (pa.timestamp("us", tz="UTC"), [MOMENT, datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59), None]),
    "timestamp_ntz": (pa.timestamp("us"), [MOMENT.replace(tzinfo=None), datetime(1500, 1, 1), None]),
}
OTHER_TYPES = [
    ("bigint", pa.array([1, None, -5], pa.int32())),
    ("bigint", pa.array([1, None, 2**32 - 1], pa.uint32())),
    ("int", pa.array([1, None, 255], pa.uint8())),
    ("smallint", pa.array([1, None, -5], pa.int8())),
    ("double", pa.array([1.1, None, -0.0], pa.float32())),
    ("double", pa.array([1, None, -5], pa.int32())),
    ("string", pa.array([b"a", None, b""])),
    ("binary", pa.array(["a", None, ""])),
    ("binary", pa.array([b"ab", None, b"cd"], pa.binary(2))),
    ("string", pa.array(["x", None, "x"]).dictionary_encode()),
    ("timestamp", pa.array([MOMENT, None], pa.timestamp("us", tz="Europe/Berlin"))),
    ("timestamp", pa.array([1, None, -1], pa.timestamp("ms", tz="UTC"))),
    ("timestamp", pa.array([1, None, -1], pa.timestamp("us"))),
    ("timestamp_ntz", pa.array([1, None, -1], pa.timestamp("ms"))),
]


def test_parquet_files_give_the_rows_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """All types at once: one job of Spark for files of pyarrow, one for a file of Spark's own, one for other types."""
    count = max(len(values) for _, values in VALUES.values())
    columns = {f"c_{name}": pa.array((values * count)[:count], kind) for name, (kind, values) in VALUES.items()}
    ddl = ", ".join(f"C_{name} {name}" for name in VALUES) + ", missing string"
    pq.write_table(pa.table({**columns, "additional": pa.array([[1]] * count)}), tmp_path / "a.parquet")
    source = FileSource.of(tmp_path / "a.parquet", "parquet", ddl)
    expected = by_spark(spark, source)
    assert by_us(source) == expected and len(expected) == count
    spark.read.parquet(str(tmp_path / "a.parquet")).coalesce(1).write.parquet(str(tmp_path / "out"))
    (written,) = (tmp_path / "out").glob("*.parquet")  # its timestamps have 96 bits
    source = FileSource.of(written, "parquet", ddl)
    assert by_us(source) == by_spark(spark, source) == expected
    table = {
        f"c{n}": pa.concat_arrays([array, pa.nulls(3 - len(array), array.type)])
        for n, (_, array) in enumerate(OTHER_TYPES)
    }
    pq.write_table(pa.table(table), tmp_path / "b.parquet")
    source = FileSource.of(
        tmp_path / "b.parquet", "parquet", ", ".join(f"c{n} {k}" for n, (k, _) in enumerate(OTHER_TYPES))
    )
    assert by_us(source) == by_spark(spark, source)


LINES = [
    '{"n": 1, "s": "é\\u20ac\\n", "x": 1.5, "b": true, "i": -2, "h": 3}',
    '{"n": null, "other": {"n": [1]}}',
    '{"N": 1}',
    "{}",
    "   ",
    '{"n": 1, "n": 2}',
    '{"n": 1, "n": null}',
    '{"x": -0}',
    '{"x": -0.0}',
    '{"x": 12345678901234567890123}',
    '{"x": 9007199254740993}',
    '{"x": 1e400}',
    '{"x": 4.9e-324}',
    '{"x": "-INF"}',
    '{"x": "NaN"}',
    '{"x": "+Infinity"}',
    '{"s": 1.50}',
    '{"s": -0}',
    '{"s": true}',
    '{"s": 1E5}',
    '{"s": "\\ud800"}',
    '{"s": "a\\/b\\u0000"}',
    '{"n": 1} and more',
    '{"n": 1}{"n": 2}',
    '  {"n": 1}\t',
    '{"n": -0}',
    '{"n": 1.0}',
    '{"n": 1e2}',
    '{"n": "1"}',
    '{"n": ""}',
    '{"n": true}',
    '{"n": {"a": 1}}',
    '{"n": 9223372036854775808}',
    '{"i": 2147483648}',
    '{"h": 32768}',
    '{"x": "1.5"}',
    '{"x": ""}',
    '{"x": .5}',
    '{"x": +5}',
    '{"b": 1}',
    '{"b": "true"}',
    '{"n": 01}',
    '{"n": 1',
    '{"n": 1,}',
    "{n: 1}",
    "1",
    '"text"',
    '{"s": "\x01"}',
    '{"s": "\t"}',
]
SPARK_ONLY = ["{'n': 1}", '{"x": NaN}', '{"x": -Infinity}', '{"s": [1, 2]}', '[{"n": 1}]', "null"]
"""Spark reads them, and we leave them to it with an error."""


CSV_LINES = [
    "é,1,1.5,true,3,4",
    ",,,,,",
    '"a,""b""",1,1,FALSE,-5,',
    '"",1,1,,,',
    '"","1","1.5","true",,',
    'a"b,1,1,,,',
    ' "a" ,1,1,,,',
    " a ,+7,-0,,,",
    "\t,1,1,,,",
    "a,-0,+1.5e3,True,+32767,",
    "a,9223372036854775807,-Inf,,,",
    "a,1,NaN,,,-128",
    "a,1,-Infinity,,,",
    "a,1,.5,,,",
    "a,1,1e400,,,",
    "0x10,1,5.,,,",
    "NULL,1,1,,,",
    "a\\,1,1,,,",
    "'a',1,1,,,",
    "#a,1,1,,,",
    "   ",
    "a,1,1,true",
    "a,1,1,true,1,1,1",
    "a,1.0,1,,,",
    "a, 1,1,,,",
    "a,1 ,1,,,",
    "a,0x10,1,,,",
    "a,9223372036854775808,1,,,",
    "a,1,1,,32768,",
    "a,1,1,,,128",
    "a,1,x,,,",
    "a,1,1_0,,,",
    "a,1,nan,,,",
    "a,1,inf,,,",
    "a,1,1,yes,,",
    "a,1,1,1,,",
    "a,1,1, true,,",
]
CSV_SPARK_ONLY = ["a,1,1d,,,", "a,1, 1,,,", "a,1,0x1p3,,,", '"a"b,1,1,,,', '"a" ,1,1,,,', "a,\u0661,1,,,"]
JSON = "n bigint, s string, x double, b boolean, i int, h smallint"
CSV = "s string, n bigint, x double, b boolean, h smallint, t tinyint"


@pytest.mark.parametrize(
    ("text", "lines", "of_spark"),
    [
        (StreamFormat.json_line_format(JSON), LINES, SPARK_ONLY),
        (StreamFormat.csv_format(CSV, header=False), CSV_LINES, CSV_SPARK_ONLY),
    ],
    ids=["json", "csv"],
)
def test_lines_give_the_rows_of_spark_or_are_refused_as_by_spark(
    spark: SparkSession, tmp_path: Path, text: StreamFormat, lines: list[str], of_spark: list[str]
) -> None:
    """One job of Spark in a mode that shows which lines its mode FAILFAST refuses."""
    source = FileSource.for_record_stream_format(text, tmp_path / "lines").build()
    (tmp_path / "lines").write_text("\n".join([*lines, *of_spark]), encoding="utf-8", newline="")
    reader = spark.read.schema(f"{source.schema_ddl}, _corrupt_record string")
    reader = reader.options(**{**source.options, "mode": "PERMISSIVE"}).format(source.format)
    found = iter([tuple(row) for row in reader.load(source.path).collect()])
    for line in [*lines, *of_spark]:
        ours = rows_of_line(tmp_path / "line", source, line)
        if not line.strip():
            assert ours == []
            continue
        *values, refused = next(found)
        if line in of_spark:
            assert ours is None, line
        else:
            assert (ours is None) == (refused is not None), (line, ours, values)
            assert ours is None or ours == plain([values]), line


def rows_of_line(path: Path, source: FileSource, line: str) -> list[str] | None:
    """The rows of a file of this line; None if it is refused."""
    path.write_text(line + "\n", encoding="utf-8", newline="")
    try:
        batches = list(PackedFormat.of(source).rows(whole_file(str(path))))
    except UnsupportedValueError:
        return None
    return plain([tuple(row.values()) for batch in batches for row in batch.to_pylist()])


# ---- positions


class Recording:
    """A query on the files, packed or not, and the position behind its last batch."""

    def __init__(self, spark: SparkSession, files: Path, folder: Path) -> None:
        self._spark = spark
        self._source = FileSource.of(files, "json", "n int")
        self._folder = folder
        self.batches: list[list[int]] = []
        self._last = -1

    def run(self, *, packed: bool) -> bytes:
        """Read everything there is, a file in each batch; return the position."""
        graph = planned(self._spark, self._source, packed=packed)
        frame = open_sources(self._spark, graph, EpochLimits(max_files=1, folder=self._folder))

        def run_epoch(rows: DataFrame, batch_id: int) -> None:
            found = self._numbers(graph, rows)
            self.batches += [found] if found else []
            self._last = batch_id

        query = EpochQuery(frame, QuerySettings(self._folder, True, 0, query_settings(10_000)), run_epoch)
        assert query.wait(LIMIT_S) and query.failure is None, query.failure
        return offset_log.capture(self._folder, self._last)

    def go_on(self, position: bytes) -> None:
        """Continue behind a position in a new folder, as an attempt does."""
        self._folder = self._folder.with_name(f"{self._folder.name}-on")
        offset_log.build(self._folder, position, self._last)

    @staticmethod
    def _numbers(graph: JobGraph, rows: DataFrame) -> list[int]:
        if not graph.sources[0].packed:
            return [row.n for row in rows.collect()]
        edge, _ = packed_edge(graph, graph.sources[0])
        cells = [bytes(row["__rows"]) for row in rows.collect()]
        return [n for batch in PackedInput(0, edge, 100).rows(cells) for n in batch.column("i0_0").to_pylist()]


def put(folder: Path, numbers: range) -> None:
    """A file for each number, under names that an address has to quote; the first is the oldest."""
    for number in numbers:
        path = folder / f"a b%20é{number % 3}" / f"#{number}[=]+;€.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"n": number}), encoding="utf-8")
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def test_a_source_changes_between_both_readers_without_loss_or_double(spark: SparkSession, tmp_path: Path) -> None:
    """Also over compactions that the other one has written."""
    recording = Recording(spark, tmp_path / "in", tmp_path / "query")
    begin = 0
    for packed, end in ((True, 3), (False, 6), (True, 12), (False, 21), (True, 23)):
        put(tmp_path / "in", range(begin, end))
        position = recording.run(packed=packed)
        recording.go_on(position)
        assert recording.batches == [[number] for number in range(end)], packed
        begin = end


# ---- jobs


class Totals(KeyedProcessFunction):
    """The running total of a customer, with the times at which it was computed."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        total = (self.total.value() or 0) + value.n
        self.total.update(total)
        yield value.customer, value.n, total, ctx.timestamp(), ctx.timer_service().current_watermark()


def orders(folder: Path, numbers: range) -> None:
    """A Parquet file for each number, with an order of each of three customers."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        table = pa.table({"n": [number] * 3, "customer": ["ada", "bob", "cléo"], "at": [1_000 * number] * 3})
        pq.write_table(table, folder / f".{number}")
        os.utime(folder / f".{number}", (1_700_000_000 + number, 1_700_000_000 + number))
        (folder / f".{number}").rename(folder / f"{number}.parquet")


def start(jobs: Jobs, packed: str, path: str | None) -> Any:
    settings = {"penstock.source.packed": packed, "penstock.epoch.max-files": "1"}
    if path is not None:
        settings["execution.savepoint.path"] = path
    env = jobs.environment(2, {**settings, "execution.checkpointing.interval": "1 h"})
    files = FileSource.of(jobs.folder / "in", "parquet", "customer string, n bigint, at bigint")
    files = files.monitor_continuously(Duration.of_seconds(1))
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row.at)
    stream = env.from_source(files, times, "orders")
    typed = "customer string, n bigint, total bigint, at bigint, watermark bigint"
    totals = stream.key_by(lambda row: row.customer).process(Totals(), output_type=typed).uid("totals")
    totals.sink_to(FileSink.for_row_format(str(jobs.folder / "out"), "json").build()).uid("out")
    return env.execute_async(f"totals-{packed}")


def has_read(jobs: Jobs, client: JobClient, count: int) -> bool:
    record = next(record for record in jobs.registry.list() if record.job_id == str(client.get_job_id()))
    return record.rows >= count


def test_a_job_goes_on_from_a_savepoint_with_the_other_reader(jobs: Jobs) -> None:
    path, begin = None, 0
    for packed, end in (("auto", 4), ("never", 7), ("auto", 9)):
        orders(jobs.folder / "in", range(begin, end))
        client = start(jobs, packed, path)
        job = client._handle
        assert isinstance(job, Job)
        count = 3 * (end - begin)
        wait_until(partial(has_read, jobs, client, count), timeout_s=60)
        request = SavepointRequest(str(jobs.folder / "savepoints"), then="stop")
        path = job.trigger_savepoint(request).future.result(LIMIT_S)
        client.get_job_execution_result().result()
        begin = end
    found = sorted((row["customer"], row["n"], row["total"], row["at"]) for row in read_output(jobs.folder / "out"))
    assert found == sorted(
        (customer, n, n * (n + 1) // 2, 1_000 * n) for customer in ("ada", "bob", "cléo") for n in range(begin)
    )
    for row in read_output(jobs.folder / "out"):  # of an epoch before, also behind a savepoint
        assert row["watermark"] < 1_000 * row["n"] and (row["n"] < 4 or row["watermark"] >= 1_000), row


def test_a_file_that_cannot_be_read_fails_the_job_with_its_name(jobs: Jobs) -> None:
    (jobs.folder / "in").mkdir()
    pq.write_table(pa.table({"n": ["text"]}), jobs.folder / "in" / "a.parquet")
    stream = jobs.environment(1).from_source(FileSource.of(jobs.folder / "in", "parquet", "n int"), NO_WATERMARKS, "n")
    with pytest.raises(JobFailedError, match=r"column 'n' of the file .*a\.parquet' is of type string"):
        list(stream.key_by("n").reduce(lambda first, second: second).execute_and_collect("typed"))
