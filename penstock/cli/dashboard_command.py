"""`penstock dashboard`."""

import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer

from penstock.cli.flags import DebugFlag, JsonFlag, SettingsFlag
from penstock.cli.job_target import JobTarget, OptionalJob, ServerFlag, TokenFileFlag
from penstock.cli.link_page import open_browser
from penstock.control.registry import Registry
from penstock.control.terminal import MODE, print_result
from penstock.control.tokens import Scope
from penstock.errors import UsageError


def dashboard(  # noqa: PLR0913 - the parameters are the command's flags
    *,
    job: OptionalJob = None,
    everything: Annotated[bool, typer.Option("--all", help="All jobs of the registry, as without JOB.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="The page may not change anything.")] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the link.")] = False,
    server: ServerFlag = None,
    token_file: TokenFileFlag = None,
    settings: SettingsFlag = None,
    json: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Open the web page of a job, or of all jobs.

    Without JOB, the page of all jobs is served until Ctrl-C.
    """
    target = JobTarget(settings, server, token_file)
    scope: Scope = "read" if read_only else "admin"
    if everything and (job or server):
        raise UsageError("--all shows the jobs of the registry; leave out --all, or leave out JOB and -m")
    if not job and server is None:
        show_all(target.registry, scope, no_open=no_open)
        return
    with target.connect(job or "") as remote:
        link = remote.page_link(scope)
    report(link, "", no_open=no_open)


def show_all(registry: Registry, scope: Scope, *, no_open: bool, wait: Callable[[], object] = signal.pause) -> None:
    """Serve the page of all jobs until Ctrl-C."""
    from penstock.control.remote_job import connect_to_job  # most commands need no HTTP
    from penstock.rest.dashboard import serve_dashboard  # no other command needs a server

    def link_to(job_id: str, scope: Scope) -> str:
        with connect_to_job(registry, job_id, None) as remote:
            return remote.page_link(scope)

    with serve_dashboard(registry, link_to, scope) as link:
        report(link, "The page of all jobs is there until Ctrl-C. ", no_open=no_open)
        with suppress(KeyboardInterrupt):
            wait()


def report(link: str, note: str, *, no_open: bool) -> None:
    """Open the link unless told not to, and print it after the note."""
    is_open = not no_open and not MODE.json and open_browser(link)
    hint = "Open this link within a minute; it works once"
    if is_open:
        hint = "Opened in the browser; if that shows no page, open this link within a minute"
    print_result(f"{note}{hint}:\n  {link}", {"link": link, "opened": is_open})
