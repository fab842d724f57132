"""Every configuration key that is known, what its value looks like, and where settings come from.

A key of Flink's that means nothing here is accepted, with the reason in `Option.ignored`. Keys of Spark (`spark.*`) are
passed on as they are. Any other key is an error that suggests the nearest known one.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from penstock.errors import ConfigurationError
from penstock.model.configuration import Configuration, is_boolean

_DURATION_MS = {
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1e-6),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), 1e-3),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_SIZE_BYTES = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kib", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mib", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gib", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tib", "tebibytes"), 1 << 40),
}
_QUANTITY = re.compile(r"\s*(\d+)\s*([a-zµ]*)\s*")


@dataclass(frozen=True)
class Option:
    """A known key."""

    key: str
    form: str
    """text, int, float, bool, duration or size; or the allowed words, separated by "|"."""
    about: str
    ignored: str | None = None
    """Why the key is accepted and has no effect; None when it has one."""
    least: int | None = None
    """The least number, or milliseconds, that is allowed."""
    too_small: str = ""
    """What is said of less."""


def parse_duration_ms(value: str | int) -> int:
    """A span of time in milliseconds, from text such as "5s" or "500 ms", or from a number of milliseconds.

    >>> parse_duration_ms("5s"), parse_duration_ms("500 ms"), parse_duration_ms(5000), parse_duration_ms("2 min")
    (5000, 500, 5000, 120000)
    """
    number, factor = _quantity(value, _DURATION_MS, "a duration such as '5s' or '500 ms'")
    return int(number * factor)


def parse_size_bytes(value: str | int) -> int:
    """A size in bytes, from text such as "64 kb" or from a number of bytes.

    >>> parse_size_bytes("64 kb"), parse_size_bytes("1 GiB")
    (65536, 1073741824)
    """
    number, factor = _quantity(value, _SIZE_BYTES, "a size such as '64 kb' or '1 gb'")
    return int(number * factor)


def load_configuration(
    program: Configuration, overrides: Mapping[str, str], yaml_path: Path | str | None
) -> Configuration:
    """All settings that hold: the program's over `-D` over the file's. A missing file holds none.

    Old key names become the new ones. An unknown key or a value of the wrong form is a ConfigurationError.
    """
    merged = Configuration()
    sources = ((read_yaml(yaml_path), str(yaml_path)), (dict(overrides), "-D"), (program.to_dict(), "the program"))
    for settings, origin in sources:
        for key, value in _renamed(settings).items():
            check_setting(key, value, origin)
            merged.set_string(key, value)
    return merged


def renamed_settings(*sources: Mapping[str, str]) -> list[str]:
    """One line for each setting under an old name, saying what it means; values, which may be secret, are left out."""
    lines = []
    for key, value in {item: None for settings in sources for item in settings.items()}:
        meaning = _meaning(key, value)
        if meaning:
            is_word = (key, value.strip().lower()) in _OLD_VALUES
            names = [f"{new}: {given}" if is_word else new for new, given in meaning.items()]
            lines.append(f"{key} is an old name; it sets {', '.join(names)}")
    return lines


def ignored_settings(configuration: Configuration) -> list[str]:
    """One line for each setting that is accepted and has no effect here."""
    lines = []
    for key in sorted(configuration.key_set()):
        option = find_option(key)
        if option is not None and option.ignored is not None:
            lines.append(f"{key} has no effect here: {option.ignored}")
    return lines


def find_option(key: str) -> Option | None:
    """The option that a key belongs to; Spark's keys and job parameters have none of their own."""
    if key in OPTIONS:
        return OPTIONS[key]
    return next((option for prefix, option in _PREFIXES.items() if key.startswith(prefix)), None)


def check_setting(key: str, value: str, origin: str) -> None:
    """Raise ConfigurationError unless the key is known and the value has its form."""
    if key.startswith("spark."):
        return
    option = find_option(key)
    if option is None:
        near = difflib.get_close_matches(key, [*OPTIONS, *OLD_KEYS], n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]!r}?" if near else "; see `penstock run --help` and the configuration reference"
        raise ConfigurationError(f"no configuration key {key!r} (from {origin}){hint}")
    try:
        _check_form(option, value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{key} (from {origin}): {error}") from None


def read_yaml(path: Path | str | None) -> dict[str, str]:
    """The settings of a YAML file, nested keys joined by dots; none when there is no such file."""
    if path is None or not Path(path).is_file():
        return {}
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not readable YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} holds a {type(content).__name__}; expected lines such as 'key: value'")
    settings: dict[str, str] = {}
    _flatten("", content, settings, str(path))
    return settings


def _flatten(prefix: str, content: Mapping[Any, Any], into: dict[str, str], path: str, depth: int = 0) -> None:
    if depth > 20:
        raise ConfigurationError(f"{path} is nested more than 20 deep at {prefix!r}")
    for name, value in content.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            _flatten(f"{key}.", value, into, path, depth + 1)
        elif isinstance(value, list):
            into[key] = ";".join(map(str, value))
        elif value is None:
            raise ConfigurationError(f"{key} in {path} has no value")
        else:
            into[key] = str(value).lower() if isinstance(value, bool) else str(value)


def _renamed(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with old keys replaced; where both are given the new one holds."""
    renamed: dict[str, str] = {}
    for key, value in settings.items():
        renamed.update(_meaning(key, value))
    renamed.update((key, value) for key, value in settings.items() if key not in OLD_KEYS)
    return renamed


def _meaning(key: str, value: str) -> dict[str, str]:
    """What a setting under an old key means in new ones; nothing for a key that is not old."""
    if (key, value.strip().lower()) in _OLD_VALUES:
        return dict(_OLD_VALUES[key, value.strip().lower()])
    return dict.fromkeys(OLD_KEYS.get(key, ()), value)


def _check_form(option: Option, value: str) -> None:
    form = option.form
    if form == "duration":
        _check_least(option, parse_duration_ms(value), value)
    elif form == "size":
        parse_size_bytes(value)
    elif form == "bool":
        if not is_boolean(value):
            raise ConfigurationError(f"{value!r} is not true or false")
    elif form in ("int", "float"):
        try:
            number = int(value) if form == "int" else float(value)
        except ValueError:
            raise ConfigurationError(f"{value!r} is not a number") from None
        _check_least(option, number, value)
    elif form != "text" and value.strip().lower().replace("_", "-") not in form.split("|"):
        raise ConfigurationError(f"{value!r} is not one of {form.replace('|', ', ')}")


def _check_least(option: Option, number: float, value: str) -> None:
    if option.least is not None and number < option.least:
        raise ConfigurationError(f"{option.too_small or f'give {option.least} or more'}, not {value!r}")


def _quantity(value: str | int, units: Mapping[str, float], wanted: str) -> tuple[int, float]:
    match = _QUANTITY.fullmatch(str(value).lower()) if not isinstance(value, bool) else None
    if match is None or match.group(2) not in units:
        raise ConfigurationError(f"{value!r} is not {wanted}")
    return int(match.group(1)), units[match.group(2)]


_CHK = "execution.checkpointing."
_RESTART = "restart-strategy."
_PICKLED = "state here is stored by type, not through a cache in front of the JVM"
_BEAM = "functions run in TaskManager processes, not in a Beam runner"
_LATER = "not available in this version yet"
_NOTHING_TO_FORCE = "there are neither iterations nor partitioners of one's own, which alone switch them off"
_SPARK_MEMORY = "set spark.executor.memory; TaskManagers are plain Python processes"

OPTIONS: dict[str, Option] = {
    option.key: option
    for option in (
        Option(
            _CHK + "interval",
            "duration",
            "time between the starts of checkpoints; without it there are none",
            least=10,
            too_small="Checkpoint interval must be larger than or equal to 10 ms",
        ),
        Option(_CHK + "mode", "exactly-once|at-least-once", "what a failure may do to output"),
        Option(
            _CHK + "timeout",
            "duration",
            "an unfinished checkpoint is given up after this time",
            least=10,
            too_small="Checkpoint timeout must be larger than or equal to 10 ms",
        ),
        Option(
            _CHK + "min-pause",
            "duration",
            "pause between the end of a checkpoint and the next start",
            least=0,
            too_small="Pause value must be zero or positive",
        ),
        Option(
            _CHK + "max-concurrent-checkpoints",
            "int",
            "how many checkpoints may be under way",
            least=1,
            too_small="The maximum number of concurrent attempts must be at least one",
        ),
        Option(
            _CHK + "num-retained",
            "int",
            "how many completed checkpoints are kept",
            least=1,
            too_small="Must retain at least one checkpoint",
        ),
        Option(
            _CHK + "tolerable-failed-checkpoints",
            "int",
            "failed checkpoints in a row that the job survives",
            least=0,
            too_small="The tolerable failure checkpoint number must be non-negative",
        ),
        Option(
            _CHK + "externalized-checkpoint-retention",
            "delete-on-cancellation|retain-on-cancellation|no-externalized-checkpoints",
            "what happens to checkpoints when the job ends",
        ),
        Option(_CHK + "dir", "text", "the folder of checkpoints"),
        Option(_CHK + "savepoint-dir", "text", "the folder of savepoints"),
        Option(_CHK + "storage", "jobmanager|filesystem", "where checkpoints are kept"),
        Option(_CHK + "create-subdir", "bool", "a folder per job below the checkpoint folder"),
        Option(_CHK + "data-inline-threshold", "size", "smaller states are kept inside the manifest"),
        Option(_CHK + "write-buffer-size", "size", "buffer", "files are written in one piece"),
        Option(_CHK + "incremental", "bool", "write only what changed"),
        Option(_CHK + "snapshot-compression", "bool", "compress snapshots"),
        Option(_CHK + "unaligned.enabled", "bool", "barriers may overtake records"),
        Option(_CHK + "unaligned.forced", "bool", "unaligned where it is usually off", _NOTHING_TO_FORCE),
        Option(_CHK + "aligned-checkpoint-timeout", "duration", "when a barrier may overtake records"),
        Option(_CHK + "local-backup.enabled", "bool", "a second copy on local disk"),
        Option(_CHK + "local-backup.dirs", "text", "where the second copy is"),
        Option(_CHK + "checkpoints-after-tasks-finish", "bool", "checkpoint ended jobs", "always so here"),
        Option("execution.state-recovery.path", "text", "the checkpoint or savepoint to start from"),
        Option("execution.state-recovery.ignore-unclaimed-state", "bool", "drop state that no operator claims"),
        Option("execution.state-recovery.claim-mode", "claim|no-claim|legacy", "who owns the snapshot"),
        Option("execution.state-recovery.from-local", "bool", "restore from the local copy"),
        Option("execution.runtime-mode", "streaming|batch|automatic", "mode", "programs run as streams"),
        Option("execution.buffer-timeout.interval", "duration", "buffers", "records move with their epoch"),
        Option("state.backend.type", "hashmap|rocksdb", "where working state lives"),
        Option("state.backend.rocksdb.localdir", "text", "where RocksDB keeps its files; several: separated by commas"),
        Option("state.backend.rocksdb.memory.fixed-per-tm", "size", "RocksDB's memory in one TaskManager (256 mb)"),
        Option("state.backend.rocksdb.memory.fixed-per-slot", "size", "the same: a TaskManager is one slot"),
        Option(
            "state.backend.rocksdb.predefined-options",
            "DEFAULT|SPINNING_DISK_OPTIMIZED|SPINNING_DISK_OPTIMIZED_HIGH_MEM|FLASH_SSD_OPTIMIZED",
            "RocksDB's settings for a kind of disk",
        ),
        Option("state.backend.rocksdb.checkpoint.transfer.thread.num", "int", "files stored at a time (4)"),
        Option("state.backend.changelog.enabled", "bool", "changelog", "changes are always logged per epoch here"),
        Option("parallelism.default", "int", "parallelism of operators without one of their own"),
        Option("pipeline.max-parallelism", "int", "the number of key groups"),
        Option("pipeline.name", "text", "the job's name"),
        Option("pipeline.auto-generate-uids", "bool", "whether operators may be without a uid"),
        Option("pipeline.auto-watermark-interval", "duration", "watermarks", "they advance at each epoch's end"),
        Option("pipeline.object-reuse", "bool", "object reuse", "chained operators pass objects in any case"),
        Option("pipeline.operator-chaining.enabled", "bool", "chain operators of one stage"),
        Option(
            _RESTART + "type",
            "none|off|disable|fixed-delay|fixeddelay|failure-rate|failurerate|exponential-delay|exponentialdelay",
            "when a failed job is started again",
        ),
        Option(_RESTART + "fixed-delay.attempts", "int", "how often a failed job is started again"),
        Option(_RESTART + "fixed-delay.delay", "duration", "pause before it"),
        Option(_RESTART + "failure-rate.max-failures-per-interval", "int", "failures before giving up"),
        Option(_RESTART + "failure-rate.failure-rate-interval", "duration", "the time in which they count"),
        Option(_RESTART + "failure-rate.delay", "duration", "pause before a restart"),
        Option(_RESTART + "exponential-delay.initial-backoff", "duration", "first pause"),
        Option(_RESTART + "exponential-delay.max-backoff", "duration", "longest pause"),
        Option(_RESTART + "exponential-delay.backoff-multiplier", "float", "growth of the pause"),
        Option(_RESTART + "exponential-delay.reset-backoff-threshold", "duration", "time without failure to reset"),
        Option(_RESTART + "exponential-delay.jitter-factor", "float", "random part of the pause"),
        Option(_RESTART + "exponential-delay.attempts-before-reset-backoff", "text", "restarts before giving up"),
        Option("jobmanager.execution.failover-strategy", "region|full", "failover", "a job restarts as a whole"),
        Option("python.execution-mode", "process|thread", "Python", _BEAM),
        Option("python.executable", "text", "Python", "set PYSPARK_PYTHON or spark.pyspark.python"),
        Option("python.fn-execution.bundle.size", "int", "bundles", _BEAM),
        Option("python.fn-execution.bundle.time", "duration", "bundles", _BEAM),
        Option("python.fn-execution.arrow.batch.size", "int", "batches", "set penstock.batch.rows"),
        Option("python.state.cache-size", "int", "cache", _PICKLED),
        Option("python.map-state.read-cache-size", "int", "cache", _PICKLED),
        Option("python.map-state.write-cache-size", "int", "cache", _PICKLED),
        Option("python.map-state.iterate-response-batch-size", "int", "cache", _PICKLED),
        Option("taskmanager.numberOfTaskSlots", "int", "slots", "set spark.executor.cores"),
        Option("taskmanager.memory.process.size", "size", "memory", _SPARK_MEMORY),
        Option("taskmanager.memory.managed.size", "size", "memory", _SPARK_MEMORY),
        Option("taskmanager.memory.managed.fraction", "float", "memory", _SPARK_MEMORY),
        Option("jobmanager.memory.process.size", "size", "memory", "set spark.driver.memory"),
        Option("rest.port", "int", "the port of the job's control server; 0: any free one"),
        Option("rest.bind-port", "text", "the same, or a range of ports of which the first free one is taken"),
        Option("rest.bind-address", "text", "the address on which it listens; beyond this machine only with TLS"),
        Option("rest.address", "text", "the name by which clients call it"),
        Option("pekko.ask.timeout", "duration", "RPC", "there is no Pekko here"),
        Option("penstock.epoch.interval", "duration", "least time between epochs; 0: whenever there is data"),
        Option("penstock.epoch.max-rows", "int", "most rows in an epoch, where the source has such a limit"),
        Option("penstock.epoch.max-files", "int", "most new files in an epoch, for each FileSource"),
        Option("penstock.batch.rows", "int", "rows in an Arrow batch between Spark and the TaskManagers"),
        Option("penstock.bench.passthrough", "bool", "TaskManagers return their input; for measurements only"),
        Option("penstock.rest.enabled", "bool", "whether a job has a control server"),
        Option("penstock.rest.ssl.certificate", "text", "its certificate, a PEM file"),
        Option("penstock.rest.ssl.key", "text", "the certificate's key, a PEM file that only its owner can read"),
        Option("penstock.rest.insecure-bind", "bool", "let it listen beyond this machine without TLS"),
        Option("penstock.registry.dir", "text", "the folder in which running jobs are listed"),
        Option("penstock.event-time.null", "fail|drop", "what happens to a record without event time"),
        Option("penstock.jobmanager-storage.max-state-size", "size", "largest state of an operator's subtask there"),
        Option("penstock.checkpoint.retain-finished", "bool", "keep the last checkpoint of a job that has finished"),
        Option("penstock.sink.commit-timeout", "duration", "how long a failing commit is tried again"),
        Option("penstock.unaligned.max-spool", "size", "most bytes spooled by an unaligned checkpoint"),
        Option("penstock.taskmanager.timeout", "duration", "silence after which a TaskManager is lost"),
        Option("penstock.driver.timeout", "duration", "silence after which `--resume` takes the job of a driver"),
        Option("penstock.state.ttl.sweep-entries", "int", "entries of a state that a TTL sweep looks at; 0: no sweep"),
        Option("penstock.state.ttl.sweep-interval", "duration", "least time between two TTL sweeps of a state"),
        Option("penstock.state.allow-pickle", "bool", "let a restore read state that was stored as pickles"),
    )
}
_PREFIXES = {
    "pipeline.global-job-parameters.": Option("pipeline.global-job-parameters", "text", "parameters for functions"),
    "state.backend.rocksdb.": Option("state.backend.rocksdb", "text", "RocksDB", "RocksDB's defaults are used for it"),
    "metrics.": Option("metrics", "text", "metrics", _LATER),
    "high-availability.": Option("high-availability", "text", "HA", "the job log in the checkpoint folder does it"),
    "s3.": Option("s3", "text", "S3", "set the file system's own variables"),
}
OLD_KEYS: dict[str, tuple[str, ...]] = {
    "state.backend": ("state.backend.type",),
    "state.checkpoint-storage": (_CHK + "storage",),
    "state.checkpoints.dir": (_CHK + "dir",),
    "state.backend.fs.checkpointdir": (_CHK + "dir",),
    "state.savepoints.dir": (_CHK + "savepoint-dir",),
    "state.checkpoints.num-retained": (_CHK + "num-retained",),
    "state.backend.incremental": (_CHK + "incremental",),
    "state.backend.local-recovery": (_CHK + "local-backup.enabled", "execution.state-recovery.from-local"),
    "taskmanager.state.local.root-dirs": (_CHK + "local-backup.dirs",),
    "state.storage.fs.memory-threshold": (_CHK + "data-inline-threshold",),
    "state.backend.fs.memory-threshold": (_CHK + "data-inline-threshold",),
    "state.storage.fs.write-buffer-size": (_CHK + "write-buffer-size",),
    "state.backend.fs.write-buffer-size": (_CHK + "write-buffer-size",),
    _CHK + "unaligned": (_CHK + "unaligned.enabled",),
    _CHK + "alignment-timeout": (_CHK + "aligned-checkpoint-timeout",),
    "execution.savepoint.path": ("execution.state-recovery.path",),
    "execution.savepoint.ignore-unclaimed-state": ("execution.state-recovery.ignore-unclaimed-state",),
    "execution.savepoint-restore-mode": ("execution.state-recovery.claim-mode",),
    "restart-strategy": (_RESTART + "type",),
}
"""Old key -> the keys that replace it."""
_OLD_VALUES = {
    ("state.backend", "jobmanager"): {"state.backend.type": "hashmap", _CHK + "storage": "jobmanager"},
    ("state.backend", "filesystem"): {"state.backend.type": "hashmap", _CHK + "storage": "filesystem"},
}
"""Old values that meant more than one thing."""
