"""`penstock dashboard`."""

import signal
from collections.abc import Callable
from typing import Annotated

import typer

from penstock.cli.flags import DebugFlag, JsonFlag, SettingsFlag
from penstock.cli.job_target import JobTarget, OptionalJob, ServerFlag, TokenFileFlag
from penstock.cli.link_page import open_browser
from penstock.control.registry import Registry
from penstock.control.terminal import MODE, print_result
from penstock.control.tokens import Scope
from penstock.errors import JobConflictError, JobNotFoundError


def dashboard(  # noqa: PLR0913 - the parameters are the command's flags
    *,
    job: OptionalJob = None,
    everything: Annotated[
        bool, typer.Option("--all", help="The page of all jobs of the registry, until Ctrl-C.")
    ] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="The page may not change anything.")] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the link.")] = False,
    server: ServerFlag = None,
    token_file: TokenFileFlag = None,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Open the web page of a job."""
    target = JobTarget(settings, server, token_file)
    if everything:
        show_all(target.registry, "read" if read_only else "admin", no_open=no_open)
        return
    with target.connect(job or (only_job(target.registry) if server is None else "")) as remote:
        link = remote.page_link("read" if read_only else "admin")
    report(link, no_open=no_open)


def show_all(registry: Registry, scope: Scope, *, no_open: bool, wait: Callable[[], object] = signal.pause) -> None:
    """Serve the page of all jobs until a signal."""
    from penstock.control.remote_job import connect_to_job  # most commands need no HTTP
    from penstock.rest.dashboard import serve_dashboard  # no other command needs a server

    def link_to(job_id: str, scope: Scope) -> str:
        with connect_to_job(registry, job_id, None) as remote:
            return remote.page_link(scope)

    with serve_dashboard(registry, link_to, scope) as link:
        report(link, no_open=no_open)
        wait()


def report(link: str, *, no_open: bool) -> None:
    """Open the link unless told not to, and print it."""
    is_open = not no_open and not MODE.json and open_browser(link)
    hint = "Open this link within a minute; it works once"
    if is_open:
        hint = "Opened in the browser; if that shows no page, open this link within a minute"
    print_result(f"{hint}:\n  {link}", {"link": link, "opened": is_open})


def only_job(registry: Registry) -> str:
    """The id of the job that runs, if there is only one."""
    running = [record for record in registry.list() if registry.is_running(record)]
    if len(running) == 1:
        return running[0].job_id
    if not running:
        raise JobNotFoundError("no job is running; start one with `penstock run`, or see `penstock list -a`")
    names = ", ".join(f"{record.job_id} ({record.name})" for record in running)
    raise JobConflictError(f"{len(running)} jobs are running: {names}; give the id of one, or see all with --all")
