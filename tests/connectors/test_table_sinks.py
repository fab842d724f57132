"""Sinks of table formats: one commit per checkpoint, repeated commits, drivers that slept, schemas, refusals."""

import datetime
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from penstock.common import Row, Types
from penstock.connectors.delta import DeltaSink, delta_log
from penstock.connectors.iceberg import IcebergSink, iceberg_catalog
from penstock.connectors.iceberg.iceberg_sink import PartitionField
from penstock.connectors.staged.staged_files import INLINE_BYTES
from penstock.errors import (
    ArgumentValueError,
    ConnectorUnavailableError,
    SinkTransactionLostError,
    TypeMismatchError,
    UnsupportedValueError,
    UsageError,
)
from penstock.jobmanager.attempt.sink_committer import GraphCommitter
from penstock.model.types import TAGGED, TypeInformation, resolve_type
from penstock.storage.memory import MemoryStorage
from tests.connectors.table_formats import FORMATS, JOB, Delta, Iceberg, TableFormat, staged

IDS = resolve_type("id bigint, name string")
CLIENTS = {"delta": delta_log, "iceberg": iceberg_catalog}


@pytest.fixture(params=sorted(FORMATS))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFormat:
    return FORMATS[request.param](tmp_path)


def some(*ids: int) -> list[Row]:
    return [Row(id, f"n{id}") for id in ids]


def ids(table: TableFormat) -> list[int]:
    return [row["id"] for row in table.rows()]


# ---- commits


def test_a_checkpoint_of_all_subtasks_is_one_commit(table: TableFormat) -> None:
    sink = table.sink()
    sink.check(IDS)
    sink.commit_all(staged(sink, some(1, 2, 3), IDS, (1, 1)))
    sink.commit_all(staged(sink, some(4), IDS, (1, 2)))
    assert table.rows()[0] == {"id": 1, "name": "n1"}
    assert ids(table) == [1, 2, 3, 4] and table.commit_count() == 2
    assert table.file_count() == 2  # not one for each subtask


def test_a_repeated_commit_adds_nothing_after_others_wrote_and_history_was_removed(table: TableFormat) -> None:
    sink = table.sink()
    first, second = staged(sink, some(1), IDS, (1, 1)), staged(sink, some(2), IDS, (1, 2))
    sink.commit_all(first)
    sink.commit_all(second)
    table.append(pa.table({"id": [7], "name": ["other"]}))
    table.forget_history()
    sink.commit_all(first)
    sink.commit_all(second)
    assert ids(table) == [1, 2, 7]


def test_a_property_that_a_tool_removed_is_still_in_the_snapshots(tmp_path: Path) -> None:
    table = Iceberg(tmp_path)
    sink = table.sink()
    found = staged(sink, some(1), IDS)
    sink.commit_all(found)
    with table.table().transaction() as transaction:
        transaction.remove_properties(f"penstock.marker.{JOB}/out")
    sink.commit_all(found)
    assert ids(table) == [1]


def test_two_jobs_and_two_sinks_have_markers_of_their_own(table: TableFormat) -> None:
    sink = table.sink()
    sink.commit_all(staged(sink, some(1), IDS, (5, 5)))
    low = staged(sink, some(2), IDS, (1, 1))
    sink.commit_all([msgspec.structs.replace(c, data=c.data | {"job": "other"}) for c in low])
    sink.commit_all([msgspec.structs.replace(c, data=c.data | {"sink": "second"}) for c in low])
    assert ids(table) == [1, 2, 2]


# ---- drivers


def test_i10_a_driver_that_slept_before_its_commit_doubles_nothing(
    table: TableFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sleeps at the worst moment: it has seen no marker, has written its files and is about to commit."""
    sink = table.sink()
    sink.commit_all(staged(sink, some(1), IDS, (1, 1)))
    found = staged(sink, some(2), IDS, (1, 2))
    module = CLIENTS["delta" if isinstance(table, Delta) else "iceberg"]
    read_rows = module.PublishedRows.reader
    wakes: list[int] = []

    def sleep(self: Any, *args: Any) -> Any:
        if not wakes:
            wakes.append(1)
            sink.commit_all(found)  # the next attempt recovers
            sink.commit_all(staged(sink, some(3), IDS, (2, 3)))
        return read_rows(self, *args)

    monkeypatch.setattr(module.PublishedRows, "reader", sleep)
    sink.commit_all(found)
    assert wakes and ids(table) == [1, 2, 3]


def test_i10_a_driver_that_wakes_when_its_staged_rows_are_deleted_loses_nothing(
    table: TableFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, storage = table.sink(), MemoryStorage()
    rows = [Row(1, "x" * INLINE_BYTES), Row(2, "y" * INLINE_BYTES)]
    found = staged(sink, rows, IDS, (1, 1), storage)
    module = CLIENTS["delta" if isinstance(table, Delta) else "iceberg"]
    append = module._append
    wakes: list[int] = []

    def sleep(*args: Any) -> Any:
        if not wakes:
            wakes.append(1)
            GraphCommitter(JOB, {"out": sink}, storage).commit(found)  # deletes the staged rows
        return append(*args)

    monkeypatch.setattr(module, "_append", sleep)
    sink.commit_all(found)
    assert wakes and ids(table) == [1, 2] and not storage.files


def test_two_writers_at_once_publish_once(table: TableFormat) -> None:
    sink = table.sink()
    sink.commit_all(staged(sink, some(0), IDS, (1, 1)))
    for epoch in range(2, 6):
        found = staged(sink, some(epoch), IDS, (1, epoch))
        threads = [threading.Thread(target=sink.commit_all, args=(found,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert ids(table) == [0, 2, 3, 4, 5]


def test_two_writers_make_one_table(table: TableFormat) -> None:
    sink = table.sink()
    sink.check(IDS)  # makes the tables of the SQL catalog itself
    found = staged(sink, some(1, 2), IDS)
    threads = [threading.Thread(target=sink.commit_all, args=(found,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids(table) == [1, 2]


def test_lost_staged_rows_are_reported_and_nothing_is_written(table: TableFormat) -> None:
    sink, storage = table.sink(), MemoryStorage()
    sink.commit_all(staged(sink, some(0), IDS, (1, 1)))
    found = staged(sink, [Row(1, "x" * INLINE_BYTES), Row(2, "y" * INLINE_BYTES)], IDS, (1, 2), storage)
    storage.delete(str(found[1].data["file"]))  # the first part can be read
    with pytest.raises(SinkTransactionLostError, match="has lost 1 rows"):
        sink.commit_all(found)
    assert ids(table) == [0]


def test_a_commit_of_another_writer_in_between_is_kept(table: TableFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = table.sink()
    sink.commit_all(staged(sink, some(1), IDS, (1, 1)))
    module = CLIENTS["delta" if isinstance(table, Delta) else "iceberg"]
    read_rows = module.PublishedRows.reader
    others: list[int] = []

    def interfere(self: Any, *args: Any) -> Any:
        if not others:
            others.append(1)
            table.append(pa.table({"id": [9], "name": ["other"]}))
        return read_rows(self, *args)

    monkeypatch.setattr(module.PublishedRows, "reader", interfere)
    sink.commit_all(staged(sink, some(2), IDS, (1, 2)))
    assert ids(table) == [1, 2, 9]


# ---- schemas


EVERY_TYPE = Types.ROW_NAMED(
    ["id", "b", "s", "i", "f", "flag", "raw", "day", "at", "local", "money", "list", "map", "row"],
    [
        Types.LONG(),
        Types.BYTE(),
        Types.SHORT(),
        Types.INT(),
        Types.FLOAT(),
        Types.BOOLEAN(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.SQL_DATE(),
        resolve_type("t timestamp").children[0],
        resolve_type("t timestamp_ntz").children[0],
        resolve_type("t decimal(10, 2)").children[0],
        Types.LIST(Types.SHORT()),
        Types.MAP(Types.STRING(), Types.LONG()),
        Types.ROW_NAMED(["x", "y"], [Types.BYTE(), Types.STRING()]),
    ],
)


def test_every_type_comes_back(table: TableFormat) -> None:
    sink = table.sink()
    sink.check(EVERY_TYPE)
    at = datetime.datetime(2024, 5, 6, 7, 8, 9, 10, tzinfo=datetime.timezone.utc)
    plain = [1, 2, 3, 4, 0.5, True, b"raw", datetime.date(2024, 5, 6), at, at.replace(tzinfo=None), Decimal("12.34")]
    full, empty = Row(*plain, [1, 2], {"a": 1}, Row(7, "y")), Row(2, *[None] * 13)
    sink.commit_all(staged(sink, [full, empty], EVERY_TYPE))
    first, second = table.rows()
    assert list(first.values()) == [*plain, [1, 2], [("a", 1)], {"x": 7, "y": "y"}]
    assert list(second.values()) == [2, *[None] * 13]
    sink.check(EVERY_TYPE)


def test_new_columns_are_added_and_rows_of_the_older_program_still_fit(table: TableFormat) -> None:
    sink = table.sink()
    sink.commit_all(staged(sink, some(1), IDS, (1, 1)))
    pending = staged(sink, some(2), IDS, (1, 2))  # in the last checkpoint of the older program
    wider = resolve_type("id bigint, name string, score double")
    sink.check(wider)
    assert table.read().column_names == ["id", "name"]  # a check changes nothing
    sink.commit_all(pending)
    sink.commit_all(staged(sink, [Row(3, "n3", 0.5)], wider, (2, 3)))
    assert [(row["id"], row["score"]) for row in table.rows()] == [(1, None), (2, None), (3, 0.5)]
    sink.commit_all(staged(sink, [Row(4)], resolve_type("id int"), (3, 4)))  # fewer columns, narrower numbers
    assert table.rows()[-1] == {"id": 4, "name": None, "score": None}


def test_iceberg_widens_numbers(tmp_path: Path) -> None:
    table = Iceberg(tmp_path)
    sink = table.sink()
    sink.commit_all(staged(sink, [Row(1, 0.5)], resolve_type("id int, x float"), (1, 1)))
    wider = resolve_type("id bigint, x double")
    sink.check(wider)
    sink.commit_all(staged(sink, [Row(2**40, 0.1)], wider, (1, 2)))
    assert table.rows() == [{"id": 1, "x": 0.5}, {"id": 2**40, "x": 0.1}]


@pytest.mark.parametrize(
    ("there", "records", "problem"),
    [
        ({"id": pa.string()}, "id bigint", "column 'id' is string there and int64 in the records"),
        ({"ID": pa.int64()}, "id bigint", "column 'id' is called 'ID' there"),
        ({"id": pa.float64()}, "id int", "column 'id' is double there and int32 in the records"),
        ({"id": pa.list_(pa.int32())}, "id array<string>", "column 'id' is list<element: int32> there"),
    ],
)
def test_a_table_with_another_schema_is_refused_with_both_named(
    table: TableFormat, there: dict[str, pa.DataType], records: str, problem: str
) -> None:
    table.append(pa.table({name: pa.array([], kind) for name, kind in there.items()}))
    before = table.commit_count()
    with pytest.raises(TypeMismatchError, match="the records have ") as refusal:
        table.sink().check(resolve_type(records))
    message = str(refusal.value).replace("list<item:", "list<element:")
    assert problem in message and "The table has (" in message
    assert table.commit_count() == before


def test_delta_refuses_to_widen_a_number(tmp_path: Path) -> None:
    table = Delta(tmp_path)
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    with pytest.raises(TypeMismatchError, match="'id' is int32 there and int64 in the records"):
        table.sink().check(resolve_type("id bigint"))


def test_a_null_for_a_column_that_takes_none_is_refused(tmp_path: Path) -> None:
    table = Delta(tmp_path)
    table.append(pa.table({"id": [1]}, schema=pa.schema([pa.field("id", pa.int64(), nullable=False)])))
    sink = table.sink()
    with pytest.raises(UnsupportedValueError, match="column 'id' of the Delta table .* takes no null"):
        sink.commit_all(staged(sink, [Row(None)], resolve_type("id bigint")))
    with pytest.raises(TypeMismatchError, match="column 'id' takes no null and is not in the records"):
        sink.check(resolve_type("name string"))
    assert ids(table) == [1]


@pytest.mark.parametrize(
    ("record_type", "message"),
    [
        (TAGGED, "declare it on the operator before the sink, for example output_type="),
        (Types.PICKLED_BYTE_ARRAY(), "have no declared type"),
        (resolve_type("wait interval day to second"), "no column type for a duration .column 'wait'"),
        (resolve_type("a int, A int"), "two columns 'a', whatever their case"),
    ],
)
def test_records_without_columns_are_refused(table: TableFormat, record_type: TypeInformation, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        table.sink().check(record_type)


def test_plain_values_and_tuples_have_columns(table: TableFormat) -> None:
    sink = table.sink()
    sink.commit_all(staged(sink, ["a", "b"], Types.STRING()))
    assert table.rows() == [{"value": "a"}, {"value": "b"}]
    pairs = Types.TUPLE([Types.STRING(), Types.INT()])
    sink.commit_all(staged(sink, [("c", 1)], pairs, (1, 2)))
    assert table.read().column_names == ["value", "f0", "f1"]


# ---- partitions and files


def test_rows_are_partitioned(table: TableFormat) -> None:
    kind = resolve_type("id bigint, country string")
    sink = table.sink(partition_by=["country"])
    sink.check(kind)
    sink.commit_all(staged(sink, [Row(1, "ch"), Row(2, "de"), Row(3, "ch"), Row(4, None)], kind))
    assert ids(table) == [1, 2, 3, 4] and table.file_count() == 3
    table.sink().check(kind)  # takes the table as it is
    with pytest.raises(TypeMismatchError, match="is partitioned by .*country.* the sink asks for .*id"):
        table.sink(partition_by=["id"]).check(kind)


def test_partitions_by_no_column_are_refused(table: TableFormat) -> None:
    with pytest.raises(UsageError, match="partitioned by 'town', which is not a column of .id int64, name string."):
        table.sink(partition_by=["town"]).check(IDS)
    with pytest.raises(ArgumentValueError, match="partition_by is a list of column"):
        table.sink(partition_by="country")


def test_iceberg_partitions_by_transforms(tmp_path: Path) -> None:
    table, kind = Iceberg(tmp_path), resolve_type("id bigint, at timestamp")
    sink = table.sink(partition_by=["day(at)", "bucket(4, id)"])
    days = [datetime.datetime(2024, 1, day, 5, tzinfo=datetime.timezone.utc) for day in (1, 1, 2)]
    sink.commit_all(staged(sink, [Row(1, day) for day in days], kind, (1, 1)))
    sink.commit_all(staged(sink, [Row(2, days[0])], kind, (1, 2)))
    assert [(field.name, str(field.transform)) for field in table.table().spec().fields] == [
        ("at_day", "day"),
        ("id_bucket", "bucket[4]"),
    ]
    assert ids(table) == [1, 1, 1, 2] and table.file_count() == 3
    with pytest.raises(ArgumentValueError, match="partition_by has no 'week.at.'"):
        PartitionField.parse("week(at)")


def test_files_end_at_their_target_size(table: TableFormat) -> None:
    kind = resolve_type("id bigint, text string")
    sink = table.sink(target_file_size=100_000)
    rows = [Row(id, f"{id * 7919:08d}" * 12) for id in range(6000)]
    storage = MemoryStorage()
    for epoch, part in enumerate((rows[:3000], rows[3000:]), 1):
        sink.commit_all(staged(sink, part, kind, (1, epoch), storage))
    assert table.commit_count() == 2 and len(table.rows()) == 6000
    assert table.file_count() >= 4
    with pytest.raises(ArgumentValueError, match="target_file_size is a number of bytes above 0, not -1"):
        table.sink(target_file_size=-1)


# ---- refusals


def test_a_folder_that_cannot_be_made_is_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{file}/w"}
    for sink in (DeltaSink(file / "table"), IcebergSink("db.t", "test", catalog)):
        with pytest.raises(UsageError, match="file' is not a folder"):
            sink.check(IDS)


def test_a_catalog_that_does_not_answer_is_named_with_the_reason() -> None:
    away = {"type": "rest", "uri": "http://127.0.0.1:9"}
    with pytest.raises(ConnectorUnavailableError, match="'db.t' of catalog 'prod' cannot be .*: .*refused"):
        IcebergSink("db.t", "prod", away).check(IDS)
    with pytest.raises(ConnectorUnavailableError, match="PYICEBERG_CATALOG__NOWHERE__URI"):
        IcebergSink("db.t", "nowhere").check(IDS)


@pytest.mark.parametrize("options", [{"AWS_SECRET_ACCESS_KEY": "hush"}, {"uri": "postgresql://me:hush@db/c"}])
def test_secrets_are_refused_without_repeating_them(options: dict[str, str]) -> None:
    for make in (
        lambda: DeltaSink("s3://bucket/t", storage_options=options),
        lambda: IcebergSink("db.t", catalog_properties=options),
    ):
        with pytest.raises(ArgumentValueError, match="is or contains a secret") as refusal:
            make()
        assert "hush" not in str(refusal.value)


def test_addresses() -> None:
    assert DeltaSink("s3a://bucket/t/").path == "s3://bucket/t"
    assert str(DeltaSink("t").path).startswith("/")
    with pytest.raises(UsageError, match="cannot write to hdfs://node/t"):
        DeltaSink("hdfs://node/t")
    with pytest.raises(ArgumentValueError, match="is 'namespace.table', not 'orders'"):
        IcebergSink("orders")
