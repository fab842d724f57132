"""What Flink shows of a cluster: here it has one job, its driver and its TaskManagers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock import __version__
from penstock.control.driver_log import FILE_NAME
from penstock.control.registry import JobRecord, ProcessRecord
from penstock.control.running_job import JobFacts
from penstock.errors import RequestRefusedError
from penstock.runtime.process.log_parts import SPARK_LOG, end_of_log, log_size, taskmanager_log

REFRESH_MS = 3000
MOST_LOG_BYTES = 4 << 20
"""Of a log that is sent: its end."""


def overview(record: JobRecord) -> dict[str, Any]:
    """/overview."""
    count = len(taskmanagers_of(record))
    ended = {"jobs-finished": "FINISHED", "jobs-cancelled": "CANCELED", "jobs-failed": "FAILED"}
    return {
        "taskmanagers": count,
        "taskmanagers-blocked": 0,
        "slots-total": count,
        "slots-available": 0,
        "slots-free-and-blocked": 0,
        "jobs-running": int(not record.ended),
        **{name: int(record.status == status) for name, status in ended.items()},
        "flink-version": f"penstock {__version__}",
        "flink-commit": "",
    }


def dashboard_config() -> dict[str, Any]:
    """/config: what Flink's page asks for first."""
    return {
        "refresh-interval": REFRESH_MS,
        "timezone-name": "Coordinated Universal Time",
        "timezone-offset": 0,
        "flink-version": f"penstock {__version__}",
        "flink-revision": "",
        "features": {"web-submit": False, "web-cancel": True, "web-rescale": True, "web-history": False},
    }


def driver_config(facts: JobFacts) -> list[dict[str, str]]:
    """/jobmanager/config: the settings of the job that are not the default. Secret values are hidden."""
    return [{"key": key, "value": value} for key, value in sorted(facts.settings.items())]


def taskmanagers_of(record: JobRecord) -> list[ProcessRecord]:
    """The TaskManagers that run."""
    return [process for process in record.processes if process.role == "taskmanager"]


def taskmanager(record: JobRecord, process: ProcessRecord) -> dict[str, Any]:
    """One entry of /taskmanagers, and /taskmanagers/:taskmanagerid."""
    return {
        "id": process.id,
        "path": f"{process.host}/{process.pid}",
        "host": process.host,
        "pid": process.pid,
        "subtasks": process.subtasks,
        "dataPort": 0,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": record.updated_ms,
        "slotsNumber": 1,
        "freeSlots": 0,
        "blocked": False,
    }


def find_taskmanager(record: JobRecord, name: str) -> ProcessRecord:
    """The TaskManager with this id."""
    for process in taskmanagers_of(record):
        if process.id == name:
            return process
    raise RequestRefusedError(404, "NOT_FOUND", f"There is no TaskManager {name}.")


def log_files(record: JobRecord, process: ProcessRecord | None = None) -> dict[str, Any]:
    """The logs of the driver or of a TaskManager: names, times, and sizes with all parts."""
    found = {name: log_size(Path(record.log_dir) / name) for name in log_names(process)}
    return {
        "logs": [
            {"name": name, "size": size[0], "mtime": int(size[1] * 1000)}
            for name, size in found.items()
            if size is not None
        ]
    }


def log_names(process: ProcessRecord | None) -> Sequence[str]:
    """The log files of a TaskManager, whose id has attempt and index in it; None: of the driver."""
    if process is None:
        return (FILE_NAME, "output.log", SPARK_LOG)
    _, attempt, index, _ = (process.id + "---").split("-")[:4]
    return (taskmanager_log(attempt, index),)


def log_text(record: JobRecord, process: ProcessRecord | None, name: str) -> str:
    """The end of one of the logs that `log_files` lists."""
    log = Path(record.log_dir) / name
    if name not in log_names(process) or log_size(log) is None:
        raise RequestRefusedError(404, "NOT_FOUND", f"There is no log {name}.")
    return end_of_log(log, MOST_LOG_BYTES).decode("utf-8", errors="replace")
