"""`penstock savepoint`, `stop` and `cancel`, with Flink's messages."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.flags import DebugFlag, JsonFlag, SettingsFlag, parse_choice
from penstock.cli.job_target import (
    DetachedFlag,
    JobTarget,
    OptionalJob,
    ServerFlag,
    TokenFileFlag,
    TypeFlag,
    require_job,
    wait_for,
    wait_for_end,
)
from penstock.cli.percent_bar import PercentBar
from penstock.control.registry import JobRecord, Registry
from penstock.control.terminal import MODE, print_result
from penstock.errors import JobConflictError, JobError, JobNotFoundError, UsageError
from penstock.model.ids import new_trigger_id

if TYPE_CHECKING:
    from penstock.control.remote_job import RemoteJob

FORMATS = ("canonical", "native")
DEPRECATED = 'DEPRECATION WARNING: Cancelling a job with savepoint is deprecated. Use "stop" instead.'


def savepoint(  # noqa: PLR0913 - the parameters are the command's flags
    *,
    job: OptionalJob = None,
    folder: Annotated[str | None, typer.Argument(metavar="DIR", help="Where to write it.")] = None,
    dispose: Annotated[
        str | None,
        typer.Option("-d", "--dispose", metavar="PATH", help="Remove this savepoint, or checkpoint of an ended job."),
    ] = None,
    type_: TypeFlag = None,
    detached: DetachedFlag = False,
    server: ServerFlag = None,
    token_file: TokenFileFlag = None,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Take a savepoint of a job, or remove one."""
    if dispose is not None:
        if job is not None:
            raise UsageError("-d takes the path of a savepoint and no JOB")
        if server is not None:
            raise UsageError("-d removes a savepoint without a control server; omit -m")
        remove(dispose)
        return
    format_ = parse_format(type_)
    target = JobTarget(settings, server, token_file)
    with target.connect(require_job(job, "trigger a savepoint")) as remote:
        trigger_id = new_trigger_id()
        print_line(f"Triggering savepoint for job {remote.job_id}.")
        remote.take_savepoint(trigger_id, target.folder(folder), format_)
        if detached:
            text = f"Successfully trigger manual savepoint, triggerId: {trigger_id}"
            print_result(text, {"job_id": remote.job_id, "trigger_id": trigger_id})
            return
        print_line("Waiting for response...")
        path = wait_for_savepoint(remote, trigger_id)
        print_savepoint(remote.job_id, path, format_)
        print_line("You can resume your program from this savepoint with the run command.")


def stop(  # noqa: PLR0913 - as above
    *,
    job: OptionalJob = None,
    folder: Annotated[
        str | None,
        typer.Option("-p", "--savepoint-path", "--savepointPath", metavar="DIR", help="Where to write the savepoint."),
    ] = None,
    drain: Annotated[bool, typer.Option("-d", "--drain", help="Advance event time to its end first.")] = False,
    type_: TypeFlag = None,
    detached: DetachedFlag = False,
    server: ServerFlag = None,
    token_file: TokenFileFlag = None,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Stop a job with a savepoint."""
    job, folder = job_and_folder(job, folder)
    format_ = parse_format(type_)
    target = JobTarget(settings, server, token_file)
    with target.connect(require_job(job, "stop it")) as remote:
        trigger_id = new_trigger_id()
        doing = "Draining" if drain else "Suspending"
        print_line(f'{doing} job "{remote.job_id}" with a {format_.upper()} savepoint.')
        remote.stop(trigger_id, target.folder(folder), format_, drain=drain)
        if detached:
            text = f"Successfully trigger stop-with-savepoint in detached mode, triggerId: {trigger_id}"
            print_result(text, {"job_id": remote.job_id, "trigger_id": trigger_id})
            return
        path = wait_for_savepoint(remote, trigger_id)
        wait_for_end(remote)
        print_savepoint(remote.job_id, path, format_)


def cancel(  # noqa: PLR0913 - as above
    *,
    job: OptionalJob = None,
    folder: Annotated[
        str | None,
        typer.Option("-s", "--with-savepoint", "--withSavepoint", metavar="[DIR]", help="Take a savepoint first."),
    ] = None,
    type_: TypeFlag = None,
    server: ServerFlag = None,
    token_file: TokenFileFlag = None,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Cancel a job."""
    target = JobTarget(settings, server, token_file)
    if folder is not None:
        job, folder = job_and_folder(job, folder)
        with target.connect(require_job(job, "cancel it")) as remote:
            cancel_with_savepoint(remote, target.folder(folder), parse_format(type_))
        return
    if type_ is not None:
        raise UsageError("--type is the format of a savepoint; it needs -s")
    job = require_job(job, "cancel it")
    known = target.registry.find(job) if server is None else None
    if known is not None and known.status == "CANCELED":
        print_result(f"Job {known.job_id} is already cancelled.", {"job_id": known.job_id, "status": "CANCELED"})
        return
    if known is not None and cancel_idle(target.registry, known):
        return
    with target.connect(job) as remote:
        cancel_at_once(remote)


def cancel_at_once(remote: "RemoteJob") -> None:
    """Cancel a job and wait for its end. It may already be cancelled."""
    print_line(f"Cancelling job {remote.job_id}.")
    try:
        remote.cancel()
    except JobConflictError:
        status = remote.status()
        if status != "CANCELED":
            raise JobNotFoundError(f"job {remote.job_id} is {status}: it is not running") from None
    status = wait_for_end(remote)
    if status not in ("", "CANCELED"):
        raise JobError(f"job {remote.job_id} was asked to cancel and is {status}; see `penstock status`")
    print_result(f"Cancelled job {remote.job_id}.", {"job_id": remote.job_id, "status": "CANCELED"})


def cancel_idle(registry: Registry, record: JobRecord) -> bool:
    """Cancel a job that no driver runs. Returns False if one does."""
    from penstock.control.cancellation import cancel_idle_job, is_idle  # only few commands write the job log

    if not is_idle(registry, record):
        return False
    newest = cancel_idle_job(registry, record)
    stays = f" Its newest checkpoint stays: {newest}" if newest is not None else ""
    data = {"job_id": record.job_id, "status": "CANCELED", "checkpoint": newest}
    print_result(f"Cancelled job {record.job_id}, which was {registry.status(record)}.{stays}", data)
    return True


def cancel_with_savepoint(remote: "RemoteJob", folder: str | None, format_: str) -> None:
    """Cancel a job after a savepoint; if the savepoint fails, the job continues."""
    print_line(DEPRECATED)
    place = f"to {folder}." if folder is not None else "to default savepoint directory."
    print_line(f"Cancelling job {remote.job_id} with {format_.upper()} savepoint {place}")
    trigger_id = new_trigger_id()
    remote.take_savepoint(trigger_id, folder, format_, cancel=True)
    path = wait_for_savepoint(remote, trigger_id)
    wait_for_end(remote)
    data = {"job_id": remote.job_id, "status": "CANCELED", "savepoint": path, "type": format_}
    print_result(f"Cancelled job {remote.job_id}. Savepoint stored in {path}.", data)


def wait_for_savepoint(remote: "RemoteJob", trigger_id: str) -> str:
    """The path of the savepoint; shows its progress meanwhile."""
    with PercentBar() as bar:
        return str(wait_for(remote, "savepoints", trigger_id, bar))


def remove(path: str) -> None:
    """Remove a savepoint; this needs no job."""
    from penstock.control.disposal import dispose_savepoint  # the other commands read no files

    print_line(f"Disposing savepoint '{path}'.")
    dispose_savepoint(path)
    print_result(f"Savepoint '{path}' disposed.", {"disposed": path})


def job_and_folder(job: str | None, folder: str | None) -> tuple[str | None, str | None]:
    """As in Flink, the value of `stop -p JOB` and `cancel -s JOB` is the job, not a folder."""
    return (job, folder) if job is not None else (folder or None, None)


def parse_format(text: str | None) -> str:
    """The format of a savepoint."""
    return parse_choice("--type", text, FORMATS) or "canonical"


def print_line(text: str) -> None:
    """Print a line, unless `--json` asks for the result only."""
    if not MODE.json:
        print_result(text, None)


def print_savepoint(job_id: str, path: str, format_: str) -> None:
    """Print the path of a completed savepoint."""
    print_result(f"Savepoint completed. Path: {path}", {"job_id": job_id, "savepoint": path, "type": format_})
