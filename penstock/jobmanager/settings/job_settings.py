"""What a job's configuration means to its JobManager."""

from dataclasses import dataclass, field
from pathlib import Path

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.control.registry import default_folder
from penstock.errors import ConfigurationError
from penstock.jobmanager.restart_strategy import RestartStrategy, restart_strategy
from penstock.jobmanager.settings.checkpointing import (
    checkpoint_settings,
    checkpoint_warnings,
    duration_ms,
    local_folders,
    snapshot_compression,
)
from penstock.jobmanager.settings.storage_settings import StorageSettings
from penstock.model.configuration import Configuration
from penstock.model.execution import global_job_parameters
from penstock.model.options import parse_size_bytes
from penstock.rest.rest_settings import RestSettings
from penstock.state.backend.backend_settings import DEFAULT_MEMORY_BYTES, KINDS, BackendSettings
from penstock.state.ttl.rules import SweepSettings

BATCH_ROWS = 10_000


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
    savepoint_dir: str | None = None
    """Where savepoints go whose folder nobody names."""
    rest: RestSettings = RestSettings()
    job_parameters: dict[str, str] = field(default_factory=dict)
    """What functions read with `RuntimeContext.get_job_parameter`."""
    warnings: tuple[str, ...] = ()
    """About settings that do not go together; said once, when the job starts."""

    @staticmethod
    def of(name: str, configuration: Configuration) -> "JobSettings":
        """The settings in a configuration."""
        checkpoints = checkpoint_settings(configuration)
        registry = configuration.get_string("penstock.registry.dir", "")
        max_rows = configuration.get_integer("penstock.epoch.max-rows", 0)
        return JobSettings(
            name=name,
            checkpoints=checkpoints,
            storage=StorageSettings.of(configuration),
            restart=restart_strategy(configuration, checkpointing=checkpoints is not None),
            epoch_interval_ms=duration_ms(configuration, "penstock.epoch.interval") or 0,
            max_rows=max_rows or None,
            max_files=configuration.get_integer("penstock.epoch.max-files", 0) or None,
            batch_rows=configuration.get_integer("penstock.batch.rows", BATCH_ROWS),
            registry_dir=Path(registry).expanduser() if registry else default_folder(),
            null_event_time=configuration.get_string("penstock.event-time.null", "fail"),
            passthrough=configuration.get_boolean("penstock.bench.passthrough", default_value=False),
            backend=backend_settings(configuration),
            savepoint_dir=configuration.get_string("execution.checkpointing.savepoint-dir", "") or None,
            rest=RestSettings.of(configuration),
            job_parameters=global_job_parameters(configuration),
            warnings=tuple(checkpoint_warnings(configuration)),
        )


def backend_settings(configuration: Configuration) -> BackendSettings:
    """Which backend keeps keyed state, and how."""
    kind = configuration.get_string("state.backend.type", "hashmap")
    if kind not in KINDS:
        raise ConfigurationError(f"state.backend.type is {kind!r}; choose {' or '.join(map(repr, KINDS))}")
    rocksdb = "state.backend.rocksdb."
    memory = configuration.get_string(rocksdb + "memory.fixed-per-tm", "") or configuration.get_string(
        rocksdb + "memory.fixed-per-slot", ""
    )
    return BackendSettings(
        kind=kind,
        incremental=configuration.get_boolean("execution.checkpointing.incremental", default_value=True),
        memory_bytes=parse_size_bytes(memory) if memory else DEFAULT_MEMORY_BYTES,
        local_dirs=local_folders(configuration.get_string(rocksdb + "localdir", "")),
        predefined_options=configuration.get_string(rocksdb + "predefined-options", "DEFAULT"),
        transfer_threads=max(1, configuration.get_integer(rocksdb + "checkpoint.transfer.thread.num", 4)),
        compression=snapshot_compression(configuration),
        ttl_sweep=_ttl_sweep(configuration),
    )


def _ttl_sweep(configuration: Configuration) -> SweepSettings:
    entries = configuration.get_integer("penstock.state.ttl.sweep-entries", SweepSettings.entries)
    interval = duration_ms(configuration, "penstock.state.ttl.sweep-interval")
    if entries < 0 or interval == 0:
        raise ConfigurationError(
            f"penstock.state.ttl.sweep-entries is {entries} and penstock.state.ttl.sweep-interval is {interval} ms; "
            f"give a positive interval, and entries = 0 to switch the sweep off"
        )
    return SweepSettings(entries, SweepSettings.interval_ms if interval is None else interval)
