"""`penstock checkpoint`, and `penstock checkpoints list`."""

from typing import Annotated

import typer

from penstock.cli.count_texts import bytes_text
from penstock.cli.flags import DebugFlag, JsonFlag, SettingsFlag
from penstock.cli.job_target import JobTarget, OptionalJob, ServerFlag, TokenFileFlag, require_job, wait_for
from penstock.cli.savepoint_commands import print_line
from penstock.cli.time_texts import time_text
from penstock.control.inspect.retained_checkpoints import RetainedCheckpoint, retained_checkpoints
from penstock.control.terminal import print_result, print_warning, table
from penstock.model.ids import new_trigger_id

COLUMNS = ("JOB ID", "NAME", "CHECKPOINT", "EPOCH", "TIME", "SIZE", "PARALLELISM", "PATH")

checkpoints = typer.Typer(help="Checkpoints in a folder.", rich_markup_mode=None, no_args_is_help=True)


def checkpoint(  # noqa: PLR0913 - the parameters are the command's flags
    *,
    job: OptionalJob = None,
    full: Annotated[bool, typer.Option("--full", "-full", help="Write all state, not only what has changed.")] = False,
    server: ServerFlag = None,
    token_file: TokenFileFlag = None,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Take a checkpoint of a job now."""
    with JobTarget(settings, server, token_file).connect(require_job(job, "trigger a checkpoint")) as remote:
        trigger_id = new_trigger_id()
        print_line(f"Triggering checkpoint for job {remote.job_id}.")
        remote.take_checkpoint(trigger_id, full=full)
        print_line("Waiting for response...")
        number = wait_for(remote, "checkpoints", trigger_id, lambda percent: None)
        kind = "Checkpoint(FULL)" if full else "Checkpoint"
        data = {"job_id": remote.job_id, "checkpoint": number, "full": full}
        print_result(f"{kind} {number} for job {remote.job_id} completed.", data)
        print_line("You can resume your program from this checkpoint with the run command.")


@checkpoints.command("list")
def list_checkpoints(
    *,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A checkpoint folder: of all jobs, or of one.")],
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """List the retained checkpoints in a folder."""
    found, problems = retained_checkpoints(folder)
    for problem in (*problems, *(kept.problem for kept in found if kept.problem is not None)):
        print_warning(problem)
    print_result(table(COLUMNS, [row(kept) for kept in found]) if found else "no checkpoints", found)


def row(kept: RetainedCheckpoint) -> list[str]:
    """The table row of a checkpoint."""
    moment = "-" if kept.time_ms is None else time_text(kept.time_ms)
    size = "damaged" if kept.size_bytes is None else bytes_text(kept.size_bytes)
    parallelism = "-" if kept.parallelism is None else str(kept.parallelism)
    figures = [str(kept.checkpoint), str(kept.epoch), moment, size, parallelism]
    return [kept.job_id, kept.name, *figures, kept.path]
