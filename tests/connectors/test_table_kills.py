"""A real job that writes a table: its driver dies around commits, and a reader polls all the time."""

import functools
import json
import operator
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake.exceptions import TableNotFoundError
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from penstock.model.types import resolve_type
from tests.connectors.table_formats import FORMATS, Delta, Iceberg, TableFormat
from tests.faults.events import Load, batch_result, write_events
from tests.faults.jobs import JobProcess, Place
from tests.faults.outcome import compare, read_state
from tests.waiting import LIMIT_S

pytestmark = [pytest.mark.e2e, pytest.mark.process, pytest.mark.timeout(900)]

LOAD = Load(events=20_000, keys=500, files=30)
SETTINGS = (("penstock.epoch.interval", "200 ms"),)
KILLS = ("C20.before:kill:role=driver:hit=3", "C20.after:kill:role=driver:hit=2", "C20.before:kill:role=driver:hit=1")
"""Before a commit of the running job, after one, and before the one of a recovery."""
RECORDS = resolve_type("id bigint, key string, amount bigint, count bigint")
NOT_YET = (TableNotFoundError, NoSuchTableError, NoSuchNamespaceError)


@pytest.mark.parametrize("format_name", sorted(FORMATS))
def test_q5_a_driver_that_dies_around_commits_loses_and_doubles_nothing(format_name: str, tmp_path: Path) -> None:
    events = tmp_path / "events"
    write_events(LOAD, events)
    place = Place(tmp_path / "job", events, sink=format_name, settings=SETTINGS)
    place.output.mkdir(parents=True)
    table = FORMATS[format_name](place.output)
    table.sink().check(RECORDS)  # makes a catalog for the reader
    with polled(table) as counts:
        for kill in KILLS:
            with JobProcess(place, PENSTOCK_FAILPOINT=kill) as job:
                assert job.wait(LIMIT_S) == -9, job.log_tail()
        with JobProcess(place) as job:
            assert job.wait(LIMIT_S) == 0, job.log_tail()
    rows = table.rows()
    expected = batch_result(events)
    verdict = compare(expected, read_state(place.job_folder), rows)
    assert verdict.exact, str(verdict)
    ids = [row["id"] for row in rows if row["id"] is not None]
    wanted = [id for some in expected.ids.values() for id in some]
    assert len(ids) == len(wanted) and xor(ids) == xor(wanted)
    markers, totals = commits(table)
    assert len(set(markers)) == len(markers) >= len(KILLS)  # one commit for each checkpoint
    assert counts and set(counts) <= {0, *totals}, "a reader has seen a part of a checkpoint"


def xor(ids: list[int]) -> int:
    return functools.reduce(operator.xor, ids, 0)


@contextmanager
def polled(table: TableFormat) -> Iterator[list[int]]:
    """The numbers of rows that a reader sees while the block runs."""
    counts: list[int] = []
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(0.02):
            try:
                counts.append(table.read().num_rows)
            except NOT_YET:
                counts.append(0)

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        yield counts
    finally:
        ended.set()
        reader.join()


def commits(table: TableFormat) -> tuple[list[int], list[int]]:
    """The marker of each commit, and the number of rows that a reader sees from there on."""
    if isinstance(table, Iceberg):
        summaries = [snapshot.summary for snapshot in table.table().snapshots()]
        found = [summary for summary in summaries if summary is not None]
        return [int(s["penstock.marker"] or -1) for s in found], [int(s["total-records"] or -1) for s in found]
    assert isinstance(table, Delta)
    markers, totals, total = [], [], 0
    for entry in sorted(Path(table.path, "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in entry.read_text(encoding="utf-8").splitlines()]
        markers += [action["txn"]["version"] for action in actions if "txn" in action]
        total += sum(json.loads(action["add"]["stats"])["numRecords"] for action in actions if "add" in action)
        totals.append(total)
    return markers, totals
