"""`penstock list`: the jobs of this user, or of one control server, in Flink's form."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from penstock.cli.flags import DebugFlag, JsonFlag, SettingsFlag
from penstock.cli.job_target import JobTarget, ServerFlag, TokenFileFlag, server_address
from penstock.control import job_queries
from penstock.control.driver_log import printable
from penstock.control.registry import ENDED, LOST, SUSPENDED, JobRecord
from penstock.control.terminal import print_result, print_warning
from penstock.errors import UsageError

LINE = "-" * 62
RUNNING, SCHEDULED, RESUMABLE, GONE, TERMINATED = "Running/Restarting", "Scheduled", "Suspended", "Lost", "Terminated"


def list_jobs(  # noqa: PLR0913 - the parameters are the command's flags
    *,
    running: Annotated[bool, typer.Option("-r", "--running", help="Only running jobs.")] = False,
    scheduled: Annotated[bool, typer.Option("-s", "--scheduled", help="Only scheduled jobs.")] = False,
    everything: Annotated[bool, typer.Option("-a", "--all", help="Include jobs that have ended.")] = False,
    server: ServerFlag = None,
    token_file: TokenFileFlag = None,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """List the jobs that have not ended."""
    if running + scheduled + everything > 1:
        raise UsageError("-r, -s and -a are mutually exclusive")
    sections = [RUNNING] if running else [SCHEDULED] if scheduled else [RUNNING, SCHEDULED, RESUMABLE, GONE]
    sections += [TERMINATED] if everything else []
    target = JobTarget(settings, server, token_file)
    if server is None:
        records = [record for record in registered_jobs(target, everything=everything) if section(record) in sections]
        print_result(listing([line_of(record) for record in records], sections), records)
    else:
        found = [job for job in served_jobs(server, target) if section_of(job["state"]) in sections]
        print_result(listing([served_line(job) for job in found], sections), found)


def registered_jobs(target: JobTarget, *, everything: bool) -> list[JobRecord]:
    """The jobs in the registry. Records that cannot be read are skipped with a warning."""
    registry = target.registry
    records = job_queries.list_jobs(
        registry, job_queries.JobSelection.ALL if everything else job_queries.JobSelection.NOT_ENDED
    )
    for problem in registry.unreadable():
        print_warning(problem)
    return records


def served_jobs(server: str, target: JobTarget) -> list[dict[str, Any]]:
    """The jobs that a control server lists."""
    from penstock.control.remote_job import RemoteJob  # most commands need no HTTP

    with RemoteJob("", server_address(server, target.token_file)) as remote:
        return remote.overview()


def listing(lines: Sequence[tuple[str, str]], sections: Sequence[str]) -> str:
    """The sections with their lines; Flink's two sections are shown even if empty."""
    parts: list[str] = []
    for name in sections:
        own = [text for found, text in lines if found == name]
        if own:
            parts += [f" {name} Jobs ".center(len(LINE), "-"), *own, LINE]
        elif name in (RUNNING, SCHEDULED):
            parts.append(f"No {name.partition('/')[0].lower()} jobs.")
    return "\n".join(parts)


def line_of(record: JobRecord) -> tuple[str, str]:
    """A job's section and its line."""
    return section(record), job_line(record.started_ms, record.job_id, record.name, record.status)


def served_line(job: dict[str, Any]) -> tuple[str, str]:
    """The section and the line of a job that a server lists."""
    state = printable(str(job["state"]))
    text = job_line(int(job["start-time"]), printable(str(job["jid"])), printable(str(job["name"])), state)
    return section_of(state), text


def job_line(started_ms: int, job_id: str, name: str, status: str) -> str:
    """Start in local time, id, name and status."""
    started = datetime.fromtimestamp(started_ms / 1000).strftime("%d.%m.%Y %H:%M:%S")
    return f"{started} : {job_id} : {name} ({status})"


def section(record: JobRecord) -> str:
    """The section of a job."""
    return section_of(record.status)


def section_of(status: str) -> str:
    """The section of a status."""
    if status == SUSPENDED:
        return RESUMABLE
    if status in ENDED:
        return TERMINATED
    return GONE if status == LOST else SCHEDULED if status == "CREATED" else RUNNING
