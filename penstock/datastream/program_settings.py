"""What the environment reads from its configuration: the program's own settings, the flags of `penstock run`, and
`penstock.yaml`, in this order of precedence."""

import os
import re
import sys
from pathlib import Path
from typing import Any

from penstock.control.submission import Submission, current_submission
from penstock.graph.stages import GraphSettings
from penstock.model.configuration import Configuration
from penstock.model.options import ignored_settings, load_configuration, read_yaml, renamed_settings

PARALLELISM = "parallelism.default"
MAX_PARALLELISM = "pipeline.max-parallelism"
CHAINING = "pipeline.operator-chaining.enabled"
GENERATE_UIDS = "pipeline.auto-generate-uids"
JOB_NAME = "pipeline.name"
RUNTIME_MODE = "execution.runtime-mode"
SAVEPOINT_DIRECTORY = "execution.checkpointing.savepoint-dir"
MASTER = "spark.master"
SETTINGS_FILE = "penstock.yaml"

_LOCAL_MASTER = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?$")


def effective_configuration(program: Configuration) -> Configuration:
    """The settings that hold now. Raises ConfigurationError for unknown keys, wherever they come from."""
    submission = current_submission()
    overrides = dict(submission.overrides) if submission is not None else {}
    if submission is not None and submission.parallelism is not None:
        overrides[PARALLELISM] = str(submission.parallelism)
    file = Path(SETTINGS_FILE)
    configuration = load_configuration(program, overrides, file if file.is_file() else None)
    if submission is not None:
        _set_start(configuration, submission)
    return configuration


def _set_start(configuration: Configuration, submission: Submission) -> None:
    """What the flags say about a snapshot to start from holds, whatever else is set."""
    if submission.savepoint_path is not None:
        configuration.set_string("execution.state-recovery.path", submission.savepoint_path)
    if submission.allow_non_restored:
        configuration.set_boolean("execution.state-recovery.ignore-unclaimed-state", True)
    if submission.claim_mode is not None:
        configuration.set_string("execution.state-recovery.claim-mode", submission.claim_mode.replace("_", "-"))


def notes_on_settings(program: Configuration) -> list[str]:
    """What is to be said about the settings before a job starts: old names, and keys without effect."""
    overrides = dict(submission.overrides) if (submission := current_submission()) is not None else {}
    sources = (read_yaml(Path(SETTINGS_FILE)), overrides, program.to_dict())
    return [*renamed_settings(*sources), *ignored_settings(effective_configuration(program))]


def graph_settings(configuration: Configuration, spark: Any) -> GraphSettings:
    """What the settings say about the whole graph."""
    max_parallelism = configuration.get_integer(MAX_PARALLELISM, -1)
    return GraphSettings(
        parallelism=default_parallelism(configuration, spark),
        max_parallelism=max_parallelism if max_parallelism > 0 else None,
        chaining=configuration.get_boolean(CHAINING, True),
        generate_uids=configuration.get_boolean(GENERATE_UIDS, True),
    )


def default_parallelism(configuration: Configuration, spark: Any) -> int:
    """The parallelism that is set, or else the number of cores of the Spark session, made or yet to be made."""
    set_to = configuration.get_integer(PARALLELISM, -1)
    if set_to > 0:
        return set_to
    if spark is not None:
        return int(spark.sparkContext.defaultParallelism)
    local = _LOCAL_MASTER.match(configuration.get_string(MASTER, "local[*]"))
    if local is None:
        return int(make_session(configuration).sparkContext.defaultParallelism)
    if local.group(1) is None:
        return 1
    return _cores() if local.group(1) == "*" else int(local.group(1))


def make_session(configuration: Configuration) -> Any:
    """A Spark session with the `spark.*` settings."""
    from penstock.spark.session import make_session as make

    submission = current_submission()
    settings = {key: value for key, value in configuration.to_dict().items() if key.startswith("spark.")}
    return make(settings, submission.spark_log if submission is not None else None)


def job_name_of(name: str | None, configuration: Configuration) -> str:
    """What the program says, else `--name`, else the setting, else the stem of the program's file."""
    submission = current_submission()
    given = name or (submission.name if submission is not None else None) or configuration.get_string(JOB_NAME, "")
    if given:
        return given
    file = submission.job_file if submission is not None else getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(file).stem if file else "penstock"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
