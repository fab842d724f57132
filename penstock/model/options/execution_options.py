"""Options of epochs, and of the processes that run them."""

from penstock.model.option import Option
from penstock.model.option_types import Boolean, Integer, Milliseconds, Text, Word

EPOCH_INTERVAL = Option(
    "penstock.epoch.interval",
    Milliseconds(),
    0,
    "Minimum time between the starts of two epochs. 0: an epoch starts as soon as there is data.",
)
EPOCH_MAX_ROWS = Option(
    "penstock.epoch.max-rows",
    Integer(least=0),
    0,
    "The most rows in an epoch, for sources that can limit them. 0: no limit. With PySpark 4.1 collections, topics and "
    "number sequences have none.",
)
EPOCH_MAX_FILES = Option(
    "penstock.epoch.max-files",
    Integer(least=0),
    0,
    "The most new files that each FileSource reads in an epoch. 0: no limit.",
)
EPOCH_TARGET = Option(
    "penstock.epoch.target",
    Milliseconds(),
    5_000,
    "How long an epoch should take while more files or records of topics wait than one epoch can read. The first epoch "
    "reads few, later ones as many as the measured speed allows. A shorter checkpoint interval takes the place of the "
    "target, down to 1 s. A limit that is set wins: `penstock.epoch.max-files`, or `maxFilesPerTrigger`, "
    "`maxBytesPerTrigger` or `latestFirst` of a source; `penstock.epoch.max-rows` for a `KafkaSource`. Other sources "
    "are not limited. 0: no limit.",
)
SOURCE_PACKED = Option(
    "penstock.source.packed",
    Word(("auto", "never")),
    "auto",
    "Whether the rows of files and topics are packed by the tasks that read them, so that Spark moves few large cells. "
    "`auto`: wherever the rows are certainly those of Spark's reader; `never`: all pass through Spark row by row. "
    "`penstock info` says for each source what is done and why. It may change whenever a job starts.",
)
ASYNC_WAIT = Option(
    "penstock.async.wait",
    Milliseconds(),
    500,
    "How long an epoch waits at its end for requests of async I/O. Requests that take longer belong to a later epoch. "
    "The last epoch waits for all.",
)
BATCH_ROWS = Option(
    "penstock.batch.rows",
    Integer(least=1),
    10_000,
    "The most rows in one Arrow batch between Spark and the TaskManagers.",
)
NULL_EVENT_TIME = Option(
    "penstock.event-time.null",
    Word(("fail", "drop")),
    "fail",
    "What happens to a record without event time: the job fails, or the record is dropped and counted.",
)
TASKMANAGER_TIMEOUT = Option(
    "penstock.taskmanager.timeout",
    Milliseconds(least=1000),
    20_000,
    "A TaskManager that sends no heartbeat for this time is lost.",
)
TASKMANAGER_ENVIRONMENT = Option(
    "penstock.taskmanager.environment",
    Text(),
    "",
    "Environment variables that TaskManagers get although their names look like secrets: names or patterns such as "
    "`PG*`, with commas between them.",
)
DRIVER_TIMEOUT = Option(
    "penstock.driver.timeout",
    Milliseconds(),
    60_000,
    "After this time without a sign of life from a job's driver, `--resume` may take the job over.",
)
SUSPEND_TIMEOUT = Option(
    "penstock.suspend.timeout",
    Milliseconds(),
    10_000,
    "How long Ctrl-C and SIGTERM wait for a last checkpoint before the job is suspended. 0: none is taken.",
)
CLASS_ARCHIVE = Option(
    "penstock.jvm.class-archive",
    Boolean(),
    True,
    "Keep an archive of Spark's classes in the user's cache folder (`$XDG_CACHE_HOME/penstock`, about 170 MB), with "
    "which the driver's JVM starts faster. The second start with a Java and a Spark records it, later ones use it.",
)
PASSTHROUGH = Option(
    "penstock.bench.passthrough",
    Boolean(),
    False,
    "Makes TaskManagers return their input unchanged. For measurements only.",
)
