"""How commands connect to a job and wait for the result of a request."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.flags import complete_job, parse_settings
from penstock.cli.job_registry import open_registry
from penstock.control.registry import Registry
from penstock.control.terminal import print_warning
from penstock.control.tokens import read_token
from penstock.errors import (
    JobError,
    JobNotFoundError,
    NotReachableError,
    PathNotFoundError,
    UsageError,
    WaitInterruptedError,
)
from penstock.storage.address import parse_address

if TYPE_CHECKING:
    from penstock.control.remote_job import OperationKind, RemoteJob, ServerAddress

TOKEN_VARIABLE = "PENSTOCK_TOKEN"
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.0
END_LIMIT_S = 60.0

OptionalJob = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB",
        help="A job id, a unique prefix of one, or the name of a running job.",
        autocompletion=complete_job,
    ),
]
ServerFlag = Annotated[
    str | None,
    typer.Option(
        "-m", "--jobmanager", metavar="HOST:PORT", help=f"The control server; ${TOKEN_VARIABLE} is its token."
    ),
]
TokenFileFlag = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="A file with the token for -m.")
]
TypeFlag = Annotated[
    str | None, typer.Option("--type", "-type", metavar="canonical|native", help="The savepoint's format.")
]
DetachedFlag = Annotated[bool, typer.Option("--detached", "-detached", help="Do not wait for the result.")]


@dataclass(frozen=True)
class JobTarget:
    """Where a command finds its job: in the registry that the settings name, or through a control server."""

    settings: list[str] | None
    server: str | None = None
    token_file: Path | None = None

    @property
    def registry(self) -> Registry:
        """The registry that the settings name."""
        return open_registry(parse_settings(self.settings))

    def connect(self, job: str) -> "RemoteJob":
        """A connection to the job."""
        from penstock.control.remote_job import connect_to_job  # most commands need no HTTP

        address = None if self.server is None else server_address(self.server, self.token_file)
        return connect_to_job(self.registry, job, address)

    def folder(self, text: str | None) -> str | None:
        """The folder as an absolute address: the driver may have another working folder. None if there is none."""
        if not text or self.server is not None:
            return text or None
        return str(parse_address(text))


def server_address(server: str, token_file: Path | None) -> "ServerAddress":
    """The server that `-m` names, with the token from the environment or from a file."""
    from penstock.control.remote_job import ServerAddress, parse_server

    url = parse_server(server)
    if token_file is not None and not token_file.exists():
        raise PathNotFoundError(f"no token file {str(token_file)!r}; check the path")
    token = read_token(token_file) if token_file is not None else os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token or not token.isascii() or not token.isprintable():
        raise NotReachableError(f"{url} needs a token: set {TOKEN_VARIABLE}, or give --token-file FILE")
    address = ServerAddress(url, token)
    if address.sends_token_in_clear:
        print_warning(f"the token is sent to {url} without TLS")
    return address


def require_job(job: str | None, purpose: str) -> str:
    """The job argument; UsageError without one."""
    if not job:
        raise UsageError(f"Missing JobID. Specify a Job ID to {purpose}.")
    return job


def wait_for(
    job: "RemoteJob", kind: "OperationKind", trigger_id: str, show: Callable[[int], None] = lambda percent: None
) -> Any:
    """The result of an operation; JobError if it failed. An interrupted wait does not stop the operation."""
    pause, pause_s = threading.Event(), FIRST_PAUSE_S
    try:
        while not (state := job.state_of(kind, trigger_id)).is_ended:
            show(state.percent)
            pause.wait(pause_s)
            pause_s = min(LONGEST_PAUSE_S, 1.5 * pause_s)
    except KeyboardInterrupt:
        raise WaitInterruptedError(
            f"interrupted; job {job.job_id} continues the operation, triggerId: {trigger_id}"
        ) from None
    if state.failure is not None:
        raise JobError(state.failure)
    return state.result


def wait_for_end(job: "RemoteJob") -> str:
    """The final status of the job, or its status after a minute; empty if the server is gone."""
    pause, left_s, status = threading.Event(), END_LIMIT_S, ""
    while left_s > 0:
        try:
            status = job.status()
        except (NotReachableError, JobNotFoundError):
            return ""
        if status in ("FINISHED", "CANCELED", "FAILED"):
            break
        pause.wait(FIRST_PAUSE_S)
        left_s -= FIRST_PAUSE_S
    return status
