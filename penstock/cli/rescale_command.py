"""`penstock rescale`."""

from typing import Annotated

import typer

from penstock.cli.flags import DebugFlag, JsonFlag, SettingsFlag
from penstock.cli.job_target import JobTarget, OptionalJob, ServerFlag, TokenFileFlag, require_job, wait_for
from penstock.cli.savepoint_commands import print_line
from penstock.control.terminal import print_result
from penstock.errors import UsageError
from penstock.model.ids import new_trigger_id


def rescale(  # noqa: PLR0913 - the parameters are the command's flags
    *,
    job: OptionalJob = None,
    parallelism: Annotated[int, typer.Option("-p", "--parallelism", help="Subtasks per operator from now on.")],
    server: ServerFlag = None,
    token_file: TokenFileFlag = None,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Change the parallelism of a running job."""
    if parallelism < 1:
        raise UsageError(f"-p {parallelism}: the parallelism must be at least 1")
    with JobTarget(settings, server, token_file).connect(require_job(job, "rescale it")) as remote:
        trigger_id = new_trigger_id()
        remote.rescale(trigger_id, parallelism)
        print_line(f"Rescaling job {remote.job_id} to parallelism {parallelism}.")
        done = wait_for(remote, "rescaling", trigger_id)
        data = {
            "job_id": remote.job_id,
            "from": done.before,
            "to": done.after,
            "checkpoint": done.checkpoint,
            "pause_ms": done.pause_ms,
        }
        print_result(f"Job {remote.job_id} was rescaled {done}.", data)
