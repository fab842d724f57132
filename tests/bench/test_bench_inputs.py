"""The input of a workload: what is copied for the warm-up, how it is written, and what is expected of who reads it."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest

from bench.datasets import Dataset
from bench.engine import load_engine
from bench.inputs import Expected, Form, Reading, cut, ensure_input
from bench.workload import DAY_MS
from bench.workloads import WORKLOADS, load_workload

TINY = Dataset("tiny", rows=1_600, keys=30, events_per_s=100)


def read_batches(folder: Path) -> list[pa.Table]:
    """Oldest first, as Spark takes them."""
    paths = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    return [pa_parquet.read_table(path) for path in paths]


def test_copies_come_before_the_dataset_and_end_with_a_whole_one() -> None:
    places = Reading(Form.BATCHES, repeated_files=18, measured_files=2, warmup_files=18).places()
    assert places == [(2, 14), (2, 15), *((1, index) for index in range(16)), (0, 0), (0, 1)]


def test_an_engine_that_repeats_nothing_reads_its_own_part_of_the_dataset() -> None:
    workload = load_workload("w3")
    slow = load_engine("spark_tws_row").reading(workload, TINY, 2)
    assert slow == Reading(Form.BATCHES, repeated_files=0, measured_files=6, warmup_files=2)
    penstock = load_engine("penstock").reading(workload, TINY, 2)
    assert (penstock.repeated_files, penstock.measured_files, penstock.warmup_files) == (80, 16, 80)
    flink = load_engine("pyflink_thread").reading(workload, TINY, 2)
    assert (flink.form, flink.repeated_files, flink.measured_files, flink.warmup_files) == (Form.LINES, 0, 4, 0)


def test_batches_have_the_expected_rows_and_keys_that_no_copy_shares(tmp_path: Path) -> None:
    reading = Reading(Form.BATCHES, repeated_files=20, measured_files=16, warmup_files=20)
    own = ensure_input(load_workload("w3"), TINY, reading, tmp_path)
    files = read_batches(own.folder / "events")
    assert len(files) == 36 and {table.num_rows for table in files} == {100}
    keys = pa.concat_tables(files)["key"].to_pylist()
    assert own.expected == Expected(rows=3_600, rows_out=len(set(keys)), warmup_rows=2_000)
    assert {key.partition("-")[0] for key in keys} == {"copy2", "copy1", "user"}
    assert files[0]["key"][0].as_py().startswith("copy2") and files[-1]["key"][0].as_py().startswith("user")


def test_copies_of_timed_rows_are_days_earlier_and_the_last_row_a_day_later(tmp_path: Path) -> None:
    workload = load_workload("w6_q11")
    own = ensure_input(workload, TINY, Reading(Form.BATCHES, 16, 16, 16), tmp_path)
    *files, closing = read_batches(own.folder / "bids")
    first, second = (table["ts"].to_pylist() for table in (files[0], files[16]))
    assert [ts + DAY_MS for ts in first] == second
    assert closing["ts"].to_pylist() == [files[-1]["ts"][-1].as_py() + DAY_MS]
    once = workload.results({"bids": pa.concat_tables(files[16:])})
    assert own.expected == Expected(3_200, 2 * once, warmup_rows=1_600, closing_rows=1)


def test_every_stream_of_a_join_has_its_folder(tmp_path: Path) -> None:
    own = ensure_input(load_workload("w4"), TINY, Reading(Form.BATCHES, 0, 4, 2), tmp_path)
    left, right = (pa.concat_tables(read_batches(own.folder / name)) for name in ("left", "right"))
    assert own.expected.rows == left.num_rows + right.num_rows == 400 and own.expected.warmup_rows == 200
    assert own.expected.rows_out == load_workload("w4").results({"left": left, "right": right})


@pytest.mark.parametrize("keys", [30, 5_000])
def test_the_warm_up_of_w5_writes_every_key(keys: int) -> None:
    workload, dataset = load_workload("w5"), replace(TINY, keys=keys)
    for name in ("penstock_rocksdb", "pyflink_thread"):
        reading = load_engine(name).reading(workload, dataset, 2)
        tables = workload.tables(dataset)
        warmup = [part["events"] for _, part in list(cut(workload, tables, dataset, reading))[: reading.warmup_files]]
        written = set(pa.concat_tables(warmup)["key"].to_pylist())
        assert len(written) == keys and written >= set(tables["events"]["key"].to_pylist())


def test_lines_hold_alternate_rows_and_no_closing_row(tmp_path: Path) -> None:
    own = ensure_input(load_workload("w6_q7"), TINY, Reading(Form.LINES, 0, 2, 0), tmp_path)
    options = pa_csv.ReadOptions(column_names=["auction", "bidder", "price", "ts"])
    rows = [pa_csv.read_csv(own.folder / "bids" / f"part-{n}.csv", options).to_pylist() for n in range(2)]
    interleaved = [row for pair in zip(*rows, strict=True) for row in pair]
    bids = load_workload("w6_q7").tables(TINY)["bids"].slice(0, 200)
    assert interleaved == bids.to_pylist()
    assert own.expected.closing_rows == 0 and own.expected.inner_rows > own.expected.rows_out


def test_headed_files_name_their_columns(tmp_path: Path) -> None:
    own = ensure_input(load_workload("w3"), TINY, Reading(Form.HEADED, 0, 16, 2), tmp_path)
    tables = [pa_csv.read_csv(path) for path in sorted((own.folder / "events").iterdir())]
    assert pa.concat_tables(tables).to_pylist() == load_workload("w3").tables(TINY)["events"].to_pylist()


def test_an_input_that_is_there_is_used_as_it_is(tmp_path: Path) -> None:
    reading = Reading(Form.LINES, 0, 2, 0)
    first = ensure_input(load_workload("w3"), TINY, reading, tmp_path)
    (first.folder / "events" / "part-0.csv").unlink()
    second = ensure_input(load_workload("w3"), TINY, reading, tmp_path)
    assert second == first and not (second.folder / "events" / "part-0.csv").exists()


def test_results_are_at_most_as_many_as_rows_say(tmp_path: Path) -> None:
    """Every workload with an input can be written in every form."""
    for workload in WORKLOADS.values():
        if workload.reads_input:
            for form in Form:
                expected = ensure_input(workload, TINY, Reading(form, 1, 2, 1), tmp_path).expected
                assert expected.rows > expected.warmup_rows > 0 and expected.rows_out > 0
