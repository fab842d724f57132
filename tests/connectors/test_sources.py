"""Sources as plain data."""

import pickle
from pathlib import Path

import pytest

from penstock.connectors.source_connectors import (
    BulkFormat,
    CollectionSource,
    FileSource,
    NumberSequenceSource,
    StreamFormat,
)
from penstock.errors import UsageError
from penstock.model.time import Duration
from penstock.model.types import TAGGED, Types, resolve_type

SCHEMA = "customer string, amount double"


@pytest.mark.parametrize("format_name", ["json", "csv", "parquet"])
def test_a_file_source_has_a_declared_type_and_is_bounded(tmp_path: Path, format_name: str) -> None:
    source = FileSource.of(tmp_path, format_name, SCHEMA)
    assert source.bounded and source.record_type == resolve_type(SCHEMA) and source.format == format_name
    assert source.paths == (str(tmp_path),)
    assert pickle.loads(pickle.dumps(source)) == source


def test_spark_gets_columns_and_options() -> None:
    assert FileSource.of("/in", "json", SCHEMA).schema_ddl == "`customer` string, `amount` double"
    nested = {"recursiveFileLookup": "true"}
    csv = {"mode": "FAILFAST", "header": "true", "escape": '"'}
    assert FileSource.of("/in", "csv", SCHEMA).options == {**csv, **nested}
    assert FileSource.of("/in", "json", SCHEMA).options == {"mode": "FAILFAST", **nested}
    assert FileSource.of("/in", "parquet", SCHEMA).options == nested
    text = FileSource.for_record_stream_format(StreamFormat.text_line_format("latin-1"), "/in", "/more").build()
    assert (text.options, text.schema_ddl, text.path) == ({"encoding": "latin-1", **nested}, None, "{/in,/more}")


def test_text_files_are_lines_of_strings() -> None:
    assert FileSource.of("in", "text").record_type == Types.STRING()


def test_monitoring_makes_a_source_unbounded_and_leaves_the_first_as_it_was() -> None:
    bounded = FileSource.of("in", "json", SCHEMA)
    monitored = bounded.monitor_continuously(Duration.of_seconds(2))
    assert bounded.bounded and not monitored.bounded and monitored.discovery_interval_ms == 2000
    with pytest.raises(UsageError, match="above 0"):
        bounded.monitor_continuously(Duration.of_millis(0))


def test_pyflinks_builder_gives_the_same_source(tmp_path: Path) -> None:
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path), "s3://bucket/in")
    builder.monitor_continuously(Duration.of_seconds(1))
    assert not builder.build().bounded
    source = builder.process_static_file_set().build()
    assert source.bounded and source.paths == (str(tmp_path), "s3://bucket/in")
    csv = FileSource.for_record_stream_format(StreamFormat.csv_format(SCHEMA), str(tmp_path)).build()
    assert csv == FileSource.of(str(tmp_path), "csv", SCHEMA)
    bulk = FileSource.for_bulk_file_format(BulkFormat.parquet_format(SCHEMA), str(tmp_path)).build()
    assert bulk == FileSource.of(str(tmp_path), "parquet", SCHEMA)
    lines = FileSource.for_record_stream_format(StreamFormat.json_line_format(SCHEMA), str(tmp_path)).build()
    assert lines == FileSource.of(str(tmp_path), "json", SCHEMA)


def test_wrong_file_sources_say_what_to_write_instead() -> None:
    with pytest.raises(UsageError, match="named columns"):
        FileSource.of("in", "json")
    with pytest.raises(UsageError, match="'parquet'"):
        FileSource.of("in", "avro", SCHEMA)
    with pytest.raises(UsageError, match="no path"):
        FileSource.for_record_stream_format(StreamFormat.text_line_format())
    with pytest.raises(UsageError, match="several paths"):
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/a,b", "/c")
    with pytest.raises(UsageError, match="empty"):
        FileSource.of("", "text")


def test_a_number_sequence_includes_both_ends() -> None:
    source = NumberSequenceSource(1, 10)
    assert len(source) == 10 and source.record_type == Types.LONG() and source.bounded
    for start, end in ((2, 1), (0, 2**63), (-(2**63) - 1, 0)):
        with pytest.raises(UsageError):
            NumberSequenceSource(start, end)


def test_a_collection_is_copied_when_the_source_is_created() -> None:
    records = [("a", 1)]
    source = CollectionSource.of(records, "name string, n bigint")
    records.append(("b", 2))
    assert source.records == (("a", 1),) and source.bounded
    assert CollectionSource.of([1]).record_type == TAGGED
