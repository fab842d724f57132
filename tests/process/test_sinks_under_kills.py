"""Every sink but Kafka's, while everything that can die does: one job for each, and a reader that looks all the time.

A Python worker, a TaskManager and the driver are killed at each of the five moments of a checkpoint, and while a
transaction is open or a file is half published. A reader that ever saw a part of a checkpoint would find a marker with
two numbers of rows, or a file with two sizes.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from penstock.model.ids import new_nonce
from tests.faults.destinations import (
    DeltaOutput,
    Destination,
    HdfsOutput,
    IcebergOutput,
    LocalOutput,
    PostgresOutput,
    SqliteOutput,
    polled,
    require_whole,
)
from tests.faults.events import Load
from tests.faults.halts import MOMENTS, VICTIMS
from tests.faults.outcome import Row, strays
from tests.faults.sink_job import SinkJob

pytestmark = [pytest.mark.e2e, pytest.mark.process, pytest.mark.timeout(1800)]
LOAD = Load(events=200_000, keys=500, files=100)
SHORT = Load(events=60_000, keys=500, files=60)
AROUND = ("C20.after:kill:role=driver:hit=2", "C20.before:kill:role=driver:hit=1")
"""The driver dies after a commit, and then before that of its recovery."""
AT_LEAST_ONCE = (("execution.checkpointing.mode", "AT_LEAST_ONCE"), ("penstock.epoch.interval", "200 ms"))


@pytest.mark.parametrize("name", ["delta", "file", "hdfs", "iceberg", "postgres", "sqlite"])
def test_q5_kills_at_every_moment_of_a_checkpoint_lose_and_double_nothing(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    job, output = job_into(name, tmp_path, request)
    with polled(output.look) as seen:
        job.strike_at(MOMENTS)
        job.die_at(*AROUND)
        job.take_larger_epochs(4)
        job.strike_within(output.is_committing, *VICTIMS)
        job.finish()
    job.require_exact(output.rows())
    require_whole(seen)
    assert strays(job.place.job_folder, job.place.output) == []


@pytest.mark.parametrize("name", ["postgres", "sqlite"])
def test_q7_at_least_once_repeats_rows_and_a_table_by_key_ends_equal(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    newest, every = (table_of(name, tmp_path, request)(*words) for words in (("newest", "key"), ("every",)))
    job = SinkJob(tmp_path, f"{newest.sink}+{every.sink}", SHORT, settings=AT_LEAST_ONCE)
    assert "delivery: at least once; state is exactly once" in job.place.guarantee_report()
    assert "delivery: effectively once" in replace(job.place, sink=newest.sink).guarantee_report()
    # Before C17 the rows of the epochs are in the tables, and the checkpoint that covers them is lost: they come again.
    job.strike_at({("C17.before", "driver"): (2, 3, 4)})
    job.strike_within(newest.is_committing, *VICTIMS)
    job.finish()
    rows = every.rows()
    distinct = {tuple(row.values()): row for row in rows}
    assert len(rows) > len(distinct), "nothing was repeated: the kills came too early"
    job.require_exact(list(distinct.values()))
    assert by_key(newest.rows()) == by_key(row for row in distinct.values() if row["id"] is None)


def by_key(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["key"])


def job_into(name: str, folder: Path, request: pytest.FixtureRequest) -> tuple[SinkJob, Destination]:
    """A job with one sink, and where that writes to."""
    if name == "hdfs":
        address, path = request.getfixturevalue("hdfs").address, f"/job-{new_nonce()}"
        return SinkJob(folder, HdfsOutput.sink, LOAD, remote=address + path), HdfsOutput(address, f"{path}/out")
    if name in ("postgres", "sqlite"):
        table = table_of(name, folder, request)("tally")
        return SinkJob(folder, table.sink, LOAD), table
    job = SinkJob(folder, name, LOAD)
    kinds: dict[str, Callable[[Path], Destination]] = {
        "delta": DeltaOutput,
        "file": LocalOutput,
        "iceberg": IcebergOutput,
    }
    return job, kinds[name](job.place.output)


def table_of(name: str, folder: Path, request: pytest.FixtureRequest) -> Callable[..., Destination]:
    """Makes tables of one database, by their names and keys."""
    if name == "sqlite":
        return partial(SqliteOutput, folder / "tally.db")
    return partial(PostgresOutput, request.getfixturevalue("database"))
