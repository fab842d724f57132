"""What a job's configuration means to its JobManager."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.checkpoint.checkpoint_settings import CheckpointSettings
from penstock.control.effective_settings import visible_value
from penstock.control.registry import registry_of
from penstock.jobmanager.restart_strategy import RestartStrategy, restart_strategy
from penstock.jobmanager.settings.batch_mode import batch_notes
from penstock.jobmanager.settings.checkpointing import checkpoint_settings, checkpoint_warnings
from penstock.jobmanager.settings.storage_settings import StorageSettings
from penstock.model.configuration import Configuration
from penstock.model.execution_config import global_job_parameters
from penstock.model.options import checkpointing_options, execution_options, rest_options, state_options
from penstock.rest.otel_settings import OtelSettings
from penstock.rest.rest_settings import RestSettings
from penstock.runtime.process.log_parts import LogLimits
from penstock.runtime.process.passed_environment import granted_secrets
from penstock.state.backend.backend_registry import find_backend
from penstock.state.backend.backend_settings import BackendSettings
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
    epoch_target_ms: int
    batch_rows: int
    registry_dir: Path
    null_event_time: str
    passthrough: bool
    taskmanager_timeout_ms: int
    suspend_timeout_ms: int
    commit_timeout_ms: int
    """How long a batch job retries the commit of its output."""
    backend: BackendSettings = BackendSettings()
    savepoint_dir: str | None = None
    """The folder for savepoints that are requested without one."""
    rest: RestSettings = RestSettings()
    log_limits: LogLimits = LogLimits()
    job_parameters: dict[str, str] = field(default_factory=dict)
    """What functions read with `RuntimeContext.get_job_parameter`."""
    set_values: Mapping[str, str] = field(default_factory=dict)
    """The settings that are not left to their defaults, as text, secret ones included."""
    otel: OtelSettings | None = None
    """Where metrics are sent; None: nowhere."""
    taskmanager_environment: tuple[str, ...] = ()
    """Names of environment variables that TaskManagers get although they look like secrets."""
    warnings: tuple[str, ...] = ()
    """About settings that contradict each other. They are printed once, when the job starts."""
    notes: tuple[str, ...] = ()
    """About settings without effect. They are printed once too."""

    @property
    def takes_checkpoints(self) -> bool:
        """Whether the job has a log and checkpoints; otherwise a new attempt starts from the beginning."""
        return self.checkpoints is not None

    @property
    def is_resumable(self) -> bool:
        """Whether the job has checkpoints that outlive its driver."""
        return self.takes_checkpoints and self.storage.address is not None

    @property
    def commits_with_checkpoints(self) -> bool:
        """Whether output waits for a completed checkpoint; otherwise each epoch commits its own (PROTOCOL R28)."""
        return self.checkpoints is not None and self.checkpoints.exactly_once

    @property
    def attempt_settings(self) -> CheckpointSettings:
        """The settings of checkpoints, or their defaults for a job without, which can still take savepoints."""
        return self.checkpoints or CheckpointSettings(None)

    @property
    def shown(self) -> dict[str, str]:
        """The settings that are set, with asterisks for secret values."""
        return {key: visible_value(key, value) for key, value in self.set_values.items()}

    def secrets_for(self, plan: bytes, restored_from: str | None) -> dict[str, str]:
        """The secrets of this process's environment that the job's TaskManagers need."""
        places = [self.storage.address, self.savepoint_dir, restored_from, *self.set_values.values()]
        texts = [plan, *(place.encode() for place in places if place)]
        return granted_secrets(os.environ, self.taskmanager_environment, texts)

    @staticmethod
    def of(name: str, configuration: Configuration, *, batch: bool = False) -> "JobSettings":
        """The settings in a configuration. A batch job takes no checkpoints, and has a state backend of its own."""
        checkpoints = None if batch else checkpoint_settings(configuration)
        return JobSettings(
            name=name,
            checkpoints=checkpoints,
            storage=StorageSettings.of(configuration),
            restart=restart_strategy(configuration, checkpointing=checkpoints is not None),
            epoch_interval_ms=configuration.get(execution_options.EPOCH_INTERVAL),
            max_rows=configuration.get(execution_options.EPOCH_MAX_ROWS) or None,
            max_files=configuration.get(execution_options.EPOCH_MAX_FILES) or None,
            epoch_target_ms=configuration.get(execution_options.EPOCH_TARGET),
            batch_rows=configuration.get(execution_options.BATCH_ROWS),
            registry_dir=registry_of(configuration).folder,
            null_event_time=configuration.get(execution_options.NULL_EVENT_TIME),
            passthrough=configuration.get(execution_options.PASSTHROUGH),
            taskmanager_timeout_ms=configuration.get(execution_options.TASKMANAGER_TIMEOUT),
            suspend_timeout_ms=configuration.get(execution_options.SUSPEND_TIMEOUT),
            commit_timeout_ms=configuration.get(checkpointing_options.COMMIT_TIMEOUT),
            backend=BackendSettings() if batch else backend_settings(configuration),
            savepoint_dir=configuration.get(checkpointing_options.SAVEPOINT_DIRECTORY),
            rest=RestSettings.of(configuration),
            log_limits=LogLimits.of(configuration),
            job_parameters=global_job_parameters(configuration),
            set_values=configuration.to_dict(),
            otel=_otel_settings(configuration),
            taskmanager_environment=tuple(
                name.strip() for name in configuration.get(execution_options.TASKMANAGER_ENVIRONMENT).split(",")
            ),
            warnings=() if batch else tuple(checkpoint_warnings(configuration)),
            notes=tuple(batch_notes(configuration)) if batch else (),
        )


def _otel_settings(configuration: Configuration) -> OtelSettings | None:
    endpoint = configuration.get(rest_options.OTEL_ENDPOINT)
    return None if not endpoint else OtelSettings(endpoint, configuration.get(rest_options.OTEL_INTERVAL))


def backend_settings(configuration: Configuration) -> BackendSettings:
    """Which backend keeps keyed state, and how."""
    return BackendSettings(
        find_backend(configuration.get(state_options.BACKEND)).of(configuration),
        incremental=configuration.get(checkpointing_options.INCREMENTAL),
        compression=configuration.get(checkpointing_options.SNAPSHOT_COMPRESSION),
        ttl_sweep=SweepSettings(
            configuration.get(state_options.SWEEP_ENTRIES), configuration.get(state_options.SWEEP_INTERVAL)
        ),
    )
