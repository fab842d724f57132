"""POST requests to a control server over connections that stay open: a query takes less time than a handshake."""

import http.client
import json
import threading
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from penstock.control.driver_log import printable
from penstock.control.remote_job import ServerAddress
from penstock.errors import JobConflictError, JobError, NotReachableError, PenstockError, QueryRetryError, UsageError

MOST_IDLE = 16
MAX_ANSWER_BYTES = 64 << 20
_STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class HttpCalls:
    """Calls of one server. Several threads may call it; each call has a connection of its own."""

    def __init__(self, server: ServerAddress, timeout_s: float) -> None:
        parts = urlsplit(server.url)
        self._url = server.url
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._place = (parts.hostname or "", parts.port)
        self._timeout_s = timeout_s
        self._headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def post(self, path: str, body: bytes) -> bytes:
        """The body of the answer. A QueryRetryError says that the same call may succeed later."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        is_new = connection is None
        if connection is None:
            connection = self._kind(*self._place, timeout=self._timeout_s)
        try:
            try:
                return self._call(connection, path, body)
            except _STALE:  # the server has closed it meanwhile, and queries change nothing: ask again
                if is_new:
                    raise
                connection.close()
                connection = self._kind(*self._place, timeout=self._timeout_s)
                return self._call(connection, path, body)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            reason = printable(str(error)) or type(error).__name__
            raise NotReachableError(f"the control server {self._url} does not answer: {reason}") from None

    def _call(self, connection: http.client.HTTPConnection, path: str, body: bytes) -> bytes:
        connection.request("POST", path, body, self._headers)
        response = connection.getresponse()
        data = response.read(MAX_ANSWER_BYTES)
        if response.status != 200:
            connection.close()
            raise _error(self._url, response.status, response.getheader("retry-after"), data)
        with self._lock:
            if len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return data
        connection.close()
        return data

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()


def _error(url: str, status: int, retry_after: str | None, data: bytes) -> PenstockError:
    """The error of a response. No message contains the token."""
    found: Any = None
    with suppress(ValueError):
        found = json.loads(data)
    messages = found.get("errors") if isinstance(found, dict) else None
    message = printable(str(messages[0])) if isinstance(messages, list) and messages else f"HTTP status {status}"
    if status == 503 and retry_after is not None and retry_after.isdigit():
        code = str(found.get("code", "")) if isinstance(found, dict) else ""
        return QueryRetryError(message, int(retry_after), code)
    if status in (401, 403, 421):
        return NotReachableError(f"{url} refused access: {message}")
    if status == 409:
        return JobConflictError(message)
    return UsageError(message) if status in (400, 404, 413) else JobError(message)
