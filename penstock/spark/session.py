"""The Spark session: one that Penstock makes, or one that the user provides.

A session that Penstock makes listens on loopback only, has no web UI, retries tasks also in local mode and writes its
log to a file. A session of the user keeps its settings; a setting that Penstock cannot run with is an error.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import UsageError
from penstock.model.units import MIB
from penstock.runtime.process.log_parts import NO_LIMITS, LogLimits
from penstock.spark.class_archive import archive_options
from penstock.spark.java import require_java
from penstock.spark.spark_log import begin_spark_log

DEFAULT_MASTER = "local[*,4]"
RETENTION = {
    # Positions are in our checkpoints. They need the last two compactions of a file source's log, of 10 batches each.
    "spark.sql.streaming.minBatchesToRetain": "40",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "10s",
}
"""What Spark keeps of its own logs. A file source takes it from the session in which the program has made it."""
SESSION_SETTINGS: dict[str, str] = {
    **RETENTION,
    "spark.ui.enabled": "false",
    "spark.ui.killEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.dynamicAllocation.enabled": "false",
    "spark.speculation": "false",
    "spark.driver.memory": "2g",
    # Spark removes the shuffle files of an epoch after Java has collected its plan, which is old by then.
    "spark.cleaner.periodicGC.interval": "2min",
}
COLLECTOR_OPTIONS = "-XX:+ExplicitGCInvokesConcurrent"
"""Of a JVM that Penstock starts: such a collection does not stop the job."""
HADOOP_PREFIX = "spark.hadoop."
COLLATED_HASHES = "spark.sql.legacy.collationAwareHashFunctions"
"""With it the hash of a key depends on its collation; ours depends on its characters alone."""
QUERY_SETTINGS: dict[str, str] = {
    # PROTOCOL R15: with AQE an empty exchange runs no task at all.
    "spark.sql.adaptive.enabled": "false",
    # A stage with two readers must not read its own input twice.
    "spark.sql.exchange.reuse": "true",
    # An empty epoch takes its position from offsets that Spark must not have purged.
    **RETENTION,
    "spark.sql.streaming.pollingDelay": "200",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    # Also for a DataFrame of another session than the one that is checked.
    COLLATED_HASHES: "false",
}
"""Set on the session of each query only."""


def query_settings(batch_rows: int) -> dict[str, str]:
    """The settings of a query whose TaskManagers get at most `batch_rows` rows in an Arrow batch."""
    return {
        **QUERY_SETTINGS,
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(batch_rows),
        # A row of the plan may be a cell of many rows.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(64 * MIB),
    }


def clone_session(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session with the settings, views and functions of another one, and these settings. The other is not changed."""
    clone = SparkSession(session.sparkContext, session._jsparkSession.cloneSession())
    for key, value in settings.items():
        clone.conf.set(key, value)
    return clone


def in_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """The same rows, computed with the settings of another session."""
    jvm: Any = session.sparkContext._jvm
    plan = frame._jdf.queryExecution().analyzed()
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan), session)


def make_session(
    settings: Mapping[str, str],
    log_level: str | None = None,
    *,
    class_archive: bool = False,
    log_folder: Path | None = None,
    log_limits: LogLimits = NO_LIMITS,
) -> SparkSession:
    """A new session, or the active one. With a `log_level` Spark's own log goes to the terminal.

    Args:
        settings: Keys and values of Spark.
        log_level: Of Spark's own log.
        class_archive: Its JVM starts with an archive of Spark's classes, or records one.
        log_folder: Where its JVM has a log for what it prints, if not on the terminal. None: nowhere.
        log_limits: Of that log.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        check_session(active)
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    chosen = {"spark.master": DEFAULT_MASTER, **SESSION_SETTINGS, **_submitted(log_level), **settings}
    builder = SparkSession.builder.appName("penstock")
    if chosen["spark.master"].startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    for key, value in chosen.items():
        builder = builder.config(key, value)
    options = ""
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        log_folder = None  # its JVM runs already
    else:
        require_java()
        options = f"{COLLECTOR_OPTIONS} {archive_options(chosen) if class_archive else ''}".rstrip()
    with _quiet(log_level, log_folder, log_limits), _no_orphan(), _jvm_options(options):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel(log_level or "OFF")
    return session


@contextmanager
def _jvm_options(options: str) -> Iterator[None]:
    """Options of a JVM that starts now, before those that the user has set."""
    before = os.environ.get("SPARK_SUBMIT_OPTS")
    if options:
        os.environ["SPARK_SUBMIT_OPTS"] = f"{options} {before or ''}".rstrip()
    try:
        yield
    finally:
        if options and before is None:
            del os.environ["SPARK_SUBMIT_OPTS"]
        elif before is not None:
            os.environ["SPARK_SUBMIT_OPTS"] = before


@contextmanager
def _no_orphan() -> Iterator[None]:
    """End a JVM whose start was interrupted: PySpark has forgotten it, and it would wait for ever to be found."""
    before = set(psutil.Process().children())
    try:
        yield
    except BaseException:
        if SparkContext._gateway is None:
            for process in set(psutil.Process().children()) - before:
                process.kill()
        raise


def _submitted(log_level: str | None) -> dict[str, str]:
    """The settings of `spark-submit`, whose JVM runs already; empty without it."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()
    if log_level is None:
        log4j: Any = SparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
        log4j.core.config.Configurator.setRootLevel(log4j.Level.OFF)
    settings = dict(SparkConf().getAll())
    if settings.get("spark.master") == "local[*]":
        del settings["spark.master"]  # the default of spark-submit
    return settings


def check_session(session: SparkSession) -> None:
    """Raise unless jobs can run on this session."""
    require_classic(session)
    settings = session.sparkContext.getConf()
    if settings.get("spark.speculation", "false") == "true":  # PROTOCOL section 3, step 2
        raise UsageError("spark.speculation is true; a subtask's epoch runs once: set spark.speculation=false")
    if settings.get("spark.dynamicAllocation.enabled", "false") == "true":
        raise UsageError("spark.dynamicAllocation.enabled is true; state lives on the executors: set it to false")
    require_plain_hashes(session)


def require_plain_hashes(session: SparkSession) -> None:
    """Raise if Spark and Penstock would compute different hashes, and so different owners, of one key."""
    if str(session.conf.get(COLLATED_HASHES, "false")).lower() == "true":
        raise UsageError(
            f"{COLLATED_HASHES} is true; the key group of a key is made of the hash of its characters: set it to false"
        )


def require_classic(session: SparkSession) -> None:
    """Raise for a session of Spark Connect."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise UsageError(
            "a Spark Connect session cannot run Penstock jobs: functions would run outside the driver; "
            "make a classic session with SparkSession.builder.master(…)"
        )


def session_setting(session: SparkSession, key: str) -> str | None:
    """The value of a setting, also of one of Hadoop's; None if it is not set and has no default."""
    if key.startswith(HADOOP_PREFIX):
        value = session._jsc.hadoopConfiguration().get(key.removeprefix(HADOOP_PREFIX))
        return None if value is None else str(value)
    return session.conf.get(key, None)


def is_local(master: str) -> bool:
    """Whether the executor is the driver's own JVM.

    >>> [is_local(master) for master in ("local", "local[2,4]", "local-cluster[2,1,1024]", "yarn")]
    [True, True, False, False]
    """
    return master == "local" or master.startswith("local[")


def is_alive(session: SparkSession) -> bool:
    """Whether the session still works, so that another attempt on it may succeed."""
    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except Exception:
        return False


@contextmanager
def _quiet(log_level: str | None, log_folder: Path | None, log_limits: LogLimits) -> Iterator[None]:
    """The JVM inherits standard error when it starts: redirect that to a file, so that its messages stay there."""
    if log_level is not None:
        yield
        return
    try:
        sink = os.open(os.devnull, os.O_WRONLY) if log_folder is None else begin_spark_log(log_folder, log_limits)
    except OSError:
        sink = os.open(os.devnull, os.O_WRONLY)  # a read-only home is no reason to fail
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(sink, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(sink)
