"""`StreamExecutionEnvironment`: creates streams and executes the program."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from penstock.connectors.position_sources import IteratorSource, SocketSource
from penstock.control.inspect.program_inspection import take_program
from penstock.control.job_guarantees import require_guarantee
from penstock.control.terminal import print_message
from penstock.datastream import source_nodes
from penstock.datastream.cached_stream import StreamCache, use_caches
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.data_stream import DataStream
from penstock.datastream.job_client import JobClient, JobHandle
from penstock.datastream.program_settings import (
    configuration_notes,
    default_parallelism,
    effective_configuration,
    graph_settings,
    handle_interrupts,
    job_name_of,
    job_settings,
    make_session,
    require_sink_folders,
)
from penstock.datastream.state_backend import StateBackend
from penstock.datastream.state_choices import StateChoices
from penstock.errors import ArgumentError, PathNotFoundError, UsageError
from penstock.graph.job_graph import JobGraph
from penstock.graph.plan_json import plan_json
from penstock.graph.stages import build_job_graph
from penstock.graph.stream_graph import NO_BUFFERS, SourceSpec, StreamGraph
from penstock.model.configuration import Configuration
from penstock.model.execution import CheckpointingMode, RuntimeExecutionMode
from penstock.model.execution_config import ExecutionConfig
from penstock.model.key_groups import MAX_KEY_GROUPS
from penstock.model.options import checkpointing_options, flink_options, pipeline_options
from penstock.model.quantities import parse_duration_ms
from penstock.model.restart_strategies import RestartStrategyConfiguration
from penstock.model.source_functions import SourceFunction
from penstock.model.time import TimeSpan
from penstock.model.watermark import WatermarkStrategy

SPARK_JARS = "spark.jars"


class StreamExecutionEnvironment:
    """A program: its streams, its settings and its Spark session. A process can have several environments.

    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> env.set_parallelism(2).get_parallelism()
    2
    """

    def __init__(self, configuration: Configuration, spark: Any = None) -> None:
        self._configuration = configuration
        self._spark = spark
        self._graph = StreamGraph()
        self._execution_config = ExecutionConfig(configuration)
        self._choices = StateChoices()
        self._caches: list[StreamCache] = []
        self._buffer_timeout: int | None = None
        self._changelog: bool | None = None
        self._local_parallelism: int | None = None

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None, *, spark: Any = None
    ) -> "StreamExecutionEnvironment":
        """A new environment, on the given Spark session or on one that is created when it is first needed."""
        if spark is not None:
            source_nodes.refuse_connect(spark, "session")
        own = Configuration()
        if configuration is not None:
            own.add_all(configuration)
        handle_interrupts()
        return StreamExecutionEnvironment(own, spark)

    @property
    def spark(self) -> Any:
        """The Spark session: the given one, or one that is created now from the `spark.*` settings."""
        if self._spark is None:
            self._spark = make_session(effective_configuration(self._configuration))
        return self._spark

    # Sources

    def from_dataframe(
        self,
        df: Any,
        *,
        event_time: str | None = None,
        max_out_of_orderness: Any = None,
        name: str | None = None,
        replayable: bool = False,
    ) -> DataStream:
        """The rows of a DataFrame as records: a streaming one or, in batch mode, one that `spark.read` returns.

        `event_time` names the timestamp column; records may be up to `max_out_of_orderness` late: "5 seconds", a
        Duration, or milliseconds. `replayable` confirms that an unknown source, such as a data source in Python,
        returns the same rows for the same offsets and always starts at the same offset.
        """
        spec = source_nodes.dataframe_source(df, event_time, max_out_of_orderness, replayable=replayable)
        return self._source(name or "DataFrame", spec)

    def from_collection(self, collection: Iterable[Any], type_info: Any = None) -> DataStream:
        """The records of a list or another iterable, which is read immediately."""
        return self._source("Collection Source", source_nodes.collection_source(collection, type_info))

    def from_iterator(
        self,
        factory: Callable[[Any], Iterator[tuple[Any, Any]]],
        type_info: Any = None,
        *,
        bounded: bool = True,
        name: str | None = None,
    ) -> DataStream:
        """The records of `factory(position)`: an iterator of pairs, a record and the position after it.

        The position is None at first. Checkpoints store it as JSON, and a recovery calls the factory with it. The end
        of the iterator ends the source; with `bounded=False` it is opened again a second later, at its last position.
        """
        source = IteratorSource.of(factory, type_info, bounded=bounded)
        return self._source(name or "Iterator Source", source_nodes.connector_source(source, None))

    def socket_text_stream(self, hostname: str, port: int, delimiter: str = "\n") -> DataStream:
        """Lines of text from a TCP server, at most once: lines since the last checkpoint are lost in a failure.

        If the server closes the connection, the source reconnects every second.
        """
        source = SocketSource(hostname, port, delimiter)
        return self._source("Socket Stream", source_nodes.connector_source(source, None))

    def from_source(
        self, source: Any, watermark_strategy: WatermarkStrategy, source_name: str, type_info: Any = None
    ) -> DataStream:
        """The records of a source from `penstock.datastream.connectors`, with event time if the strategy assigns it."""
        if watermark_strategy is not None and source_nodes.has_own_event_time(source, watermark_strategy):
            return self._source(source_name, source_nodes.kafka_source(source, type_info, watermark_strategy))
        stream = self._source(source_name, source_nodes.connector_source(source, type_info))
        if watermark_strategy is None or watermark_strategy.timestamp_assigner is None:
            return stream
        stream._node.takes_uid = False
        return stream.assign_timestamps_and_watermarks(watermark_strategy)

    def add_source(self, source_func: Any, source_name: str = "Custom Source", type_info: Any = None) -> DataStream:
        """The records of a SourceFunction, or of a connector as by `from_source` without event time.

        A function that is also a CheckpointedFunction keeps its position in operator state and is read exactly once.
        """
        if isinstance(source_func, SourceFunction):
            return self._source(source_name, source_nodes.function_source(source_func, type_info))
        return self._source(source_name, source_nodes.connector_source(source_func, type_info))

    # Execution

    def execute(self, job_name: str | None = None) -> Any:
        """Run the job and return its result when it has ended. Raises if the job fails."""
        from penstock.jobmanager.job_submission import run_job

        graph, configuration = self._job()
        return run_job(graph, configuration, job_name_of(job_name, configuration), self.spark)

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the job in the background and return a client for it."""
        return JobClient(self._submit(job_name))

    def get_execution_plan(self) -> str:
        """The plan that `execute` would run, as JSON."""
        return plan_json(self._build(effective_configuration(self._configuration)))

    def close(self) -> None:
        """Does nothing: the Spark session stays open for other jobs."""

    # Settings

    def get_config(self) -> ExecutionConfig:
        """The execution settings. They can be changed."""
        return self._execution_config

    def configure(self, configuration: Configuration) -> None:
        """Add settings. They replace earlier ones."""
        self._configuration.add_all(configuration)

    def set_parallelism(self, parallelism: int) -> "StreamExecutionEnvironment":
        """Set the number of subtasks of operators that do not set their own."""
        if isinstance(parallelism, bool) or not isinstance(parallelism, int) or parallelism < 1:
            raise UsageError(f"parallelism is {parallelism!r}; it must be a whole number, 1 or more")
        self._configuration.set(pipeline_options.PARALLELISM, parallelism)
        return self

    def get_parallelism(self) -> int:
        """The number of subtasks of operators that do not set their own."""
        return default_parallelism(effective_configuration(self._configuration), self._spark)

    def set_max_parallelism(self, max_parallelism: int) -> "StreamExecutionEnvironment":
        """Set the number of key groups, which is also the highest parallelism of an operator with keyed state."""
        if isinstance(max_parallelism, bool) or not isinstance(max_parallelism, int):
            raise UsageError(f"max parallelism is {max_parallelism!r}; give a number")
        if not 0 < max_parallelism <= MAX_KEY_GROUPS:
            raise UsageError(f"max parallelism {max_parallelism} is not between 1 and {MAX_KEY_GROUPS}")
        self._configuration.set(pipeline_options.MAX_PARALLELISM, max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """The number of key groups, or -1 if it is derived from the parallelism."""
        return effective_configuration(self._configuration).get(pipeline_options.MAX_PARALLELISM)

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> "StreamExecutionEnvironment":
        """Set whether the program runs as a stream or as a batch job; AUTOMATIC is BATCH if all sources are bounded.

        In BATCH mode all input is read at once and sorted by key: each key has one final result, its timers fire after
        its last record, and no checkpoints are taken.
        """
        if not isinstance(execution_mode, RuntimeExecutionMode):
            raise ArgumentError(f"give a RuntimeExecutionMode, not {execution_mode!r}")
        self._configuration.set(pipeline_options.RUNTIME_MODE, execution_mode)
        return self

    def disable_operator_chaining(self) -> "StreamExecutionEnvironment":
        """Run every operator in a stage of its own."""
        self._configuration.set(pipeline_options.CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Return whether operators that need no exchange between them run in one stage."""
        return effective_configuration(self._configuration).get(pipeline_options.CHAINING)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Always True: all operators of a job have one number of key groups."""
        return True

    def get_default_local_parallelism(self) -> int:
        """What was set, or else the same as `get_parallelism`."""
        return self._local_parallelism or self.get_parallelism()

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Set the parallelism, unless `set_parallelism` has set it."""
        self._local_parallelism = parallelism
        if not self._configuration.contains_key(pipeline_options.PARALLELISM.key):
            self.set_parallelism(parallelism)

    def set_buffer_timeout(self, timeout_millis: int) -> "StreamExecutionEnvironment":
        """Accepted, without effect: records travel with their epoch. The job prints a line that says so."""
        self._buffer_timeout = timeout_millis
        self._graph.without_effect["set_buffer_timeout()"] = NO_BUFFERS
        return self

    def get_buffer_timeout(self) -> int:
        """What was set, or Flink's default of 100 milliseconds. It has no effect."""
        if self._buffer_timeout is not None:
            return self._buffer_timeout
        settings = self._configuration.to_dict()
        return next((parse_duration_ms(settings[key]) for key in flink_options.BUFFER_TIMEOUTS if key in settings), 100)

    def register_slot_sharing_group(self, slot_sharing_group: Any) -> "StreamExecutionEnvironment":
        """Accepted, without effect: Spark places the tasks. The job prints a line that says so."""
        self._graph.without_effect["register_slot_sharing_group()"] = "Spark places the tasks"
        return self

    def add_python_file(self, file_path: str) -> None:
        """Make a module, a folder or a zip file of modules importable, in functions too."""
        path = Path(file_path).absolute()
        if not path.exists():
            raise PathNotFoundError(f"there is no file or folder {str(path)!r} to import from; check the path")
        entry = str(path.parent if path.suffix == ".py" else path)
        if entry not in sys.path:
            sys.path.insert(0, entry)  # a TaskManager starts with the sys.path of the program

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Accepted, without effect: packages are installed where functions run. The job prints a line that says so."""
        reason = "nothing is installed; install the packages where Spark's executors run Python"
        self._graph.without_effect["set_python_requirements()"] = reason

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Accepted, without effect: `spark.archives` unpacks archives. The job prints a line that says so."""
        self._graph.without_effect["add_python_archive()"] = "nothing is unpacked; set spark.archives"

    def set_python_executable(self, python_exec: str) -> None:
        """Accepted, without effect; if it is not the Python of this process, the job prints a line that says so."""
        if Path(python_exec).absolute() != Path(sys.executable).absolute():
            reason = "functions run in the Python of the program or, on a cluster, in that of PYSPARK_PYTHON"
            self._graph.without_effect["set_python_executable()"] = reason

    def add_jars(self, *jars_path: str) -> None:
        """Add jars to `spark.jars`, for sources of DataFrames. Before the Spark session is created."""
        if self._spark is not None:
            raise UsageError(
                "add_jars() was called after the Spark session was created; call it before env.spark and the first "
                "DataFrame, or set spark.jars"
            )
        before = self._configuration.get_string(SPARK_JARS, "")
        self._configuration.set_string(SPARK_JARS, ",".join(filter(None, (before, *jars_path))))

    def add_classpaths(self, *classpaths: str) -> None:
        """The same as `add_jars`."""
        self.add_jars(*classpaths)

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Accepted, without effect: functions in Python cannot ask for the file, in PyFlink neither."""
        reason = "a function reads the file itself, for example in open()"
        self._graph.without_effect["register_cached_file()"] = reason

    def create_input(self, input_format: Any, type_info: Any = None) -> NoReturn:
        """Not available."""
        _unavailable("create_input()", "use from_source() or from_dataframe()")

    # Checkpoints

    def enable_checkpointing(
        self, interval: TimeSpan, mode: CheckpointingMode | None = None
    ) -> "StreamExecutionEnvironment":
        """Take checkpoints at this interval: milliseconds, text such as "5s", a Duration or a timedelta."""
        config = self.get_checkpoint_config().set_checkpoint_interval(interval)
        if mode is not None:
            config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """The settings of checkpoints. They can be changed."""
        return CheckpointConfig(self._configuration, effective_configuration, self._choices)

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between checkpoints, or -1 without checkpoints."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly once or at least once."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """The same as `get_checkpointing_mode`."""
        return self.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints are unaligned: barriers may overtake records."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """What was set with `set_force_unaligned_checkpoints`, which has no effect."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def enable_changelog_state_backend(self, enabled: bool) -> "StreamExecutionEnvironment":
        """Accepted, without effect: checkpoints of both backends are already incremental. The job prints a line."""
        self._changelog = enabled
        if enabled:
            reason = "checkpoints of both backends are already incremental"
            self._graph.without_effect["enable_changelog_state_backend()"] = reason
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """What was set, or None. It has no effect."""
        return self._changelog

    def set_state_backend(self, state_backend: StateBackend) -> "StreamExecutionEnvironment":
        """Set the state backend. A legacy backend also sets where checkpoints are stored."""
        if not isinstance(state_backend, StateBackend):
            raise ArgumentError(f"give a HashMapStateBackend or EmbeddedRocksDBStateBackend, not {state_backend!r}")
        self._choices.backend = state_backend
        return self

    def get_state_backend(self) -> StateBackend | None:
        """The backend that the program set, or None."""
        return self._choices.backend

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> None:
        """Set when a failed job is restarted: one of `RestartStrategies`."""
        if not isinstance(restart_strategy_configuration, RestartStrategyConfiguration):
            raise ArgumentError(f"give one of RestartStrategies, not {restart_strategy_configuration!r}")
        restart_strategy_configuration.record(self._configuration)

    def set_default_savepoint_directory(self, directory: str) -> "StreamExecutionEnvironment":
        """Set the folder for savepoints that are requested without one."""
        self._configuration.set(checkpointing_options.SAVEPOINT_DIRECTORY, str(directory))
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """The folder for savepoints that are requested without one, or None."""
        return effective_configuration(self._configuration).get(checkpointing_options.SAVEPOINT_DIRECTORY)

    def _job(self) -> tuple[JobGraph, Configuration]:
        """The job to submit. Reports notes on the configuration before it starts."""
        for note in configuration_notes(self._configuration, self._choices):
            print_message(f"note: {note}")
        settings = job_settings(self._configuration, self._choices)
        use_caches(self._graph, self._caches, settings.configuration.get(pipeline_options.RUNTIME_MODE))
        graph = self._build(settings.configuration)
        take_program(graph, settings.configuration, settings.origins)
        require_guarantee(graph, settings.configuration)
        require_sink_folders(graph)
        self._graph.executed()
        return graph, settings.configuration

    def _source(self, name: str, spec: SourceSpec) -> DataStream:
        return DataStream(self, self._graph.add("source", name, (), spec, spec.record_type))

    def _build(self, configuration: Configuration) -> JobGraph:
        return build_job_graph(self._graph, graph_settings(configuration, self._spark))

    def _submit(self, job_name: str | None) -> JobHandle:
        from penstock.jobmanager.job_submission import submit_job

        graph, configuration = self._job()
        return submit_job(graph, configuration, job_name_of(job_name, configuration), self.spark)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an environment describes a program and cannot be used inside a function that runs in it")


def _unavailable(method: str, instead: str) -> NoReturn:
    """Raise an error that says what to use instead of a method of PyFlink."""
    raise UsageError(f"{method} is not available; {instead}")
