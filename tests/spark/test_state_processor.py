"""State as data on Spark: what is read equals the job's state, what is written can be restored (features S1 to S6)."""

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.checkpoint.snapshot.readable_state import readable
from penstock.checkpoint.snapshot.stored_snapshot import KeyedState, open_stored
from penstock.codec.keys import KeyCodec
from penstock.common import Time, Types
from penstock.errors import CheckpointCorruptError, CheckpointError, UsageError
from penstock.jobmanager.attempt.recovery import StartOptions
from penstock.model.key_groups import spark_hash
from penstock.model.operator_ids import operator_id
from penstock.model.type_information import parse_type
from penstock.state.format.keyed_parquet import rows_of
from penstock.state_processor import Savepoint, StateTypes
from tests.checkpoint.snapshots import FAR_MS, RECORDS, TOTALS, checkpoint
from tests.testing import test_namespaces as windowed
from tests.testing.test_namespaces import windows

UID = "function"


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return checkpoint(tmp_path_factory.mktemp("typed") / "job", key_type=Types.STRING())


@pytest.fixture(scope="module")
def untyped(tmp_path_factory: pytest.TempPathFactory) -> str:
    return checkpoint(tmp_path_factory.mktemp("untyped") / "job", "rocksdb")


def values(frame: DataFrame) -> dict[Any, Any]:
    return {row["key"]: row["value"] for row in frame.collect()}


def local_rows(path: str, name: str, uid: str = UID) -> list[dict[str, Any]]:
    """Without Spark."""
    snapshot = open_stored(path)
    tables = readable(snapshot.state(uid, name)).read(snapshot.storage)
    return [row for table in tables for row in table.to_pylist()]


@pytest.mark.smoke
def test_s1_every_state_of_a_checkpoint_is_a_dataframe(spark: SparkSession, typed: str) -> None:
    sp = Savepoint.load(spark, typed, verify=True)
    total = sp.keyed_state(UID, "total")
    assert total.columns == ["key_group", "key", "value"] and values(total) == TOTALS
    counts = sp.keyed_state(UID, "counts")
    assert counts.columns == ["key_group", "key", "map_key", "value"] and counts.count() == 50
    trail = sp.keyed_state(UID, "trail")
    assert trail.columns == ["key_group", "key", "value", "last_access"]
    assert trail.where("size(value) = size(last_access)").count() == 50
    assert [row["value"] for row in sp.operator_state(UID, "handled").orderBy("subtask").collect()]
    assert sp.union_state(UID, "everywhere").count() == 2
    assert [(row["map_key"], row["value"]) for row in sp.broadcast_state(UID, "rules").collect()] == [("limit", 7)]
    timers = sp.timers(UID)
    assert timers.columns == ["key_group", "key", "domain", "timestamp"]
    found = {(row["key"], row["domain"], row["timestamp"]) for row in timers.collect()}
    wanted = {(k, "event", 1_000_000 + n) for k, n in RECORDS} | {(k, "processing", FAR_MS + n) for k, n in RECORDS}
    assert found == wanted


def test_s1_untyped_state_of_rocksdb_is_json_or_what_it_is_declared_to_be(spark: SparkSession, untyped: str) -> None:
    sp = Savepoint.load(spark, untyped)
    (row,) = sp.keyed_state(UID, "untyped").where("key = '\"k7\"'").collect()
    assert row["value"] == '{"last": {"$tuple": ["k7", 157]}}'
    declared = sp.keyed_state(UID, "total", key_type="string")
    assert declared.schema["key"].dataType.simpleString() == "string" and values(declared) == TOTALS


def test_s4_all_keyed_states_of_an_operator_are_one_table(spark: SparkSession, typed: str) -> None:
    table = Savepoint.load(spark, typed).keyed_states(UID)
    assert table.columns == ["key_group", "key", "total", "seen", "counts", "least", "untyped", "recent", "trail"]
    (row,) = table.where("key = 'k7'").collect()
    assert (row["total"], row["seen"], row["counts"]) == (TOTALS["k7"], [7, 57, 107, 157], {"odd": 157})


def test_s5_metadata_has_every_operator_and_its_bytes(spark: SparkSession, typed: str) -> None:
    sp = Savepoint.load(spark, typed)
    (row,) = sp.metadata().collect()
    assert (row["checkpoint_id"], row["operator_uid"], row["operator_uid_hash"]) == (4, UID, operator_id(UID))
    assert (row["parallelism"], row["max_parallelism"], row["subtask_state_count"]) == (2, 16, 2)
    assert row["total_size_in_bytes"] > 0
    kinds = {row["state"]: row["kind"] for row in sp.operators().collect()}
    assert kinds["counts"] == "map" and kinds["rules"] == "broadcast"


@pytest.mark.smoke
def test_s3_a_changed_checkpoint_is_a_canonical_savepoint(spark: SparkSession, typed: str, tmp_path: Path) -> None:
    sp = Savepoint.load(spark, typed)
    fixed = sp.keyed_state(UID, "total").withColumn("value", F.col("value") * 2)
    path = sp.with_keyed_state(UID, "total", fixed).remove_state(UID, "seen").write(str(tmp_path))
    snapshot = open_stored(path)
    assert snapshot.kind == "canonical" and snapshot.manifest.sources == open_stored(typed).manifest.sources
    snapshot.verify()
    assert {row["key"]: row["value"] for row in local_rows(path, "total")} == {k: 2 * v for k, v in TOTALS.items()}
    names = {state.name for state in snapshot.states()}
    assert names == {state.name for state in open_stored(typed).states()} - {"seen"}
    for name in sorted(names - {"total"}):
        assert local_rows(path, name) == local_rows(typed, name), name
    again = Savepoint.load(spark, path)
    assert values(again.keyed_state(UID, "total")) == {k: 2 * v for k, v in TOTALS.items()}
    assert again.timers(UID).count() == 2 * len(RECORDS)


def test_s3_operators_are_renamed_and_removed_and_unchanged_files_are_copied(
    spark: SparkSession, typed: str, tmp_path: Path
) -> None:
    canonical = Savepoint.load(spark, typed).write(str(tmp_path))
    extra = spark.createDataFrame([("a", 1)], "key string, value bigint")
    more = Savepoint.load(spark, canonical).with_keyed_state("extra", "n", extra)
    renamed = more.rename_operator(UID, "totals").write(str(tmp_path))
    old, new = open_stored(canonical), open_stored(renamed)
    assert new.operator_uids() == ["totals", "extra"]
    hashes = [
        {file.sha256 for subtask in snapshot.manifest.subtasks for file in (*subtask.files, *subtask.operator_files)}
        for snapshot in (old, new)
    ]
    assert hashes[0] <= hashes[1] and len(hashes[1] - hashes[0]) == 1
    assert local_rows(renamed, "total", "totals") == local_rows(canonical, "total")
    odd = "orders/eu [1] %41 ü=2"
    removed = Savepoint.load(spark, renamed).remove_operator("extra").rename_operator("totals", odd)
    path = removed.write(str(tmp_path / "a [b] %41"))
    assert open_stored(path).operator_uids() == [odd]
    assert values(Savepoint.load(spark, path).keyed_state(odd, "total")) == TOTALS


def test_s6_max_parallelism_changes_and_every_key_finds_its_group(
    spark: SparkSession, typed: str, untyped: str, tmp_path: Path
) -> None:
    for path in (typed, untyped):
        written = Savepoint.load(spark, path).with_max_parallelism(256).write(str(tmp_path))
        snapshot = open_stored(written)
        assert snapshot.manifest.max_parallelism == 256
        for state in snapshot.states():
            if state.mode == "keyed":
                found = [row for table in state.read(snapshot.storage) for row in table.to_pylist()]
                assert all(row["key_group"] == row["key_hash"] % 256 for row in found)
                assert len(found) == len(local_rows(path, state.name))
    with pytest.raises(UsageError, match="more than the max parallelism 1"):
        Savepoint.load(spark, typed).with_max_parallelism(1).write(str(tmp_path))


def test_s2_a_savepoint_is_made_from_nothing(spark: SparkSession, tmp_path: Path) -> None:
    totals = spark.createDataFrame([(f"k{n}", float(n)) for n in range(500)], "key string, value double")
    tags = spark.createDataFrame([("k1", "a", 1), ("k1", "b", 2)], "key string, map_key string, value int")
    timers = spark.createDataFrame(
        [("k1", "event", 5), ("k2", "processing", 7)], "key string, domain string, timestamp long"
    )
    lists = spark.createDataFrame([("k1", [1, 2])], "key string, value array<int>")
    elements = spark.createDataFrame([(n,) for n in range(9)], "value bigint")
    rules = spark.createDataFrame([("limit", 7)], "map_key string, value bigint")
    sp = (
        Savepoint.new(spark, 64, parallelism=3)
        .with_keyed_state("op", "total", totals)
        .with_keyed_state("op", "tags", tags, "map")
        .with_keyed_state("op", "recent", lists, "list", ttl=Time.hours(1))
        .with_timers("op", timers)
        .with_operator_state("op", "handled", elements)
        .with_union_state("op", "everywhere", elements, types=StateTypes(value="untyped"))
        .with_broadcast_state("op", "rules", rules)
    )
    snapshot = open_stored(sp.write(str(tmp_path)))
    snapshot.verify()
    path = snapshot.uri
    assert snapshot.manifest.sources.batch_id == -1 and len(snapshot.manifest.subtasks) == 3
    assert {row["key"]: row["value"] for row in local_rows(path, "total", "op")} == {f"k{n}": n for n in range(500)}
    assert {(r["map_key"], r["value"]) for r in local_rows(path, "tags", "op")} == {("a", 1), ("b", 2)}
    group = spark_hash(("k1",), (Types.STRING(),)) % 64
    assert local_rows(path, "recent", "op") == [
        {"key_group": group, "key": "k1", "value": [1, 2], "expires_at": [None] * 2}
    ]
    assert [(r["key"], r["value"]) for r in local_rows(path, "_timers_processing", "op")] == [("k2", 7)]
    handled = local_rows(path, "handled", "op")
    assert sorted(row["value"] for row in handled) == list(range(9)) and len({r["subtask"] for r in handled}) == 3
    assert sorted(row["value"] for row in local_rows(path, "everywhere", "op")) == [str(n) for n in range(9)]
    assert [(r["map_key"], r["value"]) for r in local_rows(path, "rules", "op")] == [("limit", 7)]


def test_namespaces_are_a_column_and_can_be_written(spark: SparkSession, tmp_path: Path) -> None:
    path = windows("rocksdb", parallelism=2).feed(windowed.RECORDS).savepoint(tmp_path / "old", format="native")
    sp = Savepoint.load(spark, path)
    count, timers = sp.keyed_state(UID, "count"), sp.timers(UID)
    assert count.columns == ["key_group", "key", "namespace", "value"]
    assert timers.columns == ["key_group", "key", "namespace", "domain", "timestamp"]
    assert {(row["key"], *row["namespace"], row["value"]) for row in count.collect()} == {
        (key, *window, number) for key, window, _, number, *_ in windowed.FIRED
    }
    (row,) = sp.keyed_states(UID).where("key = 'b'").collect()
    assert {(*window,): number for window, number in row["count"].items()} == {(0, 10): 2, (20, 30): 1}
    assert "namespace_type" in sp.operators().columns
    fewer = count.where("namespace.f0 = 0").withColumn("value", F.col("value") * 100)
    made = sp.with_keyed_state(UID, "count", fewer).with_timers(UID, timers.where("timestamp <= 20"))
    harness = windows("hashmap", start=StartOptions(made.write(str(tmp_path / "new")))).feed([("fire", 99)])
    assert [(key, window, number) for key, window, _, number, *_ in sorted(harness.output)] == [
        ("a", (0, 10), 200),
        ("a", (10, 20), None),
        ("b", (0, 10), 200),
    ]


def test_untyped_keys_are_written_as_a_job_writes_them(spark: SparkSession, untyped: str, tmp_path: Path) -> None:
    frame = spark.createDataFrame(list(TOTALS.items()), "key string, value double")
    sp = Savepoint.new(spark, 16)
    with pytest.raises(UsageError, match="text='plain'"):
        sp.with_keyed_state(UID, "total", frame, types=StateTypes(key="untyped"))
    path = sp.with_keyed_state(UID, "total", frame, types=StateTypes(key="untyped", text="plain")).write(str(tmp_path))
    assert local_rows(path, "total") == local_rows(untyped, "total")
    old = Savepoint.load(spark, untyped)
    again = old.with_keyed_state(UID, "untyped", old.keyed_state(UID, "untyped")).write(str(tmp_path))
    assert local_rows(again, "untyped") == local_rows(untyped, "untyped")


def test_wrong_rows_are_refused_by_name_and_leave_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """All that is refused: tests/state_processor/test_wrong_rows.py. Here Spark tries each task four times."""
    rows = spark.createDataFrame([(0.0, 1), (-0.0, 2)], "key double, value bigint")
    sp = Savepoint.new(spark, 16).with_keyed_state("op", "s", rows)
    with pytest.raises(UsageError, match="the key 0.0 twice"):
        sp.write(str(tmp_path))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_mistakes_are_answered_before_anything_runs(spark: SparkSession, typed: str) -> None:
    sp = Savepoint.load(spark, typed)
    frame = spark.createDataFrame([("a", "x")], "key string, value string")
    with pytest.raises(UsageError, match=r"column 'value' is STRING, the state stores DOUBLE; cast it"):
        sp.with_keyed_state(UID, "total", frame)
    with pytest.raises(UsageError, match="no column 'key'"):
        sp.with_keyed_state(UID, "total", frame.drop("key"))
    with pytest.raises(UsageError, match="keys of operator 'function' are STRING"):
        sp.with_keyed_state(
            UID, "other", spark.createDataFrame([(1, 2)], "key int, value int"), types=StateTypes(key="int")
        )
    with pytest.raises(UsageError, match="there is no operator 'nobody'"):
        sp.keyed_state("nobody", "total")
    with pytest.raises(UsageError, match="no such state 'totl'; there are: .*'total'"):
        sp.keyed_state(UID, "totl")
    with pytest.raises(UsageError, match="not one of value, list"):
        sp.with_keyed_state(UID, "total", frame, "set")
    with pytest.raises(UsageError, match="there is an operator 'function' already"):
        sp.with_keyed_state("b", "s", frame).rename_operator("b", UID)


def test_a_damaged_file_is_named_and_nothing_is_written(spark: SparkSession, typed: str, tmp_path: Path) -> None:
    canonical = Savepoint.load(spark, typed).write(str(tmp_path / "good"))
    file = next((Path(canonical) / "state" / UID / "seen").iterdir())
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.chmod(0o600)
    file.write_bytes(bytes(data))
    with pytest.raises(CheckpointCorruptError, match=file.name):
        Savepoint.load(spark, canonical, verify=True)
    with pytest.raises(CheckpointError, match=file.name):
        Savepoint.load(spark, canonical).remove_state(UID, "total").write(str(tmp_path / "bad"))
    assert not [path for path in (tmp_path / "bad").rglob("*") if path.is_file()]


KEYS: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [1, -1],
    "smallint": [300, -300],
    "int": [1, -(2**31)],
    "bigint": [1, 2**62],
    "float": [0.0, 1.5],
    "double": [-0.0, 1.5],
    "string": ["", "ada", "größer", "x" * 300],
    "binary": [b"", b"\x00\xff"],
    "date": [date(1969, 12, 31), date(2024, 2, 29)],
    "timestamp": [datetime(2024, 1, 1, 1, tzinfo=timezone.utc), datetime(1900, 1, 1, tzinfo=timezone.utc)],
    "timestamp_ntz": [datetime(2024, 1, 1, 1)],
    "decimal(10,2)": [Decimal("1.50"), Decimal("-3.00")],
    "decimal(38,0)": [Decimal(10**30), Decimal(-1)],
    "interval day to second": [timedelta(days=1, microseconds=1)],
    "struct<f0: string, f1: double>": [("a", 1.0), ("b", -0.0)],
    "struct<a: string, b: struct<c: int>>": [("a", (1,)), ("b", (2,))],
}


def test_s2_keys_of_every_type_are_hashed_as_a_job_hashes_them(spark: SparkSession, tmp_path: Path) -> None:
    sp = Savepoint.new(spark, 100, parallelism=2)
    for number, (ddl, keys) in enumerate(KEYS.items()):
        rows = [(key, n) for n, key in enumerate(keys)]
        sp = sp.with_keyed_state(f"op{number}", "s", spark.createDataFrame(rows, f"key {ddl}, value int"))
    snapshot = open_stored(sp.write(str(tmp_path)))
    for number, (ddl, keys) in enumerate(KEYS.items()):
        state = snapshot.state(f"op{number}", "s")
        assert isinstance(state, KeyedState)
        codec = KeyCodec([parse_type(text) for text in state.info.key_types])
        found = {}
        for table in state.read(snapshot.storage):
            rows_of_state = rows_of(table, state.info)
            columns = [rows_of_state[name].combine_chunks() for name, _ in codec.fields]
            assert codec.hash_batch(columns).tolist() == table["key_hash"].to_pylist(), ddl
            assert [h % 100 for h in table["key_hash"].to_pylist()] == table["key_group"].to_pylist()
            found.update(dict(zip(table["value"].to_pylist(), codec.decode(columns), strict=True)))
        assert [codec.to_state_key(key) for key in keys] == [found[n] for n in range(len(keys))], ddl
        assert all(str(key) != "-0.0" for key in found.values())
