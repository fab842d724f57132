"""The settings of a program: its own, those of the flags of `penstock run`, and those of the configuration files."""

import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

from penstock.connectors.file.file_sink import FileSink
from penstock.control.effective_settings import (
    COMMAND_LINE,
    PROGRAM,
    EffectiveSettings,
    merge_settings,
    settings_files,
)
from penstock.control.inspect.program_inspection import is_inspecting
from penstock.control.interrupts import INTERRUPTS
from penstock.control.path_checks import require_paths
from penstock.control.registry import registry_of
from penstock.control.settings_file import SettingsSource
from penstock.control.submission import Submission, continues_job, current_submission
from penstock.datastream.state_choices import StateChoices
from penstock.graph.job_graph import JobGraph
from penstock.graph.stages import GraphSettings
from penstock.model.configuration import Configuration
from penstock.model.options import checkpointing_options, execution_options, pipeline_options
from penstock.model.options.catalogue import (
    SPARK_MASTER,
    SPARK_PREFIX,
    renamed_settings,
    settings_without_effect,
)
from penstock.runtime.process.log_parts import LogLimits
from penstock.runtime.process.taskmanager_start import end_ready_taskmanagers, prepare_taskmanagers
from penstock.storage.address import require_folder

_LOCAL_MASTER = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?$")


def effective_configuration(program: Configuration) -> Configuration:
    """The settings that are in effect now. Raises ConfigurationError for unknown keys, wherever they come from."""
    return merge_settings(_sources(program)).configuration


def job_settings(program: Configuration, choices: StateChoices) -> EffectiveSettings:
    """The settings that a job starts with. `choices` win over all others."""
    effective = merge_settings(_sources(program))
    configuration = choices.apply(effective.configuration)
    before = effective.configuration.to_dict()
    chosen = {key: PROGRAM for key, value in configuration.to_dict().items() if before.get(key) != value}
    return EffectiveSettings(configuration, {**effective.origins, **chosen})


def configuration_notes(program: Configuration, choices: StateChoices) -> list[str]:
    """What users should know about their settings before a job starts: old names, and keys without effect."""
    sources = _sources(program)
    old_names = renamed_settings(*(source.settings for source in reversed(sources)))
    return [*old_names, *settings_without_effect(choices.apply(merge_settings(sources).configuration))]


def _sources(program: Configuration) -> list[SettingsSource]:
    """All settings, highest precedence first."""
    own = SettingsSource(PROGRAM, program.to_dict())
    submission = current_submission()
    if submission is None:
        return [own, *settings_files()]
    return [*_start_flags(submission), own, *_settings_flags(submission), *settings_files()]


def _start_flags(submission: Submission) -> list[SettingsSource]:
    """The flags about the snapshot to start from. They win over the program."""
    sources = []
    if submission.savepoint_path is not None:
        sources.append(SettingsSource("-s", {checkpointing_options.RECOVERY_PATH.key: submission.savepoint_path}))
    if submission.allow_non_restored:
        sources.append(SettingsSource("-n", {checkpointing_options.IGNORE_UNCLAIMED_STATE.key: "true"}))
    if submission.claim_mode is not None:
        sources.append(SettingsSource("-cm", {checkpointing_options.CLAIM_MODE.key: submission.claim_mode}))
    return sources


def _settings_flags(submission: Submission) -> list[SettingsSource]:
    """The flags that the program wins over."""
    sources = [SettingsSource(COMMAND_LINE, submission.overrides)]
    if submission.parallelism is not None:
        parallelism = {pipeline_options.PARALLELISM.key: str(submission.parallelism)}
        sources.insert(0, SettingsSource("-p", parallelism))
    return sources


def graph_settings(configuration: Configuration, spark: Any) -> GraphSettings:
    """The settings that apply to the whole graph."""
    max_parallelism = configuration.get(pipeline_options.MAX_PARALLELISM)
    return GraphSettings(
        parallelism=default_parallelism(configuration, spark),
        max_parallelism=max_parallelism if max_parallelism > 0 else None,
        chaining=configuration.get(pipeline_options.CHAINING),
        generate_uids=configuration.get(pipeline_options.AUTO_GENERATE_UIDS),
        mode=configuration.get(pipeline_options.RUNTIME_MODE),
        async_wait_ms=configuration.get(execution_options.ASYNC_WAIT),
    )


def default_parallelism(configuration: Configuration, spark: Any) -> int:
    """The parallelism that is set, or else the number of cores of the Spark session, even if it does not exist yet."""
    parallelism = configuration.get(pipeline_options.PARALLELISM)
    if parallelism > 0:
        return parallelism
    if spark is not None:
        return int(spark.sparkContext.defaultParallelism)
    cores = _local_cores(configuration)
    return cores if cores is not None else int(make_session(configuration).sparkContext.defaultParallelism)


def _local_cores(configuration: Configuration) -> int | None:
    """The number of cores of a local session; None if the master is another one."""
    local = _LOCAL_MASTER.match(configuration.get_string(SPARK_MASTER, "local[*]"))
    if local is None:
        return None
    if local.group(1) is None:
        return 1
    return _cores() if local.group(1) == "*" else int(local.group(1))


def make_session(configuration: Configuration) -> Any:
    """A Spark session with the `spark.*` settings, for a job that is likely to follow."""
    from penstock.spark.session import make_session as make
    from penstock.spark.warm_up import start_warm_up

    submission = current_submission()
    if submission is not None and submission.announce is not None:
        submission.announce("starting Spark")
    settings = {key: value for key, value in configuration.to_dict().items() if key.startswith(SPARK_PREFIX)}
    require_paths(configuration, resumes=continues_job(submission))
    if not is_inspecting():
        prepare_taskmanagers(_local_parallelism(configuration))  # they do their imports while the JVM starts
    try:
        spark_log = submission.spark_log if submission is not None else None
        logging.getLogger("py4j").setLevel(logging.WARNING)  # otherwise a program that logs to stdout shows its calls
        session = make(
            settings,
            spark_log,
            class_archive=configuration.get(execution_options.CLASS_ARCHIVE),
            log_folder=registry_of(configuration).folder,
            log_limits=LogLimits.of(configuration),
        )
    except BaseException as error:
        end_ready_taskmanagers()
        if INTERRUPTS.is_received or isinstance(error, KeyboardInterrupt):
            raise INTERRUPTS.deliver(INTERRUPTS.interrupt()) from None  # whatever PySpark's start changed
        raise
    finally:
        handle_interrupts()  # a new session installs its own handler
    if not is_inspecting():
        start_warm_up(session)
    return session


def _local_parallelism(configuration: Configuration) -> int:
    """How many TaskManagers a job will need on this machine; 0 if they run elsewhere or if that is unknown."""
    cores = _local_cores(configuration)
    return 0 if cores is None else min(cores, default_parallelism(configuration, None))


def require_sink_folders(graph: JobGraph) -> None:
    """Raise unless the folders of all file sinks can be written."""
    for sink in graph.sinks:
        if isinstance(sink.spec.config, FileSink):
            require_folder(sink.spec.config.path, f"folder of the sink {sink.uid!r},")


def handle_interrupts() -> None:
    """Let Ctrl-C and SIGTERM suspend the jobs of this program."""
    submission = current_submission()
    if submission is None or submission.suspends:
        INTERRUPTS.install()


def job_name_of(name: str | None, configuration: Configuration) -> str:
    """The name in the program, or else `--name`, or else the setting, or else the name of the program's file."""
    submission = current_submission()
    chosen = name or (submission.name if submission is not None else None) or configuration.get(pipeline_options.NAME)
    if chosen:
        return chosen
    file = submission.job_file if submission is not None else getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(file).stem if file else "penstock"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
