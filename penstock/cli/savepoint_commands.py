"""`penstock savepoint`, `stop` and `cancel`, with Flink's texts."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.flags import DebugFlag, JsonFlag, SettingsFlag, parse_choice
from penstock.cli.job_target import (
    DetachedFlag,
    OptionalJob,
    PercentBar,
    ServerFlag,
    TokenFileFlag,
    TypeFlag,
    Where,
    require_job,
    wait_for,
    wait_for_end,
)
from penstock.cli.output import MODE, print_result
from penstock.control.disposal import dispose_savepoint
from penstock.errors import JobConflictError, JobError, JobNotFoundError, UsageError
from penstock.model.ids import new_trigger_id

if TYPE_CHECKING:
    from penstock.control.remote_job import RemoteJob

FORMATS = ("canonical", "native")
DEPRECATED = 'DEPRECATION WARNING: Cancelling a job with savepoint is deprecated. Use "stop" instead.'


def savepoint(  # noqa: PLR0913 - the parameters are the command's flags
    *,
    job: OptionalJob = None,
    folder: Annotated[str | None, typer.Argument(metavar="DIR", help="Where to put it.")] = None,
    dispose: Annotated[
        str | None, typer.Option("-d", "--dispose", metavar="PATH", help="Remove this savepoint instead.")
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
            raise UsageError("-d removes the savepoint at a path and needs no JOB")
        if server is not None:
            raise UsageError("-d removes a savepoint from here, without a control server: leave -m away")
        remove(dispose)
        return
    format_ = parse_format(type_)
    where = Where(settings, server, token_file)
    with where.reach(require_job(job, "trigger a savepoint")) as remote:
        trigger_id = new_trigger_id()
        say(f"Triggering savepoint for job {remote.job_id}.")
        remote.take_savepoint(trigger_id, where.folder(folder), format_)
        if detached:
            text = f"Successfully trigger manual savepoint, triggerId: {trigger_id}"
            print_result(text, {"job_id": remote.job_id, "trigger_id": trigger_id})
            return
        say("Waiting for response...")
        with PercentBar() as bar:
            path = wait_for(remote, "savepoints", trigger_id, bar)
        say_path(remote.job_id, path, format_)
        say("You can resume your program from this savepoint with the run command.")


def stop(  # noqa: PLR0913 - as above
    *,
    job: OptionalJob = None,
    folder: Annotated[
        str | None,
        typer.Option("-p", "--savepoint-path", "--savepointPath", metavar="DIR", help="Where to put the savepoint."),
    ] = None,
    drain: Annotated[bool, typer.Option("-d", "--drain", help="Bring event time to its end first.")] = False,
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
    where = Where(settings, server, token_file)
    with where.reach(require_job(job, "stop it")) as remote:
        trigger_id = new_trigger_id()
        doing = "Draining" if drain else "Suspending"
        say(f'{doing} job "{remote.job_id}" with a {format_.upper()} savepoint.')
        remote.stop(trigger_id, where.folder(folder), format_, drain=drain)
        if detached:
            text = f"Successfully trigger stop-with-savepoint in detached mode, triggerId: {trigger_id}"
            print_result(text, {"job_id": remote.job_id, "trigger_id": trigger_id})
            return
        with PercentBar() as bar:
            path = wait_for(remote, "savepoints", trigger_id, bar)
        wait_for_end(remote)
        say_path(remote.job_id, path, format_)


def cancel(  # noqa: PLR0913 - as above
    *,
    job: OptionalJob = None,
    folder: Annotated[
        str | None,
        typer.Option("-s", "--with-savepoint", "--withSavepoint", metavar="[DIR]", help="With a savepoint."),
    ] = None,
    type_: TypeFlag = None,
    server: ServerFlag = None,
    token_file: TokenFileFlag = None,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Cancel a job."""
    where = Where(settings, server, token_file)
    if folder is not None:
        job, folder = job_and_folder(job, folder)
        with where.reach(require_job(job, "cancel it")) as remote:
            cancel_with_savepoint(remote, where.folder(folder), parse_format(type_))
        return
    if type_ is not None:
        raise UsageError("--type is the format of a savepoint and needs -s")
    job = require_job(job, "cancel it")
    known = where.registry.find(job) if server is None else None
    if known is not None and known.status == "CANCELED":
        print_result(f"Job {known.job_id} is cancelled already.", {"job_id": known.job_id, "status": "CANCELED"})
        return
    with where.reach(job) as remote:
        cancel_at_once(remote)


def cancel_at_once(remote: "RemoteJob") -> None:
    """Cancel a job, and wait until it has ended. One that is cancelled already is fine."""
    say(f"Cancelling job {remote.job_id}.")
    try:
        remote.cancel()
    except JobConflictError:
        status = remote.status()
        if status != "CANCELED":
            raise JobNotFoundError(f"job {remote.job_id} is {status}: it does not run any more") from None
    status = wait_for_end(remote)
    if status not in ("", "CANCELED"):
        raise JobError(f"job {remote.job_id} was asked to cancel and is {status}; see `penstock status`")
    print_result(f"Cancelled job {remote.job_id}.", {"job_id": remote.job_id, "status": "CANCELED"})


def cancel_with_savepoint(remote: "RemoteJob", folder: str | None, format_: str) -> None:
    """Cancel a job once it has a savepoint; without one it goes on."""
    say(DEPRECATED)
    place = f"to {folder}." if folder is not None else "to default savepoint directory."
    say(f"Cancelling job {remote.job_id} with {format_.upper()} savepoint {place}")
    trigger_id = new_trigger_id()
    remote.take_savepoint(trigger_id, folder, format_, cancel=True)
    with PercentBar() as bar:
        path = wait_for(remote, "savepoints", trigger_id, bar)
    wait_for_end(remote)
    data = {"job_id": remote.job_id, "status": "CANCELED", "savepoint": path, "type": format_}
    print_result(f"Cancelled job {remote.job_id}. Savepoint stored in {path}.", data)


def remove(path: str) -> None:
    """Remove a savepoint; no job is needed for it."""
    say(f"Disposing savepoint '{path}'.")
    dispose_savepoint(path)
    print_result(f"Savepoint '{path}' disposed.", {"disposed": path})


def job_and_folder(job: str | None, folder: str | None) -> tuple[str | None, str | None]:
    """`stop -p JOB` and `cancel -s JOB` name a job and no folder, as in Flink."""
    return (job, folder) if job is not None else (folder or None, None)


def parse_format(text: str | None) -> str:
    """The format of a savepoint."""
    return parse_choice("--type", text, FORMATS) or "canonical"


def say(text: str) -> None:
    """A line for people; with `--json` only the result is printed."""
    if not MODE.json:
        print_result(text, None)


def say_path(job_id: str, path: str, format_: str) -> None:
    """The savepoint is there."""
    print_result(f"Savepoint completed. Path: {path}", {"job_id": job_id, "savepoint": path, "type": format_})
