"""A warm-up of Spark while a job starts: its Python workers, and the classes that every epoch needs.

It is a Spark job of its own on rows that mean nothing. No TaskManager, source or log knows of it. Without it the first
epoch does all this, and lasts seconds.
"""

import threading
from collections.abc import Iterator
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.spark.pipe import RESULT_DDL, SUBTASK, ignore_interrupts
from penstock.spark.session import QUERY_SETTINGS, is_local

POLL_S = 0.05
_done: WeakKeyDictionary[SparkContext, threading.Event] = WeakKeyDictionary()


def start_warm_up(session: SparkSession) -> None:
    """Warm up a local session in the background, once."""
    context = session.sparkContext
    if context in _done or not is_local(context.master or ""):
        return
    _done[context] = done = threading.Event()
    threading.Thread(target=_run, args=(session, done), name="warm-up", daemon=True).start()


def wait_for_warm_up(session: SparkSession, give_up: threading.Event) -> None:
    """Return when the warm-up has ended, or there is none, or `give_up` is set."""
    done = _done.get(session.sparkContext)
    while done is not None and not done.wait(POLL_S) and not give_up.is_set():
        continue


def _run(session: SparkSession, done: threading.Event) -> None:
    try:
        _run_job(session.newSession())
    except Exception:
        return  # whatever it is, the first epoch has the same problem and reports it
    finally:
        done.set()


def _run_job(session: SparkSession) -> None:
    """The plan of an epoch in small: rows and barriers, an exchange by key, and a Python function."""
    for key, value in QUERY_SETTINGS.items():
        session.conf.set(key, value)
    session.sparkContext.setJobDescription("penstock: start Python workers")
    count = int(session.sparkContext.defaultParallelism)
    rows = session.range(0, count, 1, 1).selectExpr(
        "cast(0 as int) as edge",
        "cast(null as binary) as barrier",
        f"cast(pmod(hash(cast(id as string)), 128) * {count} div 128 as int) as {SUBTASK}",
        "cast(id as string) as value",
    )
    barriers = session.range(0, count, 1, 1).selectExpr(
        "cast(1 as int) as edge", "cast(X'00' as binary) as barrier", f"cast(id as int) as {SUBTASK}", "null as value"
    )
    rows.union(barriers).repartitionById(count, SUBTASK).mapInArrow(_consume, RESULT_DDL).collect()


def _consume(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the rows and return none. It is pickled by reference, so a worker imports what an epoch needs."""
    ignore_interrupts()
    for _ in batches:
        continue
    yield from ()
