"""Where records go: files in each format, Spark's own writers, the terminal."""

import csv
from collections import Counter
from datetime import datetime, timezone
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.common import Types
from penstock.datastream.connectors.file_system import FileSink
from tests.spark.jobs import Jobs, finished_files, read_json
from tests.waiting import wait_until

ROWS = [(f"name-{n}", n, n / 4, datetime(2026, 1, 1, 12, n, tzinfo=timezone.utc)) for n in range(30)]
SCHEMA = "name string, number bigint, share double, at timestamp"


def test_file_sinks_write_json_csv_and_parquet(jobs: Jobs) -> None:
    env = jobs.environment(settings={"execution.checkpointing.interval": "1s", "penstock.epoch.max-rows": "12"})
    stream = env.from_collection(ROWS, SCHEMA)
    stream.sink_to(FileSink.for_row_format(jobs.folder / "json", "json").build()).uid("json")
    stream.sink_to(FileSink.for_row_format(jobs.folder / "csv", "csv").build()).uid("csv")
    stream.sink_to(FileSink.for_bulk_format(jobs.folder / "parquet", "parquet").build()).uid("parquet")
    env.execute("files")
    expected = Counter((name, number, share) for name, number, share, _ in ROWS)
    assert Counter((r["name"], r["number"], r["share"]) for r in read_json(jobs.folder / "json")) == expected
    texts = [path.read_text(encoding="utf-8").splitlines() for path in finished_files(jobs.folder / "csv")]
    lines = [row for text in texts for row in csv.DictReader(text)]
    assert Counter((row["name"], int(row["number"]), float(row["share"])) for row in lines) == expected
    tables = [pq.read_table(path).to_pylist() for path in finished_files(jobs.folder / "parquet")]
    rows = [row for table in tables for row in table]
    assert Counter((row["name"], row["number"], row["share"], row["at"]) for row in rows) == Counter(ROWS)


def test_lines_of_print_come_with_the_subtask_in_front(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
    env = jobs.environment()
    stream = env.from_collection([("ada", 1), ("bob", 2)], "name string, n bigint").key_by("name").sum("n")
    stream.print()
    stream.map(lambda row: row.n * 10, Types.LONG()).print("ten")
    env.execute("print")
    lines = capsys.readouterr().out.splitlines()
    values = Counter(line.split("> ", 1)[1] for line in lines)
    assert values == Counter(["Row(name='ada', n=1)", "Row(name='bob', n=2)", "10", "20"])
    assert all(line.split("> ")[0] in ("1", "2", "ten:1", "ten:2") for line in lines)


def test_collected_records_of_a_keyed_stream_come_with_their_key_and_in_order(jobs: Jobs) -> None:
    records = [("ada", 1), ("bob", 2), ("ada", 3), ("eve", 4)]
    stream = jobs.environment().from_collection(records, Types.TUPLE([Types.STRING(), Types.INT()]))
    found = list(stream.key_by(lambda record: record[0], Types.STRING()).execute_and_collect("keyed"))
    assert found == [(name, (name, number)) for name, number in records]
    assert repr(found[0]) == "Row(f0='ada', f1=('ada', 1))"


@pytest.mark.smoke
def test_sql_steps_and_spark_writers_behind_the_jvm_and_behind_a_stage(jobs: Jobs) -> None:
    """`where`, `with_column` and `select` stay in the JVM; `to_spark` gets DataFrames from there and from a stage."""
    jobs.write_json("1.json", [{"customer": f"c{n % 3}", "amount": n - 2.0} for n in range(9)])
    env = jobs.environment(settings={"execution.checkpointing.interval": "500ms"})
    orders = env.from_dataframe(jobs.json_stream("customer string, amount double, at timestamp"))
    clean = orders.where("amount > 0").with_column("cents", "cast(amount * 100 as bigint)").select("customer", "cents")
    assert [field.name for field in clean.schema] == ["customer", "cents"]
    from_jvm: list[Any] = []
    from_stage: list[Any] = []
    epochs: list[Any] = []

    def write_clean(df: Any, epoch: Any) -> None:
        from_jvm.extend(df.collect())
        epochs.append((epoch, df.sparkSession.conf.get("spark.sql.adaptive.enabled")))

    clean.to_spark(write_clean)
    totals = clean.key_by("customer").sum("cents")
    totals.uid("sum").to_spark(lambda df, epoch: from_stage.extend(df.collect()))
    job = env.execute_async("spark")
    wait_until(lambda: len(from_stage) >= 6 or job.get_job_status().result().name == "FAILED")
    jobs.write_json("2.json", [{"customer": "c0", "amount": 1.0}])
    wait_until(lambda: len(from_stage) >= 7 or job.get_job_status().result().name == "FAILED")
    job.cancel().result()
    cents = [(f"c{n % 3}", (n - 2) * 100) for n in range(9) if n > 2] + [("c0", 100)]
    assert Counter(tuple(row) for row in from_jvm) == Counter(cents)
    sums: dict[str, int] = {}
    expected = []
    for customer, amount in cents:
        sums[customer] = sums.get(customer, 0) + amount
        expected.append((customer, sums[customer]))
    assert Counter(tuple(row) for row in from_stage) == Counter(expected)
    assert {aqe for _, aqe in epochs} == {"false"}
    assert jobs.spark.conf.get("spark.sql.adaptive.enabled") == "true"  # the session that was handed in is as it was
    first, last = epochs[0][0], epochs[-1][0]
    assert first.job_id == last.job_id == job.get_job_id() and first.id < last.id
    assert jobs.record().status == "CANCELED"
