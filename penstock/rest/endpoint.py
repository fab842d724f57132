"""One endpoint of the control server, a call of it, and what all of them share."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.control.running_job import ControlledJob
from penstock.control.tokens import Scope
from penstock.errors import RequestRefusedError
from penstock.graph.job_graph import StagePlan
from penstock.rest.bodies import NoBody
from penstock.rest.page_sessions import PageSessions

JSON = "application/json"
JOB_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Call:
    """One authorised request."""

    control: ControlledJob
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    idempotency_key: str | None
    now_ms: int
    sessions: PageSessions
    scope: Scope = "read"
    """Of the caller."""


@dataclass(frozen=True)
class Answer:
    """The response: a status, and JSON or text."""

    status: int
    data: Any
    media_type: str = JSON


@dataclass(frozen=True)
class Endpoint:
    """One method on one path."""

    method: str
    path: str
    handle: Callable[[Call], Answer]
    scope: Scope = "read"
    body: type[Any] = NoBody
    """A struct, or an object with a struct by name."""
    query: tuple[str, ...] = ()
    status: int = 200
    """Of a request that succeeds."""
    errors: tuple[int, ...] = ()
    """Statuses of its own, beside those that every request may get."""
    summary: str = ""
    media_type: str = JSON


def not_found(message: str) -> RequestRefusedError:
    """The error for status 404."""
    return RequestRefusedError(404, "NOT_FOUND", message)


def require_job(call: Call) -> None:
    """Raise unless the path names the job of this server."""
    job_id = call.path["jobid"]
    if not JOB_ID.fullmatch(job_id):
        raise RequestRefusedError(400, "BAD_REQUEST", "the job id in the path is not valid: ids have 32 hex digits")
    if job_id != call.control.job.job_id:
        raise not_found("Job could not be found.")


def find_vertex(call: Call) -> StagePlan:
    """The stage that the path names."""
    require_job(call)
    for stage in call.control.facts.graph.stages:
        if stage.id == call.path["vertexid"]:
            return stage
    raise not_found(f"There is no vertex {call.path['vertexid']}.")


def parse_number(name: str, text: str) -> int:
    """A non-negative number of at most 18 digits."""
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise RequestRefusedError(400, "BAD_REQUEST", f"{name} is not a number")
    return int(text)
