"""What a job's configuration means to its JobManager."""

from dataclasses import dataclass, field
from pathlib import Path

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.control.registry import registry_of
from penstock.errors import ConfigurationError
from penstock.jobmanager.restart_strategy import RestartStrategy, restart_strategy
from penstock.jobmanager.settings.checkpointing import checkpoint_settings, checkpoint_warnings
from penstock.jobmanager.settings.storage_settings import StorageSettings
from penstock.model.configuration import Configuration
from penstock.model.execution_config import global_job_parameters
from penstock.model.options import checkpointing_options, execution_options, rocksdb_options, state_options
from penstock.rest.rest_settings import RestSettings
from penstock.state.backend.backend_settings import KINDS, BackendSettings
from penstock.state.ttl.rules import SweepSettings


@dataclass(frozen=True)
class JobSettings:
    """The settings of one job."""

    name: str
    checkpoints: CheckpointSettings | None
    """None: the job takes no checkpoints and writes nothing."""
    storage: StorageSettings
    restart: RestartStrategy
    epoch_interval_ms: int
    max_rows: int | None
    max_files: int | None
    batch_rows: int
    registry_dir: Path
    null_event_time: str
    passthrough: bool
    taskmanager_timeout_ms: int
    backend: BackendSettings = BackendSettings()
    savepoint_dir: str | None = None
    """The folder for savepoints that are requested without one."""
    rest: RestSettings = RestSettings()
    job_parameters: dict[str, str] = field(default_factory=dict)
    """What functions read with `RuntimeContext.get_job_parameter`."""
    warnings: tuple[str, ...] = ()
    """About settings that contradict each other. They are printed once, when the job starts."""

    @staticmethod
    def of(name: str, configuration: Configuration) -> "JobSettings":
        """The settings in a configuration."""
        checkpoints = checkpoint_settings(configuration)
        return JobSettings(
            name=name,
            checkpoints=checkpoints,
            storage=StorageSettings.of(configuration),
            restart=restart_strategy(configuration, checkpointing=checkpoints is not None),
            epoch_interval_ms=configuration.get(execution_options.EPOCH_INTERVAL),
            max_rows=configuration.get(execution_options.EPOCH_MAX_ROWS) or None,
            max_files=configuration.get(execution_options.EPOCH_MAX_FILES) or None,
            batch_rows=configuration.get(execution_options.BATCH_ROWS),
            registry_dir=registry_of(configuration).folder,
            null_event_time=configuration.get(execution_options.NULL_EVENT_TIME),
            passthrough=configuration.get(execution_options.PASSTHROUGH),
            taskmanager_timeout_ms=configuration.get(execution_options.TASKMANAGER_TIMEOUT),
            backend=backend_settings(configuration),
            savepoint_dir=configuration.get(checkpointing_options.SAVEPOINT_DIRECTORY),
            rest=RestSettings.of(configuration),
            job_parameters=global_job_parameters(configuration),
            warnings=tuple(checkpoint_warnings(configuration)),
        )


def backend_settings(configuration: Configuration) -> BackendSettings:
    """Which backend keeps keyed state, and how."""
    kind = configuration.get(state_options.BACKEND)
    if kind not in KINDS:
        raise ConfigurationError(f"{state_options.BACKEND.key} is {kind!r}; choose {' or '.join(map(repr, KINDS))}")
    return BackendSettings(
        kind=kind,
        incremental=configuration.get(checkpointing_options.INCREMENTAL),
        memory_bytes=rocksdb_options.memory_bytes(configuration),
        local_dirs=configuration.get(rocksdb_options.DIRECTORIES),
        predefined_options=configuration.get(rocksdb_options.PREDEFINED),
        tuning=rocksdb_options.tuning(configuration),
        transfer_threads=max(1, configuration.get(rocksdb_options.TRANSFER_THREADS)),
        compression=configuration.get(checkpointing_options.SNAPSHOT_COMPRESSION),
        ttl_sweep=SweepSettings(
            configuration.get(state_options.SWEEP_ENTRIES), configuration.get(state_options.SWEEP_INTERVAL)
        ),
    )
