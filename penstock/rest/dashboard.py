"""The page of all jobs of a registry, running and ended: `penstock dashboard`.

It serves what the registry and the job logs know, and leads to the page of a running job with a one-time link of that
job's own server. It changes nothing, and ends with the command.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.control import job_queries, tokens
from penstock.control.inspect.retained_checkpoints import RetainedCheckpoint, retained_checkpoints
from penstock.control.registry import JobRecord, Registry
from penstock.errors import JobNotFoundError, PenstockError, RequestRefusedError
from penstock.model.ids import new_trigger_id
from penstock.rest import page
from penstock.rest.access import Access, check_path, check_size, refuse_token_in_query
from penstock.rest.app import json_response, refusal
from penstock.rest.rest_settings import RestSettings
from penstock.rest.server import ControlServer

LinkTo = Callable[[str, tokens.Scope], str]
HOME = "jobs.html"
_JOB = re.compile(r"/registry/([0-9a-f]{32})(/link)?")


@contextmanager
def serve_dashboard(registry: Registry, link_to: LinkTo, scope: tokens.Scope) -> Iterator[str]:
    """The link that opens the page, which is served until the block ends."""
    settings = RestSettings()
    server, access = ControlServer(settings), Access(tokens.Tokens.new(), settings.allowed_hosts)
    server.start(DashboardApp(registry, access, link_to))
    try:
        yield f"{server.address}{page.LOGIN_PREFIX}{access.sessions.new_code(scope)}"
    finally:
        server.close()


class DashboardApp:
    """The ASGI application. `link_to` makes the link that opens the page of a running job."""

    def __init__(self, registry: Registry, access: Access, link_to: LinkTo) -> None:
        self._registry = registry
        self._access = access
        self._link_to = link_to

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request_id = new_trigger_id()
            response = await self._respond(Request(scope, receive), request_id)
            await response(scope, receive, send)

    async def _respond(self, request: Request, request_id: str) -> Response:
        try:
            found = await self._serve(request)
        except RequestRefusedError as error:
            return refusal(error, request_id)
        except JobNotFoundError as error:
            return refusal(RequestRefusedError(404, "NOT_FOUND", str(error)), request_id)
        except PenstockError as error:
            return refusal(RequestRefusedError(503, error.code or "UNAVAILABLE", str(error)), request_id)
        return found if isinstance(found, Response) else json_response(200, found, request_id)

    async def _serve(self, request: Request) -> Response | dict[str, Any]:
        headers, path = request.scope["headers"], request.scope["path"]
        check_size(headers)
        self._access.check_origin(headers, is_link=page.is_link(path))
        check_path(request.scope.get("raw_path") or path.encode())
        refuse_token_in_query(request.scope["query_string"])
        if page.is_link(path) and request.method == "GET":
            cookie = page.cookie_name(self._access.host_of(headers))
            return page.log_in(self._access.sessions, path, cookie, self._access.scheme)
        try:
            caller = self._access.identify(headers)
        except RequestRefusedError:
            if request.method == "GET" and path == "/":
                return page.closed()
            raise
        if request.method == "GET" and (file := page.find_file(path, HOME)) is not None:
            return file
        if request.method == "GET" and path == "/registry":
            return await run_in_threadpool(self._list)
        found = _JOB.fullmatch(path)
        if found is not None and request.method == ("POST" if found[2] else "GET"):
            if not found[2]:
                return await run_in_threadpool(self._show, found[1])
            self._access.require_origin(headers)
            return {"link": await run_in_threadpool(self._link_to, found[1], caller.scope)}
        raise RequestRefusedError(404, "NOT_FOUND", "Not found.")

    def _list(self) -> dict[str, Any]:
        """All jobs, those that run first, then the newest."""
        records = job_queries.list_jobs(self._registry, job_queries.JobSelection.ALL)
        records.sort(key=lambda record: (record.ended, -record.started_ms))
        return {"jobs": [_line(record) for record in records]}

    def _show(self, job_id: str) -> dict[str, Any]:
        record = job_queries.job_status(self._registry, job_id)
        return {**_line(record), "failures": record.failures[::-1], "transitions": record.transitions, **_kept(record)}


def _line(record: JobRecord) -> dict[str, Any]:
    return {
        "id": record.job_id,
        "name": record.name,
        "status": record.status,
        "started": record.started_ms,
        "ended": record.ended_ms,
        "updated": record.updated_ms,
        "rows": record.rows,
        "rows-per-s": record.rows_per_s,
        "attempt": record.attempt,
        "parallelism": record.parallelism,
        "last-checkpoint": record.last_checkpoint,
        "has-page": record.rest is not None and bool(record.processes),
        "failure": record.failure,
    }


def _kept(record: JobRecord) -> dict[str, Any]:
    """The checkpoints that the job's log retains; what cannot be read is said."""
    if record.checkpoint_dir is None:
        return {"checkpoints": [], "problem": None}
    try:
        found, _ = retained_checkpoints(record.checkpoint_dir)
    except PenstockError as error:
        return {"checkpoints": [], "problem": str(error)}
    own: list[RetainedCheckpoint] = [one for one in found if one.job_id == record.job_id]
    return {"checkpoints": [msgspec.to_builtins(one) for one in reversed(own)], "problem": None}
