"""The control server as an ASGI application.

A request is checked in this order: host and origin, path, token, route, scope of the token, body. The first check that
fails ends it. Every response has a request id; an error response holds its message and nothing else.
"""

import asyncio
import re
import traceback
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from penstock.clock import Clock, SystemClock
from penstock.control.running_job import ControlledJob
from penstock.control.tokens import Scope as TokenScope
from penstock.errors import (
    CheckpointFailedError,
    JobConflictError,
    JobNotFoundError,
    PenstockError,
    RequestRefusedError,
    UsageError,
)
from penstock.model.ids import new_trigger_id
from penstock.rest import page
from penstock.rest.access import Access, Caller, check_path, check_size, parse_query, refuse_token_in_query
from penstock.rest.bodies import MAX_BODY_BYTES, decode_body
from penstock.rest.direct_queries import QueryHead
from penstock.rest.endpoint import JSON, Answer, Call, Endpoint
from penstock.rest.event_stream import EventStreams
from penstock.rest.job_views import job_figures
from penstock.rest.page_routes import EVENTS
from penstock.rest.routes import ENDPOINTS
from penstock.rest.state_routes import QUERIES

READ_LIMIT_S = 30.0
PREFIXES = ("", "/v1")
SECURITY_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}

_KEY = re.compile(r"[\x21-\x7e]{1,128}")


@dataclass(frozen=True)
class Limits:
    """How large a body may be, and how long reading it may take."""

    body_bytes: int = MAX_BODY_BYTES
    read_s: float = READ_LIMIT_S


DEFAULT_LIMITS = Limits()


class ControlApp:
    """The ASGI application of one job."""

    def __init__(
        self, control: ControlledJob, access: Access, limits: Limits = DEFAULT_LIMITS, clock: Clock | None = None
    ) -> None:
        self._control = control
        self._access = access
        self._limits = limits
        self._clock = clock or SystemClock()
        self._routes = [
            (Route(prefix + endpoint.path, _unused, methods=[endpoint.method]), endpoint)
            for endpoint in ENDPOINTS
            for prefix in PREFIXES
        ]
        self._streams = EventStreams()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
        elif scope["type"] == "http":
            request_id = new_trigger_id()
            response = await self._respond(Request(scope, receive), request_id)
            await response(scope, receive, send)

    async def _respond(self, request: Request, request_id: str) -> Response:
        try:
            answer = await self._serve(request, request_id)
        except RequestRefusedError as error:
            return refusal(error, request_id)
        except ClientDisconnect:
            return refusal(RequestRefusedError(400, "BAD_REQUEST", "the client has disconnected"), request_id)
        except Exception:
            return self._internal_error(request_id)
        if isinstance(answer, Response):
            return answer
        if answer.media_type != JSON:
            headers = {**SECURITY_HEADERS, "x-request-id": request_id, "content-type": answer.media_type}
            return Response(answer.data, answer.status, headers)
        return json_response(answer.status, answer.data, request_id)

    def _internal_error(self, request_id: str) -> Response:
        failure = f"request {request_id} failed\n{traceback.format_exc()}"
        self._control.log.write("rest", failure, level="ERROR")
        message = f"internal error; see request {request_id} in the driver's log"
        return refusal(RequestRefusedError(500, "INTERNAL", message), request_id)

    def answer_query(self, head: QueryHead, body: bytes) -> tuple[bytes, bool]:
        """The whole response to a query, as `__call__` gives it, and whether the connection ends after it."""
        request_id = new_trigger_id()
        try:
            answer = self._answer_query(head, body)
            response = json_response(answer.status, answer.data, request_id)
        except RequestRefusedError as error:
            response = refusal(error, request_id)
        except Exception:
            response = self._internal_error(request_id)
        return to_bytes(response), response.headers.get("connection") == "close"

    def _answer_query(self, head: QueryHead, body: bytes) -> Answer:
        """The same checks as of all other requests, in the same order. A plain query has no part that needs others."""
        check_size(head.headers)
        self._access.check_origin(head.headers)
        check_path(head.path)
        caller = self._access.identify(head.headers)
        if len(body) > self._limits.body_bytes:
            raise self._too_large()
        check_json(body, dict(head.headers).get(b"content-type", b"").decode("latin-1"))
        return handle(
            QUERIES, self._new_call({"jobid": head.job_id}, body=decode_body(body, QUERIES.body), scope=caller.scope)
        )

    async def _serve(self, request: Request, request_id: str) -> Answer | Response:
        headers, is_link = request.scope["headers"], page.is_link(request.scope["path"])
        check_size(headers)
        self._access.check_origin(headers, is_link=is_link)
        check_path(request.scope.get("raw_path") or request.scope["path"].encode())
        refuse_token_in_query(request.scope["query_string"])
        if is_link and request.method == "GET":
            cookie = page.cookie_name(self._access.host_of(headers))
            return page.log_in(self._access.sessions, request.scope["path"], cookie, self._access.scheme)
        caller = self._identify(request)
        if isinstance(caller, Response):
            return caller
        if request.method == "GET" and (file := page.find_file(request.scope["path"])) is not None:
            return file
        endpoint, parameters = self._find(request.scope)
        if endpoint is EVENTS:
            return self._follow(request, endpoint, parameters)
        if endpoint.scope == "read":
            return await self._call(request, endpoint, parameters, caller)
        return await self._change(request, endpoint, parameters, caller, request_id)

    def _follow(self, request: Request, endpoint: Endpoint, parameters: dict[str, str]) -> Response:
        """The events of the job, until it ends."""
        parse_query(request.scope["query_string"], endpoint.query)
        endpoint.handle(self._new_call(parameters))
        headers = {**SECURITY_HEADERS, "x-request-id": new_trigger_id()}
        return self._streams.open(lambda: job_figures(self._control, self._clock.now_ms()), headers)

    def _new_call(
        self,
        path: dict[str, str],
        query: dict[str, str] | None = None,
        body: Any = None,
        idempotency_key: str | None = None,
        scope: TokenScope = "read",
    ) -> Call:
        now_ms = self._clock.now_ms()
        return Call(self._control, path, query or {}, body, idempotency_key, now_ms, self._access.sessions, scope)

    def _identify(self, request: Request) -> Caller | Response:
        """The caller, or a page that says how to become one for a browser that opens the page without a session."""
        try:
            return self._access.identify(request.scope["headers"])
        except RequestRefusedError:
            if request.method == "GET" and request.scope["path"] == "/":
                return page.closed()
            raise

    async def _change(
        self, request: Request, endpoint: Endpoint, parameters: dict[str, str], caller: Caller, request_id: str
    ) -> Answer:
        """Serve a request that may change something. It is audited whatever its outcome (security S22)."""
        status = 500
        try:
            if caller.scope != "admin":
                raise RequestRefusedError(403, "FORBIDDEN", "this needs the admin token, not the read token")
            if caller.is_page:
                self._access.require_origin(request.scope["headers"])
            answer = await self._call(request, endpoint, parameters, caller)
            status = answer.status
            return answer
        except RequestRefusedError as error:
            status = error.status
            raise
        finally:
            self._control.log.audit(
                f"{endpoint.method} {endpoint.path}",
                job=self._control.job.job_id,
                token=caller,
                request=request_id,
                status=status,
            )

    async def _call(self, request: Request, endpoint: Endpoint, parameters: dict[str, str], caller: Caller) -> Answer:
        query = parse_query(request.scope["query_string"], endpoint.query)
        key = request.headers.get("idempotency-key")
        if key is not None and not _KEY.fullmatch(key):
            raise RequestRefusedError(400, "BAD_REQUEST", "Idempotency-Key must have 1 to 128 printable characters")
        body = decode_body(await self._read_body(request), endpoint.body)
        call = self._new_call(parameters, query, body, key, caller.scope)
        return await run_in_threadpool(handle, endpoint, call)

    def _find(self, scope: Scope) -> tuple[Endpoint, dict[str, str]]:
        """The endpoint of a path, and the ids in it."""
        is_known = False
        for route, endpoint in self._routes:
            match, found = route.matches(scope)
            if match is Match.FULL:
                return endpoint, found["path_params"]
            is_known = is_known or match is Match.PARTIAL
        if is_known:
            raise RequestRefusedError(405, "METHOD_NOT_ALLOWED", "this path does not allow this method")
        raise RequestRefusedError(404, "NOT_FOUND", "Not found.")

    async def _read_body(self, request: Request) -> bytes:
        """The whole body, read within the limits."""
        length = request.headers.get("content-length")
        if length is not None and (not length.isdigit() or int(length[:20]) > self._limits.body_bytes):
            raise self._too_large()
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise RequestRefusedError(415, "UNSUPPORTED_MEDIA_TYPE", "compressed bodies are not supported")
        try:
            data = await asyncio.wait_for(self._collect(request), self._limits.read_s)
        except asyncio.TimeoutError:
            raise RequestRefusedError(
                408, "TIMEOUT", f"the request was not complete within {self._limits.read_s:g} s"
            ) from None
        check_json(data, request.headers.get("content-type", ""))
        return data

    async def _collect(self, request: Request) -> bytes:
        data = bytearray()
        async for part in request.stream():
            data += part
            if len(data) > self._limits.body_bytes:
                raise self._too_large()
        return bytes(data)

    def _too_large(self) -> RequestRefusedError:
        return RequestRefusedError(413, "TOO_LARGE", f"the body is larger than {self._limits.body_bytes} bytes")


def check_json(body: bytes, content_type: str) -> None:
    """Refuse a body that is declared as anything but JSON."""
    kind = content_type.partition(";")[0].strip().lower()
    if body and kind != "application/json":
        raise RequestRefusedError(415, "UNSUPPORTED_MEDIA_TYPE", "the body must be JSON: application/json")


def handle(endpoint: Endpoint, call: Call) -> Answer:
    """The endpoint's answer; an error of the job becomes an HTTP error."""
    try:
        return endpoint.handle(call)
    except RequestRefusedError:
        raise
    except JobNotFoundError as error:
        raise RequestRefusedError(404, error.code or "NOT_FOUND", str(error)) from error
    except (JobConflictError, CheckpointFailedError) as error:
        raise RequestRefusedError(409, error.code or "CONFLICT", str(error)) from error
    except UsageError as error:
        raise RequestRefusedError(400, error.code or "BAD_REQUEST", str(error)) from error
    except PenstockError as error:
        raise RequestRefusedError(503, error.code or "UNAVAILABLE", str(error)) from error


def refusal(error: RequestRefusedError, request_id: str) -> Response:
    """An error response. It closes the connection if the request was not read to its end."""
    data = {"errors": [str(error)], "code": error.code, "request_id": request_id}
    response = json_response(error.status, data, request_id)
    if error.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    if error.retry_after_s is not None:
        response.headers["retry-after"] = str(error.retry_after_s)
    if error.status >= 400:
        response.headers["connection"] = "close"
    return response


def json_response(status: int, data: Any, request_id: str) -> Response:
    """A JSON response with the common headers."""
    headers = {**SECURITY_HEADERS, "x-request-id": request_id}
    return Response(msgspec.json.encode(data), status, headers, media_type="application/json")


def to_bytes(response: Response) -> bytes:
    """A response with its head."""
    head = [b"HTTP/1.1 %d %b" % (response.status_code, HTTPStatus(response.status_code).phrase.encode())]
    head += [b"%b: %b" % header for header in response.raw_headers]
    return b"\r\n".join((*head, b"", bytes(response.body)))


async def _unused(request: Request) -> Response:
    """Routes are only matched, never called."""
    raise AssertionError("routes are only matched, never called")
