"""How long rows take to become visible, per sink: `python -m bench.sink_latency [--seconds 30] [--sinks files,kafka]`.

A job makes 1,000 rows a second, each with the time at which its function ran, and writes them exactly once, with a
checkpoint every second. A reader polls the other system all the time. Printed for each sink: from the function to the
reader (median, 95th percentile and longest), how long a checkpoint took as the job reports it, and how long after its
end its rows were visible, which includes what the reader takes.

The limit of a row is the interval + the duration of its checkpoint. Exit codes: 0 if of each sink 95 % of the rows were
within their limit, 1 if not, or if a job has failed.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import RoundFailedError
from bench.figures import limit_line
from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.control.registry import Registry
from penstock.services import start_service

SINKS = ("files", "sqlite", "postgres", "kafka", "delta", "iceberg", "hdfs")
INTERVAL_MS = 1_000
POLL_S = 0.005
WARM_UP_S = 10.0
START_LIMIT_S = 180.0
LEAST_PERCENT = 95.0
PROGRAM = Path(__file__).with_name("programs") / "timed_rows.py"

Times = list[int]
Reader = Callable[[], Times]
"""The times of the rows that have become visible since the last call."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of each sink and its verdict; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="length of the measurement of each sink")
    parser.add_argument("--sinks", default=",".join(SINKS), help="names of sinks, separated by commas")
    options = parser.parse_args(arguments)
    are_within = []
    for sink in options.sinks.split(","):
        with tempfile.TemporaryDirectory() as name:
            try:
                found = measure(sink, Path(name), options.seconds)
            except RoundFailedError as error:
                print(f"{sink}: {error}", flush=True)
                are_within.append(False)
                continue
        print("\n".join(to_lines(sink, found)), flush=True)
        are_within.append(found.percent_within >= LEAST_PERCENT)
    return 0 if all(are_within) else 1


@dataclass(frozen=True)
class Latencies:
    """What was seen of one sink, in milliseconds."""

    ages: list[int]
    """Of each row, from its function to the reader."""
    durations: list[int]
    """Of each row, that of its checkpoint."""
    published: list[int]
    """Of each time that rows became visible, since the end of their checkpoint."""

    @property
    def percent_within(self) -> float:
        """The part of the rows that were visible within the interval + the duration of their checkpoint."""
        within = sum(age <= INTERVAL_MS + duration for age, duration in zip(self.ages, self.durations, strict=True))
        return 100 * within / len(self.ages)


def measure(sink: str, folder: Path, seconds: float) -> Latencies:
    """Run the job and poll."""
    with service_of(sink, folder) as address:
        registry = Registry(folder / "registry")
        environment = {**os.environ, "SPARK_LOCAL_DIRS": str(folder / "spark")}
        command = [sys.executable, str(PROGRAM), sink, address, str(folder), str(INTERVAL_MS)]
        with open(folder / "log", "wb") as log:
            job = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            seen, checkpoints = poll(readers()[sink](address, folder), registry, job, seconds)
        except RoundFailedError as error:
            log_text = (folder / "log").read_text(encoding="utf-8", errors="replace")
            raise RoundFailedError(f"{error}; it said:\n{log_text}") from None
        finally:
            job.terminate()
            with suppress(subprocess.TimeoutExpired):
                job.wait(60)
            job.kill()
            job.wait()
    return to_latencies(seen, checkpoints)


def poll(
    read: Reader, registry: Registry, job: "subprocess.Popen[bytes]", seconds: float
) -> tuple[list[tuple[int, Times]], dict[int, CheckpointStats]]:
    """When which rows became visible, and the checkpoints meanwhile."""
    seen: list[tuple[int, Times]] = []
    checkpoints: dict[int, CheckpointStats] = {}
    begun_s = looked_s = 0.0
    limit_s = time.monotonic() + START_LIMIT_S
    while not begun_s or time.monotonic() - begun_s < WARM_UP_S + seconds:
        if job.poll() is not None:
            raise RoundFailedError(f"the job has ended with {job.returncode}")
        if not begun_s and time.monotonic() > limit_s:
            raise RoundFailedError(f"no row was visible within {START_LIMIT_S:.0f} s")
        times = read()
        if times:
            begun_s = begun_s or time.monotonic()
            if time.monotonic() - begun_s > WARM_UP_S:
                seen.append((now_ms(), times))
        if time.monotonic() - looked_s > 1.0:
            looked_s = time.monotonic()
            for record in registry.list():
                checkpoints |= {stats.checkpoint_id: stats for stats in registry.read_checkpoints(record.job_id)}
        time.sleep(POLL_S)
    return seen, checkpoints


def to_latencies(seen: list[tuple[int, Times]], checkpoints: dict[int, CheckpointStats]) -> Latencies:
    """The figures. A row belongs to the newest checkpoint that was complete when it became visible."""
    done = sorted((c for c in checkpoints.values() if c.status == "completed"), key=lambda c: c.complete_ms or 0)
    ends = [c.complete_ms or 0 for c in done]
    ages: list[int] = []
    durations: list[int] = []
    published: list[int] = []
    for visible_ms, times in seen:
        place = bisect_right(ends, visible_ms) - 1
        if place < 0:
            raise RoundFailedError("rows were visible before a checkpoint was complete")
        ages += [visible_ms - time_ms for time_ms in times]
        durations += [done[place].duration_ms or 0] * len(times)
        published.append(visible_ms - ends[place])
    if not ages:
        raise RoundFailedError("no row became visible after the warm-up")
    return Latencies(ages, durations, published)


def to_lines(sink: str, found: Latencies) -> list[str]:
    """The figures for people.

    >>> print("\\n".join(to_lines("files", Latencies([300, 900, 1400], [200, 200, 200], [20, 30]))))
    files: 3 rows, visible after 900 ms, 95 % of them within 1,400 ms, the longest after 1,400 ms
    files: a checkpoint takes 200 ms, at most 200 ms; its rows are visible 25 ms after its end, at most 30 ms
    files: 66.7 % of the rows are visible within interval + duration (limit: at least 95 %): MISSED
    """
    durations = found.durations
    return [
        f"{sink}: {len(found.ages):,} rows, visible after {middle(found.ages):,} ms, {LEAST_PERCENT:.0f} % of them "
        f"within {percentile(found.ages, LEAST_PERCENT):,} ms, the longest after {max(found.ages):,} ms",
        f"{sink}: a checkpoint takes {middle(durations):,} ms, at most {max(durations):,} ms; its rows are visible "
        f"{middle(found.published):,} ms after its end, at most {max(found.published):,} ms",
        limit_line(
            f"{sink}: {found.percent_within:.1f} % of the rows are visible within interval + duration",
            f"at least {LEAST_PERCENT:.0f} %",
            is_within=found.percent_within >= LEAST_PERCENT,
        ),
    ]


def percentile(values: list[int], percent: float) -> int:
    """The smallest value that is not below so many of them.

    >>> percentile([4, 1, 3, 2], 50)
    2
    """
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def middle(values: list[int]) -> int:
    """The median."""
    return round(statistics.median(values))


def now_ms() -> int:
    """The clock that the job's function uses too."""
    return time.time_ns() // 1_000_000


@contextmanager
def service_of(sink: str, folder: Path) -> Iterator[str]:
    """The address of the system that the sink writes to; a folder where it needs none."""
    if sink not in ("kafka", "postgres", "hdfs"):
        yield str(folder / "out")
        return
    running = start_service(sink, folder / "service")
    try:
        if sink == "kafka":
            from confluent_kafka.cimpl import NewTopic

            from penstock.connectors.kafka.client import open_admin

            admin = open_admin({"bootstrap.servers": running.address})  # its requests end with it
            admin.create_topics([NewTopic("out", 4, 1)])["out"].result()
        yield running.address
    finally:
        running.stop()


# ---- readers


def readers() -> dict[str, Callable[[str, Path], Reader]]:
    """By the name of the sink."""
    return {
        "files": read_files,
        "sqlite": read_sqlite,
        "postgres": read_postgres,
        "kafka": read_kafka,
        "delta": read_delta,
        "iceberg": read_iceberg,
        "hdfs": read_hdfs,
    }


def read_files(address: str, folder: Path) -> Reader:
    """Finished files that were not there before."""
    known: set[str] = set()

    def read() -> Times:
        names = {name for name in os.listdir(address) if name[0] not in "._"} if os.path.exists(address) else set()
        new = names - known
        known.update(new)
        lines = [line for name in new for line in Path(address, name).read_text(encoding="utf-8").splitlines()]
        return [json.loads(line)["at"] for line in lines]

    return read


def read_hdfs(address: str, folder: Path) -> Reader:
    """The same in HDFS."""
    from penstock.storage import open_storage

    storage, known = open_storage(f"{address}/out"), set[str]()

    def read() -> Times:
        new = {name for name in storage.list("") if name[0] not in "._"} - known
        known.update(new)
        return [json.loads(line)["at"] for name in new for line in storage.read(name).splitlines()]

    return read


def read_sqlite(address: str, folder: Path) -> Reader:
    """Rows with higher numbers than the last one."""
    import sqlite3

    def query(last: int) -> list[Any]:
        with closing(sqlite3.connect(address)) as connection:
            return connection.execute(_NEWER.format(last)).fetchall()

    return _by_number(query, sqlite3.Error)


def read_postgres(address: str, folder: Path) -> Reader:
    """The same."""
    import psycopg

    connection = psycopg.connect(address, autocommit=True)
    return _by_number(lambda last: connection.execute(_NEWER.format(last)).fetchall(), psycopg.Error)


_NEWER = "SELECT id, at FROM timed WHERE id > {}"


def _by_number(query: Callable[[int], list[Any]], missing: type[Exception]) -> Reader:
    last = -1

    def read() -> Times:
        nonlocal last
        try:
            rows = query(last)
        except missing:
            return []  # the table comes with the first checkpoint, or is locked
        last = max([last, *(row[0] for row in rows)])
        return [row[1] for row in rows]

    return read


def read_kafka(address: str, folder: Path) -> Reader:
    """Committed messages."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": address, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "fetch.wait.max.ms": 10})
    consumer.assign([TopicPartition("out", number, 0) for number in range(4)])

    def read() -> Times:
        messages = consumer.consume(10_000, POLL_S)
        return [json.loads(message.value() or b"{}")["at"] for message in messages if message.error() is None]

    return read


def read_delta(address: str, folder: Path) -> Reader:
    """Files that are new in the newest version of the table."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    def files() -> set[str]:
        return set(DeltaTable(address).file_uris())

    return _by_parquet(files, TableNotFoundError)


def read_iceberg(address: str, folder: Path) -> Reader:
    """The same."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    from bench.programs.timed_rows import iceberg_catalog

    catalog = load_catalog("bench", **iceberg_catalog(folder))

    def files() -> set[str]:
        table = catalog.load_table("bench.timed")
        return {task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()}

    return _by_parquet(files, (NoSuchNamespaceError, NoSuchTableError))


def _by_parquet(files: Callable[[], set[str]], missing: Any) -> Reader:
    import pyarrow.parquet as pq

    known: set[str] = set()

    def read() -> Times:
        try:
            new = files() - known
        except missing:
            return []
        known.update(new)
        return [at for file in new for at in pq.read_table(file).column("at").to_pylist()]

    return read


if __name__ == "__main__":
    sys.exit(main())
