"""What finished files hold: JSON lines, CSV, Parquet and text."""

import json
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.file import file_formats
from penstock.connectors.file.file_formats import CSV, JSON, PARQUET, RecordEncoder
from penstock.connectors.file.file_sink import FileSink
from penstock.connectors.file.json_lines import JsonLines
from penstock.connectors.file.output_files import OutputFileConfig, RollingPolicy
from penstock.errors import UnsupportedValueError, UsageError
from penstock.model.encoder import Encoder
from penstock.model.row import Row
from penstock.model.time import Instant
from penstock.model.types import TAGGED, TypeInformation, Types, resolve_type
from tests.connectors.sinks import context, finished, pre_commit

UTC = timezone.utc
NOON = datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)


def json_lines(records: list[Any], record_type: TypeInformation = TAGGED) -> list[Any]:
    return [json.loads(line) for line in JSON.encoder(record_type).encode(records).splitlines()]


def csv_text(records: list[Any], spec: object) -> str:
    encoder = CSV.encoder(resolve_type(spec))
    return (encoder.header + encoder.encode(records)).decode()


def parquet_table(encoder: RecordEncoder, batches: list[list[Any]], folder: Path) -> pa.Table:
    assert encoder.convert is not None
    spool = folder / "spool"
    spool.write_bytes(encoder.header + b"".join(map(encoder.encode, batches)))
    with spool.open("rb") as source, (folder / "out.parquet").open("wb") as target:
        encoder.convert(source, target)
    return pq.read_table(folder / "out.parquet")


def test_json_rows_and_typed_tuples_are_objects() -> None:
    row = resolve_type("customer string, total double")
    records = [
        ("ada", 1.5),
        Row(customer="bob", total=2.0),
        Row("eve", 3),
        ["dan", None],
        {"total": 4.0, "customer": "x"},
    ]
    assert json_lines(records, row) == [
        {"customer": "ada", "total": 1.5},
        {"customer": "bob", "total": 2.0},
        {"customer": "eve", "total": 3},
        {"customer": "dan", "total": None},
        {"customer": "x", "total": 4.0},
    ]


def test_json_rows_whose_fields_are_in_another_order_are_put_right_by_name() -> None:
    assert json_lines([Row(b=2, a=1)], resolve_type("a bigint, b bigint")) == [{"a": 1, "b": 2}]


def test_json_untyped_values_are_arrays_objects_and_values() -> None:
    records = [("ada", 1), [1, [2]], {"a": (1, Row(x=1))}, "text", 3, None, True, Row(a=1, b=Row(c=2)), Row(1, 2)]
    assert json_lines(records) == [
        ["ada", 1],
        [1, [2]],
        {"a": [1, {"x": 1}]},
        "text",
        3,
        None,
        True,
        {"a": 1, "b": {"c": 2}},
        [1, 2],
    ]


def test_json_values_that_json_does_not_have() -> None:
    plus_two = timezone(timedelta(hours=2))
    records = [
        NOON,
        NOON.astimezone(plus_two),
        NOON.replace(tzinfo=None),
        date(2026, 1, 31),
        time(1, 2, 3),
        timedelta(seconds=90),
        Decimal("1.50"),
        b"\x00\xff",
        Instant.of_epoch_milli(1500),
        np.float64(0.5),
        np.int64(7),
        2**70,
    ]
    assert json_lines(records) == [
        "2026-01-31T12:00:00.250000Z",
        "2026-01-31T14:00:00.250000+02:00",
        "2026-01-31T12:00:00.250000",
        "2026-01-31",
        "01:02:03",
        "PT90S",
        "1.50",
        "AP8=",
        "1970-01-01T00:00:01.500000Z",
        0.5,
        7,
        2**70,
    ]


def test_json_has_null_for_numbers_that_json_does_not_have() -> None:
    encoded = JSON.encoder(resolve_type("x double")).encode([(float("nan"),), (float("inf"),), (-float("inf"),)])
    assert encoded == b'{"x":null}\n' * 3


def test_json_nested_types_are_objects_at_every_depth() -> None:
    inner = Types.ROW_NAMED(["x", "at"], [Types.LONG(), Types.INSTANT()])
    record_type = Types.ROW_NAMED(
        ["rows", "by_name", "pair", "any", "one"],
        [Types.LIST(inner), Types.MAP(Types.STRING(), inner), Types.TUPLE([Types.LONG(), inner]), None, inner],
    )
    at = Instant.of_epoch_milli(0)
    value = {"x": 1, "at": "1970-01-01T00:00:00Z"}
    record = ([(1, at)], {"a": Row(at=at, x=1)}, (5, (1, at)), Row(z=Row(y=(1,))), None)
    assert json_lines([record], record_type) == [
        {"rows": [value], "by_name": {"a": value}, "pair": [5, value], "any": {"z": {"y": [1]}}, "one": None}
    ]


@pytest.mark.parametrize("name", ["a b", "é", 'a"b', "a\\b", "a\nb", "class", "_x", "f1"])
def test_json_takes_any_field_name(name: str) -> None:
    record_type = Types.ROW_NAMED([name, "f0"], [Types.LONG(), Types.LONG()])
    assert json_lines([(1, 2)], record_type) == [{name: 1, "f0": 2}]


def test_json_objects_may_have_boolean_keys_where_the_type_says_so() -> None:
    assert json_lines([{True: 1, False: 2}], resolve_type("map<boolean, bigint>")) == [{"true": 1, "false": 2}]


def test_json_writes_rows_without_fields() -> None:
    assert json_lines([(), ()], Types.ROW_NAMED([], [])) == [{}, {}]


@pytest.mark.parametrize("record", [object(), {(1, 2): 3}, "\ud800", {None: 1}, 1j])
def test_json_refuses_what_it_cannot_write_and_names_its_type(record: Any) -> None:
    with pytest.raises(UnsupportedValueError, match=f"{type(record).__name__}.*output_type="):
        JSON.encoder(TAGGED).encode([1, record])


def test_json_refuses_endlessly_nested_values() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(UnsupportedValueError):
        JSON.encoder(TAGGED).encode([endless])


@pytest.mark.parametrize("record", ["ab", (1,), (1, 2, 3), 5, None, {"a": 1}])
def test_json_refuses_a_record_that_does_not_fit_the_row_type(record: Any) -> None:
    with pytest.raises(UnsupportedValueError):
        JSON.encoder(resolve_type("a bigint, b bigint")).encode([(1, 2), record])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.lists(json_values))
def test_json_gives_back_every_plain_value(values: list[Any]) -> None:
    encoded = JSON.encoder(TAGGED).encode(values)
    assert encoded.count(b"\n") == len(values)
    assert [json.loads(line) for line in encoded.split(b"\n")[:-1]] == values


def test_csv_has_a_header_and_quotes_text() -> None:
    records = [
        ("ada", 1, 1.5, True),
        ('say "hi", twice\n', None, 0.1, False),
        ("", 3, None, None),
        (None, 4, 1e300, True),
    ]
    assert csv_text(records, "name string, n bigint, x double, ok boolean") == (
        'name,n,x,ok\n"ada",1,1.5,true\n"say ""hi"", twice\n",,0.1,false\n"",3,,\n,4,1e+300,true\n'
    )


def test_csv_quotes_column_names_that_need_it() -> None:
    assert csv_text([(1, 2)], Types.ROW_NAMED(["a,b", 'c"'], [Types.LONG(), Types.LONG()])) == '"a,b","c"""\n1,2\n'


def test_csv_values_that_are_neither_numbers_nor_text() -> None:
    spec = (
        "at timestamp, local timestamp_ntz, day date, price decimal(10,2), raw binary, tags array<string>, "
        "counts map<string, bigint>, who struct<name: string, n: bigint>"
    )
    record = (
        NOON,
        NOON.replace(tzinfo=None),
        date(2026, 1, 31),
        Decimal("1.50"),
        b"\x00\xff",
        ["a", 'b"'],
        {"k": 1},
        ("x", 2),
    )
    header, line, empty = csv_text([record, (None,) * 8], spec).splitlines()
    assert header == "at,local,day,price,raw,tags,counts,who"
    assert line == (
        '"2026-01-31T12:00:00.250000Z","2026-01-31T12:00:00.250000",2026-01-31,1.50,"AP8=",'
        '"[""a"",""b\\""""]","{""k"":1}","{""name"":""x"",""n"":2}"'
    )
    assert empty == ",,,,,,,"


def test_csv_of_one_column_has_no_empty_lines(tmp_path: Path) -> None:
    text = csv_text([1, None, 3], Types.LONG())
    assert text == 'value\n"1"\n""\n"3"\n'
    (tmp_path / "one.csv").write_text(text)
    assert pa_csv.read_csv(tmp_path / "one.csv").to_pydict() == {"value": [1, None, 3]}


def test_csv_and_parquet_name_the_fields_of_a_tuple(tmp_path: Path) -> None:
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    assert csv_text([("a", 1)], pair) == 'f0,f1\n"a",1\n'
    assert parquet_table(PARQUET.encoder(pair), [[("a", 1)]], tmp_path).to_pylist() == [{"f0": "a", "f1": 1}]


@pytest.mark.parametrize("file_format", [CSV, PARQUET])
@pytest.mark.parametrize("record_type", [TAGGED, Types.PICKLED_BYTE_ARRAY(), Types.ROW_NAMED([], []), Types.TUPLE([])])
def test_column_formats_need_typed_columns(file_format: file_formats.FileFormat, record_type: TypeInformation) -> None:
    with pytest.raises(UsageError, match="column"):
        file_format.encoder(record_type)


def test_parquet_has_the_arrow_schema_of_the_record_type(tmp_path: Path) -> None:
    spec = "name string, n int, at timestamp, tags array<bigint>, who struct<a: string>, price decimal(10,2)"
    record_type = resolve_type(spec)
    record = ("ada", 1, NOON, [1, 2], ("x",), Decimal("1.50"))
    table = parquet_table(PARQUET.encoder(record_type), [[record], [(None,) * 6]], tmp_path)
    assert [field.type for field in table.schema] == [child.arrow for child in record_type.children]
    first, second = table.to_pylist()
    assert first == {"name": "ada", "n": 1, "at": NOON, "tags": [1, 2], "who": {"a": "x"}, "price": Decimal("1.50")}
    assert set(second.values()) == {None}


def test_parquet_row_groups_do_not_depend_on_the_size_of_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_formats, "ROW_GROUP_ROWS", 100)
    encoder = PARQUET.encoder(Types.LONG())
    batches = [[value] for value in range(250)] + [list(range(250, 500))]
    assert parquet_table(encoder, batches, tmp_path).column("value").to_pylist() == list(range(500))
    metadata = pq.read_metadata(tmp_path / "out.parquet")
    assert max(metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)) == 100


def test_text_is_one_line_per_record(tmp_path: Path) -> None:
    sink = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder("latin-1")).build()
    who = context(record_type=TAGGED)
    writer = sink.open(who)
    writer.begin_epoch()
    writer.write(["é", ("a", 1)])
    with pytest.raises(UnsupportedValueError, match="latin-1"):
        writer.write(["日"])
    for committable in pre_commit(writer, who):
        sink.commit(committable)
    (path,) = finished(tmp_path)
    assert path.suffix == ".txt" and path.read_text(encoding="latin-1") == "é\n('a', 1)\n"


def test_prefix_and_suffix_name_the_finished_files(tmp_path: Path) -> None:
    files = OutputFileConfig.builder().with_part_prefix("totals").with_part_suffix(".ndjson").build()
    assert (files.get_part_prefix(), files.get_part_suffix()) == ("totals", ".ndjson")
    sink = FileSink.for_row_format(str(tmp_path), "json").with_output_file_config(files).build()
    who = context()
    writer = sink.open(who)
    writer.begin_epoch()
    writer.write([("a", 1)])
    for committable in pre_commit(writer, who):
        sink.commit(committable)
    (path,) = finished(tmp_path)
    assert path.name.startswith("totals-") and path.name.endswith(".ndjson")


@pytest.mark.parametrize(
    ("prefix", "suffix"), [(".part", ""), ("_part", ""), ("", ""), ("a/b", ""), ("a", "/b"), ("a" * 200, "")]
)
def test_finished_files_may_not_look_hidden_or_leave_the_folder(prefix: str, suffix: str) -> None:
    with pytest.raises(UsageError):
        OutputFileConfig(prefix, suffix)


def test_wrong_formats_policies_and_paths_say_what_to_write_instead() -> None:
    with pytest.raises(UsageError, match="for_bulk_format"):
        FileSink.for_row_format("out", "parquet")
    with pytest.raises(UsageError, match="for_row_format"):
        FileSink.for_bulk_format("out", "json")
    with pytest.raises(UsageError, match="part_size"):
        RollingPolicy.default_rolling_policy(0)
    with pytest.raises(UsageError, match="s3://bucket"):
        FileSink.for_row_format("s3://bucket/out", "json")
    with pytest.raises(UsageError, match="empty"):
        FileSink.for_row_format("", "json")
    with pytest.raises(UsageError, match="charset"):
        Encoder.simple_string_encoder("no-such-charset")


def test_a_relative_path_is_made_absolute_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sink = FileSink.for_row_format("out/", "json").build()
    assert sink.path == str(tmp_path / "out")
    assert FileSink.for_row_format(f"file://{tmp_path}/a%20b", "json").build().path == str(tmp_path / "a b")


@pytest.mark.parametrize(
    ("declared", "record"),
    [
        ("id bigint, name string", ("one", "x")),
        ("id bigint, name string", (1, 2)),
        ("id bigint, name string", (2**63, "x")),
        ("flag boolean", (1.5,)),
        ("tags array<bigint>", (["a"],)),
    ],
)
def test_f23_json_refuses_a_value_that_is_not_of_its_declared_type(declared: str, record: tuple[Any, ...]) -> None:
    with pytest.raises(UnsupportedValueError):
        JsonLines(resolve_type(declared)).encode([record])
    JsonLines(resolve_type(declared)).encode([(None,) * len(record)])
