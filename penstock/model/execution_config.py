"""`ExecutionConfig`: PyFlink's getters and setters for the execution of a job."""

from typing import Any

from penstock.errors import UsageError
from penstock.model.configuration import Configuration
from penstock.model.options import checkpointing_options, flink_options, pipeline_options


class ExecutionConfig:
    """Settings of the execution, kept in the environment's configuration. Setters return the object itself."""

    PARALLELISM_DEFAULT = pipeline_options.PARALLELISM.default
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def set_auto_watermark_interval(self, interval: int) -> "ExecutionConfig":
        """Accepted as in PyFlink, and without effect: watermarks advance at the end of each epoch."""
        if interval < 0:
            raise UsageError(f"auto watermark interval of {interval} ms; it must be 0 or more")
        self._configuration.set(pipeline_options.AUTO_WATERMARK_INTERVAL, interval)
        return self

    def get_auto_watermark_interval(self) -> int:
        """The interval in milliseconds."""
        return self._configuration.get(pipeline_options.AUTO_WATERMARK_INTERVAL)

    def set_global_job_parameters(self, global_job_parameters_dict: dict[str, Any]) -> "ExecutionConfig":
        """Set parameters that functions read with `RuntimeContext.get_job_parameter`."""
        for key, value in global_job_parameters_dict.items():
            self._configuration.set_string(pipeline_options.JOB_PARAMETERS.prefix + str(key), str(value))
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """The parameters that are set."""
        return global_job_parameters(self._configuration)

    def enable_auto_generated_uids(self) -> "ExecutionConfig":
        """Give each operator without a uid one that is derived from its place in the program."""
        self._configuration.set(pipeline_options.AUTO_GENERATE_UIDS, True)
        return self

    def disable_auto_generated_uids(self) -> "ExecutionConfig":
        """Make an operator without a uid an error."""
        self._configuration.set(pipeline_options.AUTO_GENERATE_UIDS, False)
        return self

    def has_auto_generated_uids_enabled(self) -> bool:
        """Whether operators without a uid get a generated one."""
        return self._configuration.get(pipeline_options.AUTO_GENERATE_UIDS)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> "ExecutionConfig":
        """Set whether snapshots are compressed."""
        self._configuration.set(checkpointing_options.SNAPSHOT_COMPRESSION, use_snapshot_compression)
        return self

    def is_use_snapshot_compression(self) -> bool:
        """Whether all snapshots are compressed. Without a setting, only large tables are, and this is False."""
        return self._configuration.get(checkpointing_options.SNAPSHOT_COMPRESSION) or False

    def enable_object_reuse(self) -> "ExecutionConfig":
        """Accepted as in PyFlink, and without effect: chained operators always pass the same objects on."""
        self._configuration.set(pipeline_options.OBJECT_REUSE, True)
        return self

    def disable_object_reuse(self) -> "ExecutionConfig":
        """Accepted as in PyFlink, and without effect: chained operators always pass the same objects on."""
        self._configuration.set(pipeline_options.OBJECT_REUSE, False)
        return self

    def is_object_reuse_enabled(self) -> bool:
        """What was set."""
        return self._configuration.get(pipeline_options.OBJECT_REUSE)

    def get_parallelism(self) -> int:
        """The default parallelism, or -1."""
        return self._configuration.get(pipeline_options.PARALLELISM)

    def set_parallelism(self, parallelism: int) -> "ExecutionConfig":
        """Set the parallelism of operators that do not set their own."""
        self._configuration.set(pipeline_options.PARALLELISM, parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """The number of key groups, or -1."""
        return self._configuration.get(pipeline_options.MAX_PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> "ExecutionConfig":
        """Set the number of key groups."""
        self._configuration.set(pipeline_options.MAX_PARALLELISM, max_parallelism)
        return self

    # Settings of Flink's JVM: kept and returned, and without effect. A job says so once, in a line for each key.

    def enable_closure_cleaner(self) -> "ExecutionConfig":
        """Accepted as in PyFlink, and without effect: functions are Python."""
        return self._set_text(flink_options.CLOSURE_CLEANER, "RECURSIVE")

    def disable_closure_cleaner(self) -> "ExecutionConfig":
        """Accepted as in PyFlink, and without effect: functions are Python."""
        return self._set_text(flink_options.CLOSURE_CLEANER, "NONE")

    def is_closure_cleaner_enabled(self) -> bool:
        """What was set; True by default."""
        return self._configuration.get_string(flink_options.CLOSURE_CLEANER, "RECURSIVE") != "NONE"

    def set_latency_tracking_interval(self, interval: int) -> "ExecutionConfig":
        """Accepted as in PyFlink, and without effect: the latency is that of an epoch."""
        return self._set_text(flink_options.LATENCY_INTERVAL, str(int(interval)))

    def get_latency_tracking_interval(self) -> int:
        """What was set, in milliseconds; 0 by default."""
        return self._configuration.get_integer(flink_options.LATENCY_INTERVAL, 0)

    def set_task_cancellation_interval(self, interval: int) -> "ExecutionConfig":
        """Accepted as in PyFlink, and without effect: Spark ends the tasks."""
        return self._set_text(flink_options.CANCELLATION_INTERVAL, str(int(interval)))

    def get_task_cancellation_interval(self) -> int:
        """What was set, in milliseconds; 30,000 by default."""
        return self._configuration.get_integer(flink_options.CANCELLATION_INTERVAL, 30_000)

    def set_task_cancellation_timeout(self, timeout: int) -> "ExecutionConfig":
        """Accepted as in PyFlink, and without effect: Spark ends the tasks."""
        if timeout < 0:
            raise UsageError(f"task cancellation timeout of {timeout} ms; it must be 0 or more")
        return self._set_text(flink_options.CANCELLATION_TIMEOUT, str(int(timeout)))

    def get_task_cancellation_timeout(self) -> int:
        """What was set, in milliseconds; 180,000 by default."""
        return self._configuration.get_integer(flink_options.CANCELLATION_TIMEOUT, 180_000)

    def enable_force_kryo(self) -> "ExecutionConfig":
        """Accepted as in PyFlink, and without effect: there are no Java objects."""
        return self._set_text(flink_options.FORCE_KRYO, "true")

    def disable_force_kryo(self) -> "ExecutionConfig":
        """Accepted as in PyFlink, and without effect: there are no Java objects."""
        return self._set_text(flink_options.FORCE_KRYO, "false")

    def is_force_kryo_enabled(self) -> bool:
        """What was set; False by default."""
        return self._configuration.get_boolean(flink_options.FORCE_KRYO, False)

    def enable_generic_types(self) -> "ExecutionConfig":
        """Accepted as in PyFlink, and without effect: there are no Java objects."""
        return self._set_text(flink_options.GENERIC_TYPES, "true")

    def disable_generic_types(self) -> "ExecutionConfig":
        """Accepted as in PyFlink, and without effect: there are no Java objects."""
        return self._set_text(flink_options.GENERIC_TYPES, "false")

    def has_generic_types_disabled(self) -> bool:
        """What was set; False by default."""
        return not self._configuration.get_boolean(flink_options.GENERIC_TYPES, True)

    def enable_force_avro(self) -> "ExecutionConfig":
        """Accepted as in PyFlink, and without effect: there are no Java objects."""
        return self._set_text(flink_options.FORCE_AVRO, "true")

    def disable_force_avro(self) -> "ExecutionConfig":
        """Accepted as in PyFlink, and without effect: there are no Java objects."""
        return self._set_text(flink_options.FORCE_AVRO, "false")

    def is_force_avro_enabled(self) -> bool:
        """What was set; False by default."""
        return self._configuration.get_boolean(flink_options.FORCE_AVRO, False)

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Always empty: there are no Java objects."""
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        """Always empty: there are no Java objects."""
        return []

    def get_registered_pojo_types(self) -> list[str]:
        """Always empty: there are no Java objects."""
        return []

    def _set_text(self, key: str, value: str) -> "ExecutionConfig":
        self._configuration.set_string(key, value)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)


def global_job_parameters(configuration: Configuration) -> dict[str, str]:
    """The parameters that functions read with `RuntimeContext.get_job_parameter`.

    >>> global_job_parameters(Configuration.from_dict({"pipeline.global-job-parameters.limit": "5", "a": "b"}))
    {'limit': '5'}
    """
    prefix = pipeline_options.JOB_PARAMETERS.prefix
    settings = configuration.to_dict()
    single = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
    pairs = configuration.get(pipeline_options.JOB_PARAMETER_PAIRS)
    return {**pairs, **single}
