"""POST requests to a control server over connections that stay open: a query takes less time than a handshake."""

import json
import threading
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from penstock.control.driver_log import printable
from penstock.control.remote_job import ServerAddress
from penstock.errors import JobConflictError, JobError, NotReachableError, PenstockError, QueryRetryError, UsageError
from penstock.query.http_connection import FAILURES, HttpConnection, HttpResponse

MOST_IDLE = 16
MAX_ANSWER_BYTES = 64 << 20
_STALE = (ConnectionResetError, BrokenPipeError)


class HttpCalls:
    """Calls of one server. Several threads may call it; each call has a connection of its own."""

    def __init__(self, server: ServerAddress, timeout_s: float) -> None:
        self._url = server.url
        self._place = urlsplit(server.url)
        self._timeout_s = timeout_s
        self._token = server.token
        self._heads: dict[str, bytes] = {}
        """By the path: few paths are called many times."""
        self._idle: list[HttpConnection] = []
        self._lock = threading.Lock()

    def post(self, path: str, body: bytes) -> bytes:
        """The body of the answer. A QueryRetryError says that the same call may succeed later."""
        if path not in self._heads:
            self._heads[path] = _request_head(path, self._place.netloc, self._token)
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        try:
            response = self._call(connection, self._heads[path], body)
        except FAILURES as error:
            reason = printable(str(error)) or type(error).__name__
            raise NotReachableError(f"the control server {self._url} does not answer: {reason}") from None
        if response.status != 200:
            retry_after = response.headers.get(b"retry-after", b"").decode("latin-1")
            raise _error(self._url, response.status, retry_after, response.body)
        return response.body

    def _call(self, connection: HttpConnection | None, head: bytes, body: bytes) -> HttpResponse:
        if connection is not None:
            with suppress(*_STALE):  # the server has closed it meanwhile, and queries change nothing: ask again
                return self._call_on(connection, head, body)
        return self._call_on(HttpConnection(self._place, self._timeout_s, MAX_ANSWER_BYTES), head, body)

    def _call_on(self, connection: HttpConnection, head: bytes, body: bytes) -> HttpResponse:
        try:
            response = connection.post(head, body)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if response.can_continue and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return response
        connection.close()
        return response

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()


def _request_head(path: str, host: str, token: str) -> bytes:
    """All of a request before the length of its body."""
    if not all(text.isascii() and text.isprintable() and " " not in text for text in (path, host, token)):
        raise UsageError("the path, the server or its token has characters that a request cannot have")
    lines = (
        f"POST {path} HTTP/1.1",
        f"Host: {host}",
        "Accept-Encoding: identity",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
    )
    return "".join(f"{line}\r\n" for line in lines).encode()


def _error(url: str, status: int, retry_after: str, data: bytes) -> PenstockError:
    """The error of a response. No message contains the token."""
    found: Any = None
    with suppress(ValueError):
        found = json.loads(data)
    messages = found.get("errors") if isinstance(found, dict) else None
    message = printable(str(messages[0])) if isinstance(messages, list) and messages else f"HTTP status {status}"
    if status == 503 and retry_after.isdigit():
        code = str(found.get("code", "")) if isinstance(found, dict) else ""
        return QueryRetryError(message, int(retry_after), code)
    if status in (401, 403, 421):
        return NotReachableError(f"{url} refused access: {message}")
    if status == 409:
        return JobConflictError(message)
    return UsageError(message) if status in (400, 404, 413) else JobError(message)
