"""What a job's configuration means to its JobManager."""

import re
from dataclasses import dataclass
from pathlib import Path

from penstock.checkpoint.settings import CheckpointSettings
from penstock.control.registry import default_folder
from penstock.errors import ConfigurationError
from penstock.jobmanager.storage_settings import StorageSettings
from penstock.model.configuration import Configuration
from penstock.model.options import parse_duration_ms, parse_size_bytes
from penstock.state.backend.settings import DEFAULT_MEMORY_BYTES, KINDS, BackendSettings
from penstock.state.ttl.rules import SweepSettings

BATCH_ROWS = 10_000


@dataclass(frozen=True)
class RestartStrategy:
    """How often a job starts again by itself (features P1, P2)."""

    attempts: int
    delay_ms: int


@dataclass(frozen=True)
class JobSettings:
    """The settings of one job."""

    name: str
    checkpoints: CheckpointSettings | None
    """None: no checkpoints, and nothing is written."""
    storage: StorageSettings
    restart: RestartStrategy
    epoch_interval_ms: int
    max_rows: int | None
    max_files: int | None
    batch_rows: int
    registry_dir: Path
    null_event_time: str
    passthrough: bool
    backend: BackendSettings = BackendSettings()

    @staticmethod
    def of(name: str, configuration: Configuration) -> "JobSettings":
        """The settings in a configuration."""
        interval = _duration(configuration, "execution.checkpointing.interval")
        checkpoints = None
        if interval is not None:
            checkpoints = CheckpointSettings(
                interval_ms=interval,
                timeout_ms=_duration(configuration, "execution.checkpointing.timeout") or 600_000,
                min_pause_ms=_duration(configuration, "execution.checkpointing.min-pause") or 0,
                retained=configuration.get_integer("execution.checkpointing.num-retained", 1),
                tolerable_failures=configuration.get_integer("execution.checkpointing.tolerable-failed-checkpoints", 0),
            )
        registry = configuration.get_string("penstock.registry.dir", "")
        max_rows = configuration.get_integer("penstock.epoch.max-rows", 0)
        return JobSettings(
            name=name,
            checkpoints=checkpoints,
            storage=StorageSettings.of(configuration),
            restart=_restart(configuration, checkpointing=checkpoints is not None),
            epoch_interval_ms=_duration(configuration, "penstock.epoch.interval") or 0,
            max_rows=max_rows or None,
            max_files=configuration.get_integer("penstock.epoch.max-files", 0) or None,
            batch_rows=configuration.get_integer("penstock.batch.rows", BATCH_ROWS),
            registry_dir=Path(registry).expanduser() if registry else default_folder(),
            null_event_time=configuration.get_string("penstock.event-time.null", "fail"),
            passthrough=configuration.get_boolean("penstock.bench.passthrough", default_value=False),
            backend=backend_settings(configuration),
        )


def backend_settings(configuration: Configuration) -> BackendSettings:
    """Which backend keeps keyed state, and how (features F1, G1 to G11)."""
    kind = configuration.get_string("state.backend.type", "hashmap")
    if kind not in KINDS:
        raise ConfigurationError(f"state.backend.type is {kind!r}; choose {' or '.join(map(repr, KINDS))}")
    rocksdb = "state.backend.rocksdb."
    memory = configuration.get_string(rocksdb + "memory.fixed-per-tm", "") or configuration.get_string(
        rocksdb + "memory.fixed-per-slot", ""
    )
    folders = re.split(r"[,:;]", configuration.get_string(rocksdb + "localdir", "").replace("file://", ""))
    return BackendSettings(
        kind=kind,
        incremental=configuration.get_boolean("execution.checkpointing.incremental", default_value=True),
        memory_bytes=parse_size_bytes(memory) if memory else DEFAULT_MEMORY_BYTES,
        local_dirs=tuple(str(Path(folder).expanduser().absolute()) for folder in folders if folder),
        predefined_options=configuration.get_string(rocksdb + "predefined-options", "DEFAULT"),
        transfer_threads=max(1, configuration.get_integer(rocksdb + "checkpoint.transfer.thread.num", 4)),
        ttl_sweep=_ttl_sweep(configuration),
    )


def _ttl_sweep(configuration: Configuration) -> SweepSettings:
    entries = configuration.get_integer("penstock.state.ttl.sweep-entries", SweepSettings.entries)
    interval = _duration(configuration, "penstock.state.ttl.sweep-interval")
    if entries < 0 or interval == 0:
        raise ConfigurationError(
            f"penstock.state.ttl.sweep-entries is {entries} and penstock.state.ttl.sweep-interval is {interval} ms; "
            f"give a positive interval, and entries = 0 to switch the sweep off"
        )
    return SweepSettings(entries, SweepSettings.interval_ms if interval is None else interval)


def _restart(configuration: Configuration, *, checkpointing: bool) -> RestartStrategy:
    kind = configuration.get_string("restart-strategy.type", "fixed-delay" if checkpointing else "none")
    if kind in ("none", "off", "disable"):
        return RestartStrategy(0, 0)
    if kind not in ("fixed-delay", "fixeddelay"):
        raise ConfigurationError(
            f"restart-strategy.type is {kind!r}; this release has 'none' and 'fixed-delay' "
            f"(restart-strategy.fixed-delay.attempts, restart-strategy.fixed-delay.delay)"
        )
    explicit = configuration.contains_key("restart-strategy.type")
    attempts = configuration.get_integer("restart-strategy.fixed-delay.attempts", 1 if explicit else 2**31 - 1)
    delay = _duration(configuration, "restart-strategy.fixed-delay.delay")
    return RestartStrategy(attempts, 1000 if delay is None else delay)


def _duration(configuration: Configuration, key: str) -> int | None:
    text = configuration.get_string(key, "")
    return parse_duration_ms(text) if text else None
