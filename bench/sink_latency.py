"""How long rows take to become visible, per sink: `python -m bench.sink_latency [--seconds 30] [--sinks files,kafka]`.

A job makes 1,000 rows a second, each with the time at which its function ran, and writes them exactly once, with a
checkpoint every second. A reader polls the other system all the time. Printed for each sink: from the function to the
reader (median and longest, which should stay below interval + duration of a checkpoint + what the reader takes), and
from a checkpoint's trigger and its completion to the reader.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from penstock.checkpoint.stats.checkpoint_history import CheckpointStats
from penstock.control.registry import Registry
from penstock.services import start_service

SINKS = ("files", "sqlite", "postgres", "kafka", "delta", "iceberg", "hdfs")
INTERVAL_MS = 1_000
POLL_S = 0.005
WARM_UP_S = 10.0
PROGRAM = Path(__file__).with_name("programs") / "timed_rows.py"

Times = list[int]
Reader = Callable[[], Times]
"""The times of the rows that have become visible since the last call."""


def main() -> None:
    """Print one line for each sink."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--sinks", default=",".join(SINKS))
    options = parser.parse_args()
    for sink in options.sinks.split(","):
        with tempfile.TemporaryDirectory() as name:
            print(measure(sink, Path(name), options.seconds), flush=True)


def measure(sink: str, folder: Path, seconds: float) -> str:
    """Run the job and poll."""
    with service_of(sink, folder) as address:
        registry = Registry(folder / "registry")
        environment = {**os.environ, "SPARK_LOCAL_DIRS": str(folder / "spark")}
        command = [sys.executable, str(PROGRAM), sink, address, str(folder), str(INTERVAL_MS)]
        with open(folder / "log", "wb") as log:
            job = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            seen, checkpoints = poll(readers()[sink](address, folder), registry, job, seconds)
        except RuntimeError:
            raise SystemExit((folder / "log").read_text(encoding="utf-8", errors="replace")) from None
        finally:
            job.terminate()
            with suppress(subprocess.TimeoutExpired):
                job.wait(60)
            job.kill()
            job.wait()
    return report(sink, seen, checkpoints)


def poll(
    read: Reader, registry: Registry, job: "subprocess.Popen[bytes]", seconds: float
) -> tuple[list[tuple[int, Times]], dict[int, CheckpointStats]]:
    """When which rows became visible, and the checkpoints meanwhile."""
    seen: list[tuple[int, Times]] = []
    checkpoints: dict[int, CheckpointStats] = {}
    begun_s = looked_s = 0.0
    while not begun_s or time.monotonic() - begun_s < WARM_UP_S + seconds:
        if job.poll() is not None:
            raise RuntimeError("the job has ended")
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


def report(sink: str, seen: list[tuple[int, Times]], checkpoints: dict[int, CheckpointStats]) -> str:
    """The figures in one line. A row belongs to the newest checkpoint that was complete when it became visible."""
    done = sorted((c for c in checkpoints.values() if c.complete_ms is not None), key=lambda c: c.complete_ms or 0)
    ends = [c.complete_ms or 0 for c in done]
    age = [visible_ms - time_ms for visible_ms, times in seen for time_ms in times]
    found = [(visible_ms, done[bisect_right(ends, visible_ms) - 1]) for visible_ms, _ in seen]
    since_trigger = [visible_ms - checkpoint.trigger_ms for visible_ms, checkpoint in found]
    since_end = [visible_ms - (checkpoint.complete_ms or 0) for visible_ms, checkpoint in found]
    durations = [checkpoint.duration_ms or 0 for _, checkpoint in found]
    return (
        f"{sink:9} {len(age):6} rows, {len(seen):3} times; from the function {middle(age)} ms, at most {max(age)}; "
        f"a checkpoint takes {middle(durations)} ms, at most {max(durations)}; visible {middle(since_trigger)} ms "
        f"after its trigger, {middle(since_end)} ms after its end, at most {max(since_end)}"
    )


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
    main()
